"""A file where a folder of the catalog belongs: 503, nothing is kept under the key, removing it mends it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlparse

import pytest

from tests.faults.answers import Answer, Sender
from tests.faults.consistency import check_consistency
from tests.faults.deployment import Deployment
from tests.faults.requests import SCHEMA, creating, setting, table_path, transaction, unique_key
from tests.services.catalog import CatalogServer
from tests.view_documents import view_version

VIEW_PATH = "/namespaces/ns/views/v"


class Case(NamedTuple):
    """A request and the folder that is blocked for it, below the warehouse or the location of an entry."""

    path: str
    body: object
    blocked: str


CASES = {
    "commit": Case(table_path("t"), setting({"change": "1"}), "t/metadata"),
    "commit, the whole table": Case(table_path("t"), setting({"change": "2"}), "t"),
    "transaction": Case(
        "/transactions/commit", transaction({name: setting({"change": "3"}) for name in "tu"}), "t/metadata"
    ),
    "create": Case("/namespaces/ns/tables", creating("w"), "/ns"),
    "staged create": Case("/namespaces/ns/tables", creating("x", **{"stage-create": True}), "/ns"),
    "view": Case(VIEW_PATH, setting({"change": "4"}), "v/metadata"),
}


class Bench(NamedTuple):
    """A service with the tables `t` and `u` and the view `v`."""

    sender: Sender
    folder: Path
    store_url: str

    def block(self, name: str) -> Callable[[], None]:
        """Moves a folder away and puts a file in its place; what is returned takes that back."""
        folder = self._path(name)
        aside = folder.with_name(f"{folder.name}-aside")
        folder.rename(aside)
        folder.write_bytes(b"in the way")

        def unblock() -> None:
            folder.unlink()
            aside.rename(folder)

        return unblock

    def _path(self, name: str) -> Path:
        entry, _, rest = name.partition("/")
        if not entry:
            return self.folder / "warehouse" / rest
        path = VIEW_PATH if entry == "v" else table_path(entry)
        return Path(urlparse(self.sender.metadata(path)["location"]).path) / rest


@pytest.fixture
def bench(tmp_path: Path, start_catalog: Callable[..., CatalogServer]) -> Bench:
    deployment = Deployment(tmp_path / "data", start_catalog)
    sender = Sender(deployment.start().base_url)
    assert sender.send("POST", "/namespaces", {"namespace": ["ns"]}).status == 200
    for name in "tu":
        assert sender.send("POST", "/namespaces/ns/tables", creating(name)).status == 200
    view = {"name": "v", "schema": SCHEMA, "view-version": view_version(), "properties": {}}
    assert sender.send("POST", "/namespaces/ns/views", view).status == 200
    return Bench(sender, tmp_path / "data", deployment.store_url)


def test_a_file_in_the_way_is_a_fault_of_storage(bench: Bench) -> None:
    for name, case in CASES.items():
        key = unique_key()
        unblock = bench.block(case.blocked)
        answers: list[Answer] = [bench.sender.send("POST", case.path, case.body, key=key) for _ in range(2)]
        assert {answer.status for answer in answers} == {503}, (name, answers)
        assert {answer.error_type for answer in answers} == {"ServiceUnavailableException"}
        assert "a file where a folder of" in answers[0].body["error"]["message"]
        unblock()
        done = bench.sender.send("POST", case.path, case.body, key=key)
        assert done.status in (200, 204), (name, done)
        assert bench.sender.send("POST", case.path, case.body, key=key).body == done.body
    check_consistency(bench.store_url)
