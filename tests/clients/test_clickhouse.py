"""ClickHouse (chdb): tables on S3."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog

from tests.clients.connections import ClickHouse, Connections
from tests.clients.warehouses import Warehouse, unique

pytestmark = pytest.mark.s3


@pytest.fixture
def clickhouse(connections: Connections, s3_warehouse: Warehouse) -> ClickHouse:
    """ClickHouse with the warehouse as the database `lake`."""
    return connections.clickhouse(s3_warehouse)


@pytest.fixture
def catalog(connections: Connections, s3_warehouse: Warehouse) -> RestCatalog:
    """The client that makes the tables."""
    return connections.pyiceberg(s3_warehouse)


@pytest.fixture
def name(catalog: RestCatalog) -> str:
    """A table with two rows."""
    namespace = unique("house")
    catalog.create_namespace(namespace)
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["a", "b"]})
    catalog.create_table(f"{namespace}.t", rows.schema).append(rows)
    return f"{namespace}.t"


def test_lists_the_tables(clickhouse: ClickHouse, name: str) -> None:
    assert name in clickhouse.select("SHOW TABLES FROM lake")["name"].to_pylist()


def test_describes_a_table(clickhouse: ClickHouse, name: str) -> None:
    described = clickhouse.select(f"DESCRIBE TABLE lake.`{name}`").select(["name", "type"]).to_pylist()
    assert described == [
        {"name": "id", "type": "Nullable(Int64)"},
        {"name": "name", "type": "Nullable(String)"},
    ]


def test_appends(clickhouse: ClickHouse, catalog: RestCatalog, name: str) -> None:
    clickhouse.sql(f"INSERT INTO lake.`{name}` VALUES (3, 'c'), (4, NULL)")
    clickhouse.sql(f"INSERT INTO lake.`{name}` SELECT id + 10, name FROM lake.`{name}` WHERE id = 1")
    expected = {"id": [1, 2, 3, 4, 11], "name": ["a", "b", "c", None, "a"]}
    assert clickhouse.select(f"SELECT * FROM lake.`{name}` ORDER BY id").to_pydict() == expected
    table = catalog.load_table(name)
    assert table.scan().to_arrow().sort_by("id").to_pydict() == expected
    assert len(table.snapshots()) == 3


def test_deletes(clickhouse: ClickHouse, catalog: RestCatalog, name: str) -> None:
    clickhouse.sql(f"ALTER TABLE lake.`{name}` DELETE WHERE id = 1")
    assert clickhouse.select(f"SELECT id FROM lake.`{name}`").to_pydict() == {"id": [2]}
    assert catalog.load_table(name).scan().to_arrow()["id"].to_pylist() == [2]


def test_changes_rows_and_columns(clickhouse: ClickHouse, catalog: RestCatalog, name: str) -> None:
    clickhouse.sql(f"ALTER TABLE lake.`{name}` ADD COLUMN amount Nullable(Int32)")
    clickhouse.sql(f"INSERT INTO lake.`{name}` VALUES (3, 'c', 7)")
    clickhouse.sql(f"ALTER TABLE lake.`{name}` UPDATE name = 'changed' WHERE id = 1")
    rows = [(1, "changed", None), (2, "b", None), (3, "c", 7)]
    found = clickhouse.select(f"SELECT id, name, amount FROM lake.`{name}` ORDER BY id").to_pylist()
    assert [tuple(row.values()) for row in found] == rows
    read = catalog.load_table(name).scan().to_arrow().sort_by("id").to_pylist()
    assert [tuple(row.values()) for row in read] == rows
    clickhouse.sql(f"ALTER TABLE lake.`{name}` RENAME COLUMN name TO label")
    clickhouse.sql(f"ALTER TABLE lake.`{name}` DROP COLUMN amount")
    table = catalog.load_table(name)
    assert table.schema().column_names == ["id", "label"]
    assert table.metadata.last_column_id == 3


def test_nested_namespace(clickhouse: ClickHouse, catalog: RestCatalog, name: str) -> None:
    child = (name.split(".", maxsplit=1)[0], "child")
    catalog.create_namespace(child)
    table = catalog.create_table((*child, "t"), pa.schema([("id", pa.int64())]))
    nested = ".".join(table.name())
    assert nested in clickhouse.select("SHOW TABLES FROM lake")["name"].to_pylist()
    clickhouse.sql(f"INSERT INTO lake.`{nested}` VALUES (1)")
    assert clickhouse.select(f"SELECT id FROM lake.`{nested}`").to_pydict() == {"id": [1]}
    assert table.refresh().scan().to_arrow()["id"].to_pylist() == [1]
    # It asks for `a.b` where it should ask for two levels, so it drops nothing.
    with pytest.raises(RuntimeError, match="Table does not exist"):
        clickhouse.sql(f"DROP TABLE lake.`{nested}`")
    assert catalog.table_exists(table.name())


def test_drops_and_reports_an_error(clickhouse: ClickHouse, catalog: RestCatalog, name: str) -> None:
    with pytest.raises(RuntimeError, match="Table does not exist"):
        clickhouse.sql(f"DROP TABLE lake.`{name}`")
    assert not catalog.table_exists(name)


def test_lists_snapshots(clickhouse: ClickHouse, catalog: RestCatalog, name: str) -> None:
    clickhouse.sql(f"INSERT INTO lake.`{name}` VALUES (3, 'c')")
    # It looks at every table; one with a type that it does not know would end the query.
    query = (
        f"SELECT snapshot_id FROM system.iceberg_history WHERE database = 'lake' AND table = '{name}'"
        " ORDER BY made_current_at SETTINGS database_datalake_require_metadata_access = 0"
    )
    listed = clickhouse.select(query)["snapshot_id"].to_pylist()
    assert listed == [each.snapshot_id for each in catalog.load_table(name).snapshots()]


def test_sees_a_new_column(clickhouse: ClickHouse, catalog: RestCatalog, name: str) -> None:
    table = catalog.load_table(name)
    with table.update_schema() as update:
        update.rename_column("name", "label")
    with table.update_schema() as update:
        update.union_by_name(pa.schema([("amount", pa.float64())]))
    table.append(pa.table({"id": pa.array([3], pa.int64()), "label": ["c"], "amount": [0.5]}))
    rows = clickhouse.select(f"SELECT id, label, amount FROM lake.`{name}` ORDER BY id")
    assert rows.to_pydict() == {"id": [1, 2, 3], "label": ["a", "b", "c"], "amount": [None, None, 0.5]}


def test_reads_an_older_snapshot(clickhouse: ClickHouse, catalog: RestCatalog, name: str) -> None:
    first = catalog.load_table(name).current_snapshot()
    assert first is not None
    clickhouse.sql(f"INSERT INTO lake.`{name}` VALUES (3, 'c')")
    query = f"SELECT count() AS n FROM lake.`{name}`"
    assert clickhouse.select(query).to_pydict() == {"n": [3]}
    older = clickhouse.select(f"{query} SETTINGS iceberg_snapshot_id = {first.snapshot_id}")
    assert older.to_pydict() == {"n": [2]}
    then = clickhouse.select(f"{query} SETTINGS iceberg_timestamp_ms = {first.timestamp_ms}")
    assert then.to_pydict() == {"n": [2]}


def test_refuses_a_table_that_is_not_there(clickhouse: ClickHouse, name: str) -> None:
    with pytest.raises(RuntimeError, match="UNKNOWN_TABLE"):
        clickhouse.select(f"SELECT * FROM lake.`{name}_missing`")
