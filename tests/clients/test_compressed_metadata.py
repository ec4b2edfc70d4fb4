"""Metadata files that are compressed for their size: clients read them through the catalog, and alone."""

from __future__ import annotations

from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable, Table

from tests.clients.connections import Connections
from tests.clients.readers import READERS
from tests.clients.warehouses import Warehouse, unique

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["a", "b"]})
EXPECTED = [(1, "a"), (2, "b")]
SNAPSHOTS = 6000


@pytest.fixture(scope="module")
def made() -> dict[str, Table]:
    """The table of each warehouse, once it is made."""
    return {}


@pytest.fixture
def table(connections: Connections, warehouse: Warehouse, made: dict[str, Table]) -> Table:
    """A table with more than a mebibyte of metadata, of which the last commit changed little."""
    if warehouse.kind not in made:
        catalog = connections.pyiceberg(warehouse)
        namespace = unique("large")
        catalog.create_namespace(namespace)
        small = catalog.create_table(f"{namespace}.t", ROWS.schema)
        small.append(ROWS)
        _commit(warehouse, namespace, [_snapshot(small, number) for number in range(1, SNAPSHOTS)])
        for number in range(2):
            _commit(warehouse, namespace, [{"action": "set-properties", "updates": {"n": str(number)}}])
        made[warehouse.kind] = catalog.load_table(f"{namespace}.t")
    found = made[warehouse.kind]
    assert found.metadata_location.endswith(".gz.metadata.json")
    return found


def _snapshot(table: Table, number: int) -> dict[str, Any]:
    snapshot = {
        "snapshot-id": number,
        "sequence-number": 0,
        "timestamp-ms": table.metadata.last_updated_ms,
        "summary": {"operation": "append", "total-records": str(number), "about": "a snapshot of no branch"},
        "manifest-list": f"{table.location()}/metadata/snap-{number}.avro",
        "schema-id": 0,
    }
    return {"action": "add-snapshot", "snapshot": snapshot}


def _commit(warehouse: Warehouse, namespace: str, updates: list[dict[str, Any]]) -> None:
    url = f"{warehouse.uri}/v1/{warehouse.name}/namespaces/{namespace}/tables/t"
    httpx.post(url, json={"requirements": [], "updates": updates}, timeout=60).raise_for_status()


@pytest.mark.spark
@pytest.mark.parametrize("reader", [name for name in READERS if name != "clickhouse"])
def test_through_the_catalog(
    connections: Connections, warehouse: Warehouse, table: Table, reader: str
) -> None:
    name = ".".join(table.name())
    assert READERS[reader](connections, warehouse, name, ("id", "name")) == EXPECTED


@pytest.mark.s3
@pytest.mark.parametrize("warehouse", ["s3"], indirect=True)
def test_clickhouse_reads_the_file(connections: Connections, warehouse: Warehouse, table: Table) -> None:
    # of what the catalog answers it takes the location alone
    name = ".".join(table.name())
    assert READERS["clickhouse"](connections, warehouse, name, ("id", "name")) == EXPECTED


def test_pyiceberg_reads_the_file(warehouse: Warehouse, table: Table) -> None:
    properties = {**table.io.properties, **warehouse.access_keys}
    alone = StaticTable.from_metadata(table.metadata_location, properties)
    assert alone.scan().to_arrow().to_pydict() == ROWS.to_pydict()
    assert len(alone.snapshots()) == SNAPSHOTS


def test_duckdb_reads_the_file(connections: Connections, warehouse: Warehouse, table: Table) -> None:
    query = f"SELECT id, name FROM iceberg_scan('{table.metadata_location}') ORDER BY id"
    assert connections.duckdb(warehouse).execute(query).fetchall() == EXPECTED


@pytest.mark.spark
def test_spark_reads_the_file(connections: Connections, warehouse: Warehouse, table: Table) -> None:
    spark = connections.spark(warehouse)
    name = f"{table.name()[0]}.alone"
    spark.sql(f"CALL {spark.name}.system.register_table('{name}', '{table.metadata_location}')")
    assert sorted(spark.sql(f"SELECT id, name FROM {name}")) == EXPECTED
    assert spark.sql(f"SELECT count(*) FROM {name}.snapshots") == [(SNAPSHOTS,)]
