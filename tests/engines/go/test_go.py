from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog

from tests.clients.warehouses import Warehouse, unique
from tests.engines.client_flows import MORE, ORDERS, SCHEMA, ClientFlows, properties_for, rows_of, sorted_rows
from tests.engines.conftest import EngineReport
from tests.engines.line_client import LineClient
from tests.engines.programs import ProgramMissingError, cache_folder, program

_SOURCE = Path(__file__).parent / "client"
_BUILD_S = 1500


@pytest.fixture(scope="session")
def go_client() -> Path:
    """The client, built; the modules come from the Go module proxy."""
    go = program("go", "Go 1.26 or newer comes from go.dev or a package of the system")
    built = cache_folder() / "floecat-go-client"
    done = subprocess.run(
        [str(go), "build", "-mod=readonly", "-o", str(built), "."],
        cwd=_SOURCE,
        capture_output=True,
        text=True,
        timeout=_BUILD_S,
        env=os.environ | {"CGO_ENABLED": "0"},
        check=False,
    )
    if "dial tcp" in done.stderr or "no such host" in done.stderr:
        raise ProgramMissingError(f"The Go module proxy was not reached: {done.stderr.splitlines()[-1]}")
    assert not done.returncode, done.stderr
    return built


@pytest.fixture(scope="module")
def client(go_client: Path, warehouse: Warehouse, engine: EngineReport) -> Iterator[LineClient]:
    """iceberg-go, connected."""
    engine.version = "iceberg-go 0.7.0"
    with LineClient(go_client, properties_for(warehouse)) as started:
        yield started


class TestGo(ClientFlows):
    """The common flows, and what only iceberg-go has. It takes formats of delete files in capitals only."""

    @pytest.mark.parametrize("version", ["2", "3"])
    @pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
    def test_rows_are_deleted_and_overwritten(
        self, client: LineClient, engine: EngineReport, lake: Catalog, namespace: str, mode: str, version: str
    ) -> None:
        name = [namespace, "orders"]
        properties = {"write.delete.mode": mode, "format-version": version}
        client.do("create table", table=name, schema=SCHEMA, properties=properties)
        client.do("append", table=name, rows=ORDERS + MORE)
        with engine.step(f"delete by a filter, {mode}, version {version}"):
            client.do("delete", table=name, filter={"type": "eq", "term": "id", "value": 2})
            left = [ORDERS[0], ORDERS[2], *MORE]
            assert sorted_rows(client.do("read", table=name)) == left
            assert rows_of(lake, name) == left
        with engine.step("the service plans the same"):
            assert sorted_rows(client.do("read", table=name, planning="remote")) == left
        if mode == "merge-on-read":
            return  # the rows that it deleted so come back with its next overwrite: a fault of iceberg-go 0.7
        with engine.step("overwrite by a filter"):
            changed = [{"id": 3, "region": "north", "amount": 3.0}]
            client.do("overwrite", table=name, rows=changed, filter={"type": "eq", "term": "id", "value": 3})
            assert rows_of(lake, name) == [ORDERS[0], *changed, *MORE]

    def test_branches_tags_and_rollback(
        self, client: LineClient, engine: EngineReport, lake: Catalog, namespace: str
    ) -> None:
        name = [namespace, "orders"]
        client.do("create table", table=name, schema=SCHEMA, properties={})
        first = client.do("append", table=name, rows=ORDERS)["snapshots"][0]
        with engine.step("a tag and a branch"):
            client.do("tag", table=name, name="before")
            client.do("branch", table=name, name="audit")
            client.do("append", table=name, rows=MORE, ref="audit")
            assert sorted_rows(client.do("read", table=name, ref="audit")) == ORDERS + MORE
            assert sorted_rows(client.do("read", table=name)) == ORDERS
        with engine.step("roll back"):
            client.do("append", table=name, rows=MORE)
            client.do("roll back", table=name, snapshot=first)
            assert rows_of(lake, name) == ORDERS
            assert sorted_rows(client.do("read", table=name, ref="before")) == ORDERS

    def test_partitions_and_columns_change(
        self, client: LineClient, engine: EngineReport, lake: Catalog, namespace: str
    ) -> None:
        name = [namespace, "orders"]
        client.do("create table", table=name, schema=SCHEMA, properties={}, partition="region")
        client.do("append", table=name, rows=ORDERS[:2])
        with engine.step("a partition field more"):
            client.do("partition by", table=name, name="id")
            client.do("append", table=name, rows=MORE)
            assert rows_of(lake, name) == ORDERS[:2] + MORE
        with engine.step("rename a column; the service plans by the new name"):
            client.do("rename column", table=name, name="amount", to=["total"])
            asked = {"filter": {"type": "gt", "term": "total", "value": 1.0}, "planning": "remote"}
            assert sorted(row["id"] for row in client.do("read", table=name, **asked)) == [1, 4]

    def test_several_tables_in_one_commit(
        self, client: LineClient, engine: EngineReport, lake: Catalog, namespace: str
    ) -> None:
        names = [[namespace, unique("part")] for _ in range(3)]
        for name in names:
            client.do("create table", table=name, schema=SCHEMA, properties={})
        with engine.step("append to three tables in one commit"):
            client.do("append to several", tables=names, rows=ORDERS)
            for name in names:
                assert rows_of(lake, name) == ORDERS

    def test_orphans(self, client: LineClient, engine: EngineReport, namespace: str) -> None:
        name = [namespace, "orders"]
        client.do("create table", table=name, schema=SCHEMA, properties={})
        client.do("append", table=name, rows=ORDERS)
        with engine.step("its search for orphans finds no file of the table"):
            assert not client.do("orphans", table=name)
