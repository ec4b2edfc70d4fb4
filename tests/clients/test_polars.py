"""Polars: lazy frames over tables of the catalog, and appends to them."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table

from tests.clients.connections import Connections
from tests.clients.storage_options import polars_storage_options
from tests.clients.warehouses import Warehouse, unique


@pytest.fixture
def catalog(connections: Connections, warehouse: Warehouse) -> RestCatalog:
    """PyIceberg, through which Polars finds the tables."""
    return connections.pyiceberg(warehouse)


@pytest.fixture
def table(catalog: RestCatalog) -> Table:
    """A table with three rows."""
    namespace = unique("polars")
    catalog.create_namespace(namespace)
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", None]})
    made = catalog.create_table(f"{namespace}.t", rows.schema)
    made.append(rows)
    return made


def scan(table: Table, snapshot_id: int | None = None) -> pl.LazyFrame:
    return pl.scan_iceberg(table, snapshot_id=snapshot_id, storage_options=polars_storage_options(table))


def test_filters_and_aggregates(table: Table) -> None:
    frame = scan(table)
    assert frame.collect_schema() == {"id": pl.Int64, "name": pl.String}
    assert frame.filter(pl.col("id") > 1).sort("id").collect().rows() == [(2, "b"), (3, None)]
    assert frame.select(pl.col("id").sum(), pl.len()).collect().rows() == [(6, 3)]


def test_appends_and_overwrites(catalog: RestCatalog, table: Table) -> None:
    pl.DataFrame({"id": [4], "name": ["d"]}).write_iceberg(table, mode="append")
    table = catalog.load_table(table.name())
    assert scan(table).select("id").sort("id").collect().rows() == [(1,), (2,), (3,), (4,)]
    pl.DataFrame({"id": [9], "name": ["only"]}).write_iceberg(table, mode="overwrite")
    table = catalog.load_table(table.name())
    assert scan(table).collect().rows() == [(9, "only")]
    assert table.scan().to_arrow().to_pylist() == [{"id": 9, "name": "only"}]


def test_creates_and_overwrites_a_part(catalog: RestCatalog, warehouse: Warehouse, table: Table) -> None:
    namespace = table.name()[0]
    options = polars_storage_options(table) if warehouse.s3 else None
    name = f"{namespace}.made.t"
    pl.LazyFrame({"id": [1, 2], "name": ["a", "b"]}).sink_iceberg(
        name,
        mode="append",
        create_if_not_exists=True,
        create_namespace_if_not_exists=True,
        catalog=catalog,
        storage_options=options,
    )
    assert catalog.list_namespaces(namespace) == [(namespace, "made")]
    made = catalog.load_table(name)
    pl.LazyFrame({"id": [2], "name": ["changed"]}).sink_iceberg(
        made, mode="overwrite", overwrite_filter=pl.col("id") == 2, storage_options=options
    )
    made = catalog.load_table(name)
    assert scan(made).sort("id").collect().rows() == [(1, "a"), (2, "changed")]
    assert made.scan().to_arrow().sort_by("id")["name"].to_pylist() == ["a", "changed"]


def test_reads_an_older_snapshot(catalog: RestCatalog, table: Table) -> None:
    first = table.snapshots()[0].snapshot_id
    pl.DataFrame({"id": [4], "name": ["d"]}).write_iceberg(table, mode="append")
    table = catalog.load_table(table.name())
    assert scan(table, first).select(pl.len()).collect().item() == 3
    assert scan(table).select(pl.len()).collect().item() == 4


def test_reads_after_columns_changed(catalog: RestCatalog, table: Table) -> None:
    with table.update_schema() as update:
        update.rename_column("name", "label")
    with table.update_schema() as update:
        update.union_by_name(pa.schema([("amount", pa.float64())]))
    table.append(pa.table({"id": pa.array([4], pa.int64()), "label": ["d"], "amount": [0.5]}))
    assert scan(catalog.load_table(table.name())).sort("id").collect().rows() == [
        (1, "a", None),
        (2, "b", None),
        (3, None, None),
        (4, "d", 0.5),
    ]
