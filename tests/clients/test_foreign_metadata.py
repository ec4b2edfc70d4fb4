"""Metadata of other writers, registered: clients load such tables, append to them and evolve them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import StringType

from tests.clients.connections import Connections
from tests.clients.warehouses import Warehouse, unique

Document = dict[str, Any]

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["a", "b"]})
EARLY = ("schemas", "current-schema-id", "partition-specs", "default-spec-id", "last-partition-id")


def no_operation(document: Document) -> None:
    for snapshot in document["snapshots"]:
        del snapshot["summary"]["operation"]


def no_summary(document: Document) -> None:
    for snapshot in document["snapshots"]:
        del snapshot["summary"]


def capitals(document: Document) -> None:
    for snapshot in document["snapshots"]:
        snapshot["summary"]["operation"] = "APPEND"
    field = {"transform": "Identity", "source-id": 1, "direction": "ASC", "null-order": "NULLS-FIRST"}
    document["sort-orders"].append({"order-id": 1, "fields": [field]})
    column = document["schemas"][-1]["fields"][0]
    column["type"] = column["type"].upper()


def merge_operation(document: Document) -> None:
    document["snapshots"][-1]["summary"]["operation"] = "merge"


def low_numbers(document: Document) -> None:
    document["last-column-id"] = 2
    document["last-partition-id"] = 0
    document["last-sequence-number"] = 0


def no_main(document: Document) -> None:
    document["refs"] = {"v1": {"snapshot-id": document["current-snapshot-id"], "type": "tag"}}


def nulls_and_texts(document: Document) -> None:
    document["properties"] = {"a": 1, "b": True, "c": None}
    document["statistics"] = document["partition-statistics"] = document["metadata-log"] = None
    document["snapshots"][0] |= {"parent-snapshot-id": None, "schema-id": None}
    document["snapshots"][0]["summary"]["total-records"] = 2
    document["last-updated-ms"] = str(document["last-updated-ms"])


KINDS: dict[str, Callable[[Document], None]] = {
    kind.__name__: kind
    for kind in (no_operation, no_summary, capitals, merge_operation, low_numbers, no_main, nulls_and_texts)
}


def register(
    catalog: RestCatalog, warehouse: Warehouse, change: Callable[[Document], None], version: int = 2
) -> str:
    """A table of two rows and a dropped column, registered from a document that was changed."""
    namespace = unique("foreign")
    catalog.create_namespace(namespace)
    source = catalog.create_table(
        f"{namespace}.source", ROWS.schema, properties={"format-version": str(version)}
    )
    with source.update_schema() as update:
        update.add_column("dropped", StringType())
    source.append(ROWS.append_column("dropped", pa.array(["x", "y"])))
    with source.update_schema() as update:
        update.delete_column("dropped")
    location = catalog.load_table(f"{namespace}.source").metadata_location
    document = json.loads(Path(location.removeprefix("file://")).read_text())
    change(document)
    changed = f"{location.rpartition('/')[0]}/00009-foreign.metadata.json"
    Path(changed.removeprefix("file://")).write_text(json.dumps(document))
    catalog.register_table(f"{namespace}.t", changed)
    return f"{namespace}.t"


def use(catalog: RestCatalog, connections: Connections, warehouse: Warehouse, name: str) -> None:
    """Appends by both clients, a new column and a new partition field; the dropped column stays dropped."""
    lake = connections.duckdb(warehouse)
    lake.execute(f"INSERT INTO lake.{name} VALUES (3, 'c')")
    table = catalog.load_table(name)
    table.append(pa.table({"id": pa.array([4], pa.int64()), "name": ["d"]}))
    with table.update_schema() as update:
        update.add_column("fresh", StringType())
    with table.update_spec() as spec:
        spec.add_field("id", BucketTransform(4), "bucket")
    table.append(pa.table({"id": pa.array([5], pa.int64()), "name": ["e"], "fresh": ["f"]}))
    expected = [(1, "a", None), (2, "b", None), (3, "c", None), (4, "d", None), (5, "e", "f")]
    assert lake.execute(f"SELECT * FROM lake.{name} ORDER BY id").fetchall() == expected
    rows = catalog.load_table(name).scan().to_arrow().sort_by("id").to_pylist()
    assert [tuple(row.values()) for row in rows] == expected


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_clients_load_append_and_evolve(
    connections: Connections, disk_warehouse: Warehouse, kind: Callable[[Document], None]
) -> None:
    catalog = connections.pyiceberg(disk_warehouse)
    use(catalog, connections, disk_warehouse, register(catalog, disk_warehouse, kind))


def early_version_1(document: Document) -> None:
    for name in (*EARLY, "sort-orders", "default-sort-order-id", "table-uuid", "refs", "properties"):
        document.pop(name, None)
    no_summary(document)


def test_early_version_1(connections: Connections, disk_warehouse: Warehouse) -> None:
    catalog = connections.pyiceberg(disk_warehouse)
    name = register(catalog, disk_warehouse, early_version_1, version=1)
    lake = connections.duckdb(disk_warehouse)
    # it opens the file at `metadata-location`
    assert len(lake.execute(f"SELECT * FROM iceberg_snapshots(lake.{name})").fetchall()) == 1
    table = catalog.load_table(name)
    table.append(pa.table({"id": pa.array([3], pa.int64()), "name": ["c"]}))
    with table.update_schema() as update:
        update.add_column("fresh", StringType())
    expected = [(1, "a", None), (2, "b", None), (3, "c", None)]
    assert lake.execute(f"SELECT * FROM lake.{name} ORDER BY id").fetchall() == expected


@pytest.mark.spark
def test_spark_loads_appends_and_evolves(connections: Connections, disk_warehouse: Warehouse) -> None:
    catalog = connections.pyiceberg(disk_warehouse)
    spark = connections.spark(disk_warehouse)
    for change, version in ((early_version_1, 1), (low_numbers, 2), (no_main, 2)):
        name = register(catalog, disk_warehouse, change, version)
        spark.sql(f"INSERT INTO {name} VALUES (3, 'c')")
        spark.sql(f"ALTER TABLE {name} ADD COLUMN fresh STRING")
        expected = [(1, "a", None), (2, "b", None), (3, "c", None)]
        assert sorted(spark.sql(f"SELECT * FROM {name}")) == expected
