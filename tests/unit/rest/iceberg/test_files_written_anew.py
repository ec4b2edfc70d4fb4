"""Two processes over one store, and metadata files that are another table's under the same name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlparse

import pytest
import sqlalchemy as sa
from litestar.testing import TestClient

from floecat.runtime import Kernel, open_kernel, prepare_store
from floecat.settings import Settings, StorageSettings, StoreSettings
from floecat.store.schema import entries, metadata_documents
from floecat_rest.app import create_app
from tests.view_documents import view_version

NAMESPACE = "/v1/floecat/namespaces/n"
TABLE = f"{NAMESPACE}/tables/t"
VIEW = f"{NAMESPACE}/views/v"
ONE, TWO = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
SCHEMA = {
    "type": "struct",
    "fields": [{"id": n, "name": f"column_{n}", "required": False, "type": "long"} for n in range(1, 20)],
}
VERSION = view_version(["n"])


class Pair(NamedTuple):
    """Two clients, of a process each, and the kernel of the first."""

    here: TestClient[Any]
    there: TestClient[Any]
    kernel: Kernel


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def pair(
    tmp_path: Path, request: pytest.FixtureRequest, upgraded_store: Callable[[str], str]
) -> Iterator[Pair]:
    url = upgraded_store(request.param)
    settings = Settings(
        data_dir=str(tmp_path), storage=StorageSettings(fsync=False), store=StoreSettings(url=url)
    )
    prepare_store(settings)
    one, two = open_kernel(settings), open_kernel(settings)
    with (
        TestClient(create_app(settings, one), base_url="http://127.0.0.1") as here,
        TestClient(create_app(settings, two), base_url="http://127.0.0.1") as there,
    ):
        assert here.post("/v1/namespaces", json={"namespace": ["n"]}).status_code == 200
        yield Pair(here, there, one)
    one.close()
    two.close()


class File:
    """A metadata file that is written again and again."""

    def __init__(self, made: dict[str, Any], uuid_field: str) -> None:
        self.document = made["metadata"]
        self.location = f"{self.document['location']}/metadata/v1.metadata.json"
        self._uuid_field = uuid_field

    def write(self, uuid: str) -> None:
        text = json.dumps(self.document | {self._uuid_field: uuid})
        Path(urlparse(self.location).path).write_text(text)


@pytest.fixture
def file(pair: Pair) -> File:
    made = pair.here.post(f"{NAMESPACE}/tables", json={"name": "source", "schema": SCHEMA})
    return File(made.json(), "table-uuid")


def _register(pair: Pair, location: str, *, overwrite: bool = False) -> None:
    body = {"name": "t", "metadata-location": location, "overwrite": overwrite}
    pair.here.post(f"{NAMESPACE}/register", json=body).raise_for_status()


def _uuids(pair: Pair, path: str, field: str = "table-uuid") -> list[str]:
    found = []
    for client in (pair.here, pair.there):
        for encoding in ("gzip", "identity"):
            for query in ("", "?snapshots=all&unknown=1"):
                answer = client.get(path + query, headers={"accept-encoding": encoding})
                found.append(answer.json()["metadata"][field])
    return found


def _set(value: str, *requirements: dict[str, Any]) -> dict[str, Any]:
    updates = [{"action": "set-properties", "updates": {"x": value}}]
    return {"requirements": requirements, "updates": updates}


def _assert_new(pair: Pair, tags: list[str]) -> None:
    assert set(_uuids(pair, TABLE)) == {TWO}
    for client in (pair.here, pair.there):
        for tag in tags:
            assert client.get(TABLE, headers={"if-none-match": tag}).status_code == 200
        wrong = client.post(TABLE, json=_set("y", {"type": "assert-table-uuid", "uuid": ONE}))
        assert wrong.status_code == 409
    done = pair.there.post(TABLE, json=_set("y", {"type": "assert-table-uuid", "uuid": TWO}))
    assert done.status_code == 200
    assert done.json()["metadata"]["table-uuid"] == TWO


def test_a_table_that_was_dropped_and_registered_again_is_the_new_one(pair: Pair, file: File) -> None:
    file.write(ONE)
    _register(pair, file.location)
    assert set(_uuids(pair, TABLE)) == {ONE}
    tag = pair.here.get(TABLE).headers["etag"]
    assert pair.here.delete(TABLE).status_code == 204
    file.write(TWO)
    _register(pair, file.location)
    _assert_new(pair, [tag])


def test_an_entry_that_was_registered_over_from_a_changed_file_is_the_new_one(pair: Pair, file: File) -> None:
    """The entry stays, and its file was not current when it was changed."""
    file.write(ONE)
    _register(pair, file.location)
    assert set(_uuids(pair, TABLE)) == {ONE}
    tags = [pair.here.get(TABLE).headers["etag"]]
    tags.append(pair.here.post(TABLE, json=_set("between")).headers["etag"])
    file.write(TWO)
    _register(pair, file.location, overwrite=True)
    _assert_new(pair, tags)


def test_two_tables_of_one_file_that_changed_are_two(pair: Pair, file: File) -> None:
    file.write(ONE)
    _register(pair, file.location)
    assert set(_uuids(pair, TABLE)) == {ONE}
    file.write(TWO)
    body = {"name": "u", "metadata-location": file.location}
    pair.here.post(f"{NAMESPACE}/register", json=body).raise_for_status()
    assert set(_uuids(pair, f"{NAMESPACE}/tables/u")) == {TWO}
    assert set(_uuids(pair, TABLE)) == {ONE}


def test_a_view_that_was_dropped_and_registered_again_is_the_new_one(pair: Pair) -> None:
    made = pair.here.post(
        f"{NAMESPACE}/views",
        json={"name": "source", "schema": SCHEMA, "view-version": VERSION, "properties": {}},
    )
    file = File(made.json(), "view-uuid")
    for uuid in (ONE, TWO):
        file.write(uuid)
        body = {"name": "v", "metadata-location": file.location}
        pair.here.post(f"{NAMESPACE}/register-view", json=body).raise_for_status()
        assert set(_uuids(pair, VIEW, "view-uuid")) == {uuid}
        assert pair.here.delete(VIEW).status_code == 204


def test_a_replay_of_a_large_answer_is_of_the_table_that_it_was_about(pair: Pair, file: File) -> None:
    file.document["properties"]["large"] = "x" * 100_000
    file.write(ONE)
    body = {"name": "t", "metadata-location": file.location}
    headers = {"idempotency-key": "0190a1b2-0000-7000-8000-000000000001"}
    pair.here.post(f"{NAMESPACE}/register", json=body, headers=headers).raise_for_status()
    assert pair.here.delete(TABLE).status_code == 204
    file.write(TWO)
    _register(pair, file.location)
    for client in (pair.here, pair.there):
        again = client.post(f"{NAMESPACE}/register", json=body, headers=headers)
        assert again.status_code == 500
        assert again.json()["error"]["type"] == "CommitStateUnknownException"


@pytest.mark.parametrize(
    "content", [b"no JSON", b"", b'{"table-uuid": "\xff"}', b"[]", b'{"table-uuid": 1}', b"\x1f\x8bno gzip"]
)
def test_a_replay_of_a_large_answer_whose_file_is_none_any_more_is_the_table(
    pair: Pair, file: File, content: bytes
) -> None:
    file.document["properties"]["large"] = "x" * 100_000
    file.write(ONE)
    body = {"name": "t", "metadata-location": file.location}
    headers = {"idempotency-key": "0190a1b2-0000-7000-8000-000000000001"}
    made = pair.here.post(f"{NAMESPACE}/register", json=body, headers=headers).raise_for_status()
    Path(urlparse(file.location).path).write_bytes(content)
    for client in (pair.here, pair.there):
        again = client.post(f"{NAMESPACE}/register", json=body, headers=headers)
        assert (again.status_code, again.json()) == (200, made.json())


def test_a_store_that_was_set_back_is_believed(pair: Pair, file: File) -> None:
    """As a standby that had not all commits yet: it gives a version out a second time."""
    path = f"{NAMESPACE}/tables/source"
    of_source = entries.c.name == "source"
    store = pair.kernel.store
    with store._engine.connect() as conn:
        row = conn.execute(sa.select(entries).where(of_source)).mappings().one()
        of_document = metadata_documents.c.entry_id == row["id"]
        body = conn.execute(sa.select(metadata_documents).where(of_document)).mappings().one()
    pair.here.post(path, json=_set("lost")).raise_for_status()
    assert pair.here.get(path).json()["metadata"]["properties"]["x"] == "lost"
    tag = pair.here.get(path).headers["etag"]
    with store.write() as conn:
        conn.change(sa.update(entries).where(of_source).values(**row))
        conn.change(sa.update(metadata_documents).where(of_document).values(**body))
    pair.there.post(path, json=_set("won")).raise_for_status()
    answer = pair.here.get(path, headers={"if-none-match": tag, "accept-encoding": "gzip"})
    assert answer.status_code == 200
    assert answer.json()["metadata"]["properties"]["x"] == "won"
    assert pair.here.get(path).json()["metadata"]["properties"]["x"] == "won"
