"""What iceberg-go and iceberg-rust do alike: a class of flows that the tests of both inherit."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.catalog import Catalog

from tests.clients.connections import Connections
from tests.clients.warehouses import Warehouse, unique
from tests.engines.conftest import EngineReport
from tests.engines.line_client import ClientError, LineClient

__all__ = ["ORDERS", "ClientFlows", "properties_for", "rows_of", "sorted_rows"]

Row = dict[str, Any]

SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "type": "long", "required": False},
        {"id": 2, "name": "region", "type": "string", "required": False},
        {"id": 3, "name": "amount", "type": "double", "required": False},
    ],
}
ORDERS: list[Row] = [
    {"id": 1, "region": "east", "amount": 1.5},
    {"id": 2, "region": "west", "amount": None},
    {"id": 3, "region": "öst/ü", "amount": -0.5},
]
MORE: list[Row] = [{"id": 4, "region": None, "amount": 4.0}]


def properties_for(warehouse: Warehouse) -> dict[str, str]:
    """The settings that docs/clients/go.md and rust.md show."""
    asks = {"header.x-iceberg-access-delegation": "vended-credentials"} if warehouse.vends else {}
    return {"uri": warehouse.uri, "warehouse": warehouse.name} | warehouse.access_keys | asks


def sorted_rows(rows: list[Row]) -> list[Row]:
    """Rows by id; columns without a value are null."""
    return sorted(
        ({name: row.get(name) for name in ("id", "region", "amount")} for row in rows),
        key=lambda row: row["id"],
    )


def rows_of(catalog: Catalog, name: list[str]) -> list[Row]:
    """The rows as PyIceberg reads them."""
    return sorted_rows(catalog.load_table(tuple(name)).scan().to_arrow().to_pylist())


class ClientFlows:
    """Flows with the rows compared. `client` and `engine` are fixtures."""

    reads_deletes_of_duckdb: frozenset[str] = frozenset()
    """Format versions of tables whose deletes by DuckDB the client reads; the others it must refuse."""

    @pytest.fixture
    def lake(self, connections: Connections, warehouse: Warehouse) -> Catalog:
        return connections.pyiceberg(warehouse)

    @pytest.fixture
    def namespace(self, client: LineClient) -> str:
        name = unique("flows")
        client.do("create namespace", namespace=[name], properties={"owner": "me"})
        return name

    def test_namespaces(self, client: LineClient, engine: EngineReport) -> None:
        top, inner = unique("top"), "in.ner ü"
        with engine.step("create namespaces, one nested"):
            client.do("create namespace", namespace=[top], properties={"owner": "me"})
            client.do("create namespace", namespace=[top, "inner"], properties={})
        with engine.step("list, check and read them"):
            assert [top] in client.do("namespaces")
            assert client.do("namespaces", namespace=[top]) == [[top, "inner"]]
            assert client.do("namespace exists", namespace=[top, "inner"])
            assert not client.do("namespace exists", namespace=[top, "none"])
            assert client.do("namespace properties", namespace=[top])["owner"] == "me"
        with engine.step("a name with a dot, a blank and a letter beyond ASCII"):
            client.do("create namespace", namespace=[top, inner], properties={})
            assert [top, inner] in client.do("namespaces", namespace=[top])
        with engine.step("a namespace that is not empty stays"), pytest.raises(ClientError):
            client.do("drop namespace", namespace=[top])
        with engine.step("drop it"):
            client.do("drop namespace", namespace=[top, "inner"])
            assert not client.do("namespace exists", namespace=[top, "inner"])

    @pytest.mark.parametrize("partition", [None, "region"])
    @pytest.mark.parametrize("version", ["2", "3"])
    def test_rows_come_back(
        self,
        client: LineClient,
        engine: EngineReport,
        lake: Catalog,
        connections: Connections,
        warehouse: Warehouse,
        namespace: str,
        version: str,
        partition: str | None,
    ) -> None:
        name = [namespace, "orders"]
        # On the local disk iceberg-go decodes the percent signs of its own paths: nobody else finds the file.
        orders = [row | {"region": "north"} if partition and row["id"] == 3 else row for row in ORDERS]
        with engine.step("create a table"):
            client.do(
                "create table",
                table=name,
                schema=SCHEMA,
                properties={"format-version": version},
                **({"partition": partition} if partition else {}),
            )
            assert client.do("load table", table=name)["format-version"] == int(version)
        with engine.step("append, twice"):
            client.do("append", table=name, rows=orders)
            described = client.do("append", table=name, rows=MORE)
            assert len(described["snapshots"]) == 2
        with engine.step("read"):
            assert sorted_rows(client.do("read", table=name)) == orders + MORE
        with engine.step("PyIceberg reads the same"):
            assert rows_of(lake, name) == orders + MORE
        with engine.step("filter"):
            found = client.do("read", table=name, filter={"type": "eq", "term": "region", "value": "west"})
            assert sorted_rows(found) == orders[1:2]
        # PyIceberg 0.12 writes no manifests of version 3.
        if version == "2":
            with engine.step("read what PyIceberg appends"):
                table = lake.load_table(tuple(name))
                table.append(table.scan(row_filter="id = 2").to_arrow())
                assert [row["id"] for row in sorted_rows(client.do("read", table=name))] == [1, 2, 2, 3, 4]
        left = [row for row in rows_of(lake, name) if row["id"] != 1]
        connections.duckdb(warehouse).execute(f"DELETE FROM lake.{namespace}.orders WHERE id = 1")
        if version in self.reads_deletes_of_duckdb:
            with engine.step("read what DuckDB leaves when it deletes"):
                assert sorted_rows(client.do("read", table=name)) == left
        else:
            with engine.step("refuse deletes that it cannot read"), pytest.raises(ClientError):
                client.do("read", table=name)

    def test_a_table_changes(
        self, client: LineClient, engine: EngineReport, lake: Catalog, namespace: str
    ) -> None:
        name = [namespace, "orders"]
        client.do("create table", table=name, schema=SCHEMA, properties={})
        first = client.do("append", table=name, rows=ORDERS)["snapshots"][0]
        with engine.step("add a column, and read the rows from before"):
            client.do("add column", table=name, name="note")
            assert sorted_rows(client.do("read", table=name)) == ORDERS
        with engine.step("drop a column"):
            client.do("drop column", table=name, name="note")
            assert lake.load_table(tuple(name)).schema().column_names == ["id", "region", "amount"]
        with engine.step("set properties"):
            described = client.do("set properties", table=name, properties={"owner": "you"})
            assert described["properties"]["owner"] == "you"
        with engine.step("read an earlier snapshot"):
            client.do("append", table=name, rows=MORE)
            assert sorted_rows(client.do("read", table=name, snapshot=first)) == ORDERS
        with engine.step("expire snapshots"):
            assert len(client.do("expire", table=name)["snapshots"]) == 1
        with engine.step("version 2 becomes 3, and an append after it"):
            assert client.do("upgrade", table=name, version=3)["format-version"] == 3
            client.do("append", table=name, rows=[{"id": 5, "region": "v3", "amount": 5.0}])
            assert [row["id"] for row in rows_of(lake, name)] == [1, 2, 3, 4, 5]

    def test_a_table_is_renamed_registered_and_dropped(
        self, client: LineClient, engine: EngineReport, namespace: str, warehouse: Warehouse
    ) -> None:
        name, other = [namespace, "orders"], [namespace, "renamed"]
        client.do("create table", table=name, schema=SCHEMA, properties={})
        client.do("append", table=name, rows=ORDERS)
        with engine.step("a second table of the name is refused"), pytest.raises(ClientError):
            client.do("create table", table=name, schema=SCHEMA, properties={})
        with engine.step("rename"):
            client.do("rename table", table=name, to=other)
            assert not client.do("table exists", table=name)
            assert sorted_rows(client.do("read", table=other)) == ORDERS
        described = client.do("load table", table=other)
        with engine.step("drop, and the files stay"):
            client.do("drop table", table=other)
            assert warehouse.files_below(described["location"])
        with engine.step("register again"):
            client.do("register table", table=name, location=described["metadata-location"])
            assert sorted_rows(client.do("read", table=name)) == ORDERS
        with (
            engine.step("a registration of a missing file is refused"),
            pytest.raises(ClientError) as refused,
        ):
            client.do(
                "register table", table=other, location=f"{described['location']}/metadata/none.metadata.json"
            )
        assert "none.metadata.json" in str(refused.value)
        with engine.step("drop with purge"):
            client.do("purge table", table=name)
            assert not client.do("table exists", table=name)
            assert not warehouse.wait_until_empty(described["location"])
