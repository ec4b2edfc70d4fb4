"""What is answered at once equals what the application answers."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from litestar.testing import TestClient

from floecat.auth.principals import DEVELOPER, Principal
from floecat.errors import StoreUnavailableError
from floecat.identifiers.namespace import TableIdentifier
from floecat.runtime import Kernel, open_kernel
from floecat_rest.app import create_app
from tests.delta_tables import writable_copy

SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}
TABLE = "/v1/floecat/namespaces/a%1Fb/tables/t"


@pytest.fixture
def client(kernel: Kernel) -> Iterator[TestClient]:
    with TestClient(
        create_app(kernel.settings, kernel), base_url="http://127.0.0.1", raise_server_exceptions=False
    ) as made:
        made.headers["accept-encoding"] = "identity"
        for namespace in (["a"], ["a", "b"]):
            assert made.post("/v1/namespaces", json={"namespace": namespace}).status_code == 200
        created = made.post(TABLE.removesuffix("/t"), json={"name": "t", "schema": SCHEMA})
        assert created.status_code == 200
        yield made


def at_once(kernel: Kernel, path: str, client: TestClient, encoding: str = "identity") -> bool:
    """Whether a request needs no thread: such a load asks `FastLoads` and nothing else."""
    asked = []
    load = kernel.catalog.loader.start
    kernel.catalog.loader.start = lambda *arguments: asked.append(path) or load(*arguments)  # type: ignore[method-assign]
    try:
        assert client.get(path, headers={"accept-encoding": encoding}).status_code in (200, 304)
    finally:
        del kernel.catalog.loader.start
    return not asked


def test_a_load_from_memory_is_answered_at_once(kernel: Kernel, client: TestClient) -> None:
    client.get(TABLE).raise_for_status()
    assert at_once(kernel, TABLE, client)
    assert at_once(kernel, f"{TABLE}?snapshots=all", client)
    assert not at_once(kernel, f"{TABLE}?snapshots=refs", client)
    assert at_once(kernel, f"{TABLE}?snapshots=refs", client)  # worked out by the request before


def test_both_ways_answer_the_same(kernel: Kernel, client: TestClient) -> None:
    quick = client.get(TABLE)
    slow = client.get(f"{TABLE}?snapshots=all&unknown=1")
    assert quick.content == slow.content
    assert quick.headers["etag"] == slow.headers["etag"]
    assert quick.headers["content-type"] == slow.headers["content-type"]
    assert "x-request-id" in quick.headers


def test_the_current_copy_is_not_sent_again(client: TestClient) -> None:
    etag = client.get(TABLE).headers["etag"]
    answer = client.get(TABLE, headers={"if-none-match": f'"other", {etag}'})
    assert answer.status_code == 304
    assert answer.content == b""


def test_compressed_when_asked_for(client: TestClient) -> None:
    client.post(TABLE, json={"requirements": [], "updates": [_property("x" * 2000)]}).raise_for_status()
    with client.stream("GET", TABLE, headers={"accept-encoding": "gzip"}) as answer:
        assert answer.headers["content-encoding"] == "gzip"
        raw = b"".join(answer.iter_raw())
    assert gzip.decompress(raw) == client.get(TABLE).content


@pytest.mark.parametrize("query", ["", "?snapshots=refs"])
def test_a_large_answer_that_is_compressed_already_is_sent_at_once(
    kernel: Kernel, client: TestClient, query: str
) -> None:
    client.post(TABLE, json={"requirements": [], "updates": [_property("x" * 40_000)]}).raise_for_status()
    path = TABLE + query
    client.get(path).raise_for_status()
    assert at_once(kernel, path, client)
    assert not at_once(kernel, path, client, "gzip")
    assert at_once(kernel, path, client, "gzip")
    with client.stream("GET", path, headers={"accept-encoding": "gzip"}) as answer:
        assert answer.headers["content-encoding"] == "gzip"
        assert gzip.decompress(b"".join(answer.iter_raw())) == client.get(path).content


def test_a_load_from_memory_is_one_statement(kernel: Kernel, client: TestClient) -> None:
    client.get(TABLE).raise_for_status()
    call = kernel.catalog.calls.open(
        Principal(DEVELOPER, kernel.settings.gateway.default_account_id), "floecat"
    )
    identifier = TableIdentifier(("a", "b"), "t")
    with kernel.store.count_statements() as counter:
        load = kernel.catalog.fast_loads.load(call, identifier, "all", None)
        assert load.state == ("waits" if kernel.store.at_once is None else "loaded")
        if load.state == "waits":
            load = kernel.catalog.fast_loads.load(call, identifier, "all", None, may_wait=True)
    assert load.state == "loaded"
    assert load.table is not None
    assert (counter.statements, counter.transactions) == (1, 0)


def test_a_table_that_went_and_came_back_is_answered_at_once_again(
    kernel: Kernel, client: TestClient
) -> None:
    here, there = ({"namespace": ["a", "b"], "name": name} for name in ("t", "u"))
    client.get(TABLE).raise_for_status()
    for source, destination in ((here, there), (there, here)):
        body = {"source": source, "destination": destination}
        assert client.post("/v1/tables/rename", json=body).status_code == 204
        assert client.get(TABLE).status_code == (404 if source is here else 200)
    assert at_once(kernel, TABLE, client)


def test_one_document_under_two_names(kernel: Kernel, client: TestClient) -> None:
    location = client.get(TABLE).json()["metadata-location"]
    body = {"name": "other", "metadata-location": location}
    client.post("/v1/namespaces/a/register", json=body).raise_for_status()
    other = "/v1/floecat/namespaces/a/tables/other"
    client.get(other).raise_for_status()
    assert client.delete(other).status_code == 204
    assert client.get(other).status_code == 404
    client.get(TABLE).raise_for_status()
    assert at_once(kernel, TABLE, client)


def test_a_commit_of_another_process_is_seen(kernel: Kernel, client: TestClient) -> None:
    client.get(TABLE).raise_for_status()
    assert at_once(kernel, TABLE, client)
    other = open_kernel(kernel.settings)
    try:
        with TestClient(create_app(other.settings, other), base_url="http://127.0.0.1") as elsewhere:
            committed = elsewhere.post(TABLE, json={"requirements": [], "updates": [_property("new")]})
            assert committed.status_code == 200
    finally:
        other.close()
    loaded = msgspec.json.decode(client.get(TABLE).content)
    assert loaded["metadata"]["properties"]["k"] == "new"


def test_a_dropped_table_is_missing(client: TestClient) -> None:
    client.get(TABLE).raise_for_status()
    assert client.delete(TABLE).status_code == 204
    answer = client.get(TABLE)
    assert answer.status_code == 404
    assert answer.json()["error"]["type"] == "NoSuchTableException"


def test_a_delta_table_is_answered_at_once_until_its_log_is_due(
    kernel: Kernel, client: TestClient, tmp_path: Path
) -> None:
    folder = writable_copy("kernel-rs/table-with-dv-small", tmp_path / "warehouse" / "delta")
    path = "/management/v1/catalogs/floecat/namespaces/a/tables"
    body = {"name": "d", "format": "delta", "location": folder.as_uri()}
    assert client.post(path, json=body).json()["snapshot-id"] == 1
    table = "/v1/floecat/namespaces/a/tables/d"
    slow = client.get(f"{table}?snapshots=all&unknown=1")
    assert at_once(kernel, table, client)
    assert client.get(table).content == slow.content
    assert kernel.delta.refresh_service is not None
    kernel.delta.refresh_service._looks.clear()  # as when the time has come
    assert not at_once(kernel, table, client)
    assert at_once(kernel, table, client)


def _property(value: str) -> dict[str, object]:
    return {"action": "set-properties", "updates": {"k": value}}


def test_a_store_that_fails_is_answered_in_shape(
    kernel: Kernel, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def fail(*_: object) -> None:
        asked.append(1)
        raise StoreUnavailableError("The store is not available")

    client.get(TABLE).raise_for_status()
    remote = kernel.store.at_once is None
    for method in ("find_table", "confirm_table"):
        monkeypatch.setattr(kernel.parts.entries, method, fail)
    answer = client.get(TABLE)
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["error"]["code"] == 503
    assert "x-request-id" in answer.headers
    # a remote store is waited for once; a local one gives up at once, and is waited for in a thread
    assert len(asked) == (1 if remote else 2)
