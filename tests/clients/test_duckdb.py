"""DuckDB: SQL on the catalog, on the local disk and on S3."""

from __future__ import annotations

import re
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tests.clients.connections import Connections, connect_duckdb
from tests.clients.warehouses import Warehouse, unique


class Lake:
    """A namespace of the warehouse, and the connection that has it attached."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, schema: str) -> None:
        self.connection = connection
        self.schema = schema

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Runs a statement in which `{ns}` is the namespace."""
        result = self.connection.execute(statement.replace("{ns}", f"lake.{self.schema}"))
        return result.fetchall()


@pytest.fixture
def lake(connections: Connections, warehouse: Warehouse) -> Lake:
    """A new namespace."""
    made = Lake(connections.duckdb(warehouse), unique("duck"))
    made.sql("CREATE SCHEMA {ns}")
    return made


def test_schemas(lake: Lake) -> None:
    listed = lake.sql("SELECT schema_name FROM information_schema.schemata WHERE catalog_name = 'lake'")
    assert (lake.schema,) in listed
    lake.sql("DROP SCHEMA {ns}")
    listed = lake.sql("SELECT schema_name FROM information_schema.schemata WHERE catalog_name = 'lake'")
    assert (lake.schema,) not in listed


def test_nested_schema(lake: Lake, connections: Connections, warehouse: Warehouse) -> None:
    child = f'lake."{lake.schema}.child"'
    lake.sql(f"CREATE SCHEMA {child}")
    lake.sql(f"CREATE TABLE {child}.t AS SELECT 1 AS id")
    assert lake.sql(f"SELECT id FROM {child}.t") == [(1,)]
    catalog = connections.pyiceberg(warehouse)
    assert catalog.list_namespaces(lake.schema) == [(lake.schema, "child")]
    assert catalog.list_tables((lake.schema, "child")) == [(lake.schema, "child", "t")]
    lake.sql(f"DROP TABLE {child}.t")
    lake.sql(f"DROP SCHEMA {child}")
    assert catalog.list_namespaces(lake.schema) == []


@pytest.mark.parametrize("version", [2, 3])
def test_rows(lake: Lake, version: int) -> None:
    lake.sql(f"CREATE TABLE {{ns}}.t (id BIGINT, name VARCHAR) WITH ('format-version' = '{version}')")
    lake.sql("INSERT INTO {ns}.t SELECT i, 'row ' || i FROM range(10) numbers(i)")
    lake.sql("UPDATE {ns}.t SET name = 'changed' WHERE id < 2")
    lake.sql("DELETE FROM {ns}.t WHERE id >= 4")
    lake.sql(
        "MERGE INTO {ns}.t USING (VALUES (0, 'merged'), (20, 'inserted')) changes(id, name)"
        " ON t.id = changes.id WHEN MATCHED THEN UPDATE SET name = changes.name"
        " WHEN NOT MATCHED THEN INSERT (id, name) VALUES (changes.id, changes.name)"
    )
    assert lake.sql("SELECT * FROM {ns}.t ORDER BY id") == [
        (0, "merged"),
        (1, "changed"),
        (2, "row 2"),
        (3, "row 3"),
        (20, "inserted"),
    ]


def test_create_as_select_and_drop(lake: Lake) -> None:
    lake.sql("CREATE TABLE {ns}.t AS SELECT i AS id, i % 2 = 0 AS even FROM range(4) numbers(i)")
    assert lake.sql("SELECT * FROM {ns}.t ORDER BY id") == [(0, True), (1, False), (2, True), (3, False)]
    with pytest.raises(duckdb.Error, match="already exists"):
        lake.sql("CREATE TABLE {ns}.t (id BIGINT)")
    lake.sql("CREATE TABLE IF NOT EXISTS {ns}.t (id BIGINT)")
    lake.sql("DROP TABLE {ns}.t")
    with pytest.raises(duckdb.Error, match="does not exist"):
        lake.sql("SELECT * FROM {ns}.t")


def test_rename(lake: Lake) -> None:
    lake.sql("CREATE TABLE {ns}.t AS SELECT 1 AS id")
    lake.sql("ALTER TABLE {ns}.t RENAME TO renamed")
    assert lake.sql("SELECT * FROM {ns}.renamed") == [(1,)]
    with pytest.raises(duckdb.Error, match="does not exist"):
        lake.sql("SELECT * FROM {ns}.t")


def test_rows_are_overwritten_in_one_commit(lake: Lake) -> None:
    lake.sql("CREATE TABLE {ns}.t AS SELECT 1 AS id")
    lake.sql("BEGIN")
    lake.sql("TRUNCATE {ns}.t")
    lake.sql("INSERT INTO {ns}.t VALUES (2), (3)")
    lake.sql("COMMIT")
    assert lake.sql("SELECT * FROM {ns}.t ORDER BY id") == [(2,), (3,)]


def test_partitions_change(lake: Lake, connections: Connections, warehouse: Warehouse) -> None:
    lake.sql("CREATE TABLE {ns}.t (id INTEGER, seen TIMESTAMP) PARTITIONED BY (day(seen))")
    lake.sql("INSERT INTO {ns}.t VALUES (1, TIMESTAMP '2024-02-29 12:00:00')")
    lake.sql("ALTER TABLE {ns}.t SET PARTITIONED BY (bucket(4, id))")
    lake.sql("ALTER TABLE {ns}.t ALTER COLUMN id TYPE BIGINT")
    lake.sql("INSERT INTO {ns}.t VALUES (2, TIMESTAMP '2024-03-01 12:00:00')")
    lake.sql("ALTER TABLE {ns}.t RESET PARTITIONED BY")
    lake.sql("INSERT INTO {ns}.t VALUES (3, NULL)")
    assert lake.sql("SELECT id FROM {ns}.t ORDER BY id") == [(1,), (2,), (3,)]
    assert lake.sql("SELECT id FROM {ns}.t WHERE seen < TIMESTAMP '2024-03-01 00:00:00'") == [(1,)]
    table = connections.pyiceberg(warehouse).load_table(f"{lake.schema}.t")
    transforms = [[str(field.transform) for field in spec.fields] for spec in table.specs().values()]
    assert sorted(transforms) == [[], ["bucket[4]"], ["day"]]
    assert table.spec().fields == ()
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]


def test_properties(lake: Lake) -> None:
    lake.sql("CREATE TABLE {ns}.t (id BIGINT) WITH ('format-version' = '3', 'owner' = 'me')")
    lake.sql("CALL set_iceberg_table_properties({ns}.t, {'team': 'x'})")
    lake.sql("CALL remove_iceberg_table_properties({ns}.t, ['owner'])")
    properties = dict(lake.sql("SELECT * FROM iceberg_table_properties({ns}.t)"))
    assert properties["team"] == "x"
    assert "owner" not in properties


@pytest.mark.parametrize("warehouse", ["disk"], indirect=True)
def test_drop_with_purge(lake: Lake, connections: Connections, warehouse: Warehouse) -> None:
    lake.sql("CREATE TABLE {ns}.t AS SELECT 1 AS id")
    location = connections.pyiceberg(warehouse).load_table(f"{lake.schema}.t").location()
    assert warehouse.files_below(location)
    with connect_duckdb(warehouse, "PURGE_REQUESTED true") as purging:
        purging.execute(f"DROP TABLE lake.{lake.schema}.t")
    assert not warehouse.wait_until_empty(location)


def test_columns_change(lake: Lake) -> None:
    lake.sql("CREATE TABLE {ns}.t AS SELECT 1 AS id, 'a' AS name")
    lake.sql("ALTER TABLE {ns}.t ADD COLUMN amount DOUBLE")
    lake.sql("INSERT INTO {ns}.t VALUES (2, 'b', 2.5)")
    assert lake.sql("SELECT * FROM {ns}.t ORDER BY id") == [(1, "a", None), (2, "b", 2.5)]
    lake.sql("ALTER TABLE {ns}.t RENAME COLUMN name TO label")
    lake.sql("ALTER TABLE {ns}.t DROP COLUMN amount")
    assert lake.sql("SELECT id, label FROM {ns}.t ORDER BY id") == [(1, "a"), (2, "b")]
    assert [row[0] for row in lake.sql("DESCRIBE {ns}.t")] == ["id", "label"]


def test_transaction_over_two_tables(lake: Lake) -> None:
    for name in ("orders", "items"):
        lake.sql(f"CREATE TABLE {{ns}}.{name} (id BIGINT)")
    lake.sql("BEGIN")
    lake.sql("INSERT INTO {ns}.orders VALUES (1)")
    lake.sql("INSERT INTO {ns}.items VALUES (10), (11)")
    lake.sql("COMMIT")
    assert lake.sql("SELECT * FROM {ns}.orders") == [(1,)]
    assert lake.sql("SELECT * FROM {ns}.items ORDER BY id") == [(10,), (11,)]


def test_conflict_in_a_transaction_over_two_tables(
    lake: Lake, connections: Connections, warehouse: Warehouse
) -> None:
    for name in ("orders", "items"):
        lake.sql(f"CREATE TABLE {{ns}}.{name} (id BIGINT)")
    lake.sql("BEGIN")
    lake.sql("INSERT INTO {ns}.orders VALUES (1)")
    lake.sql("INSERT INTO {ns}.items VALUES (10)")
    catalog = connections.pyiceberg(warehouse)
    catalog.load_table(f"{lake.schema}.items").append(pa.table({"id": pa.array([99], pa.int64())}))
    log_before = warehouse.server.log.stat().st_size
    with pytest.raises(duckdb.TransactionException, match="Requirement failed: branch main"):
        lake.sql("COMMIT")
    assert lake.sql("SELECT * FROM {ns}.orders") == []
    assert lake.sql("SELECT * FROM {ns}.items") == [(99,)]
    assert catalog.load_table(f"{lake.schema}.orders").metadata.snapshots == []
    # A request is logged after its answer, so the log is complete only after a later request.
    log = warehouse.server.log.read_bytes()[log_before:].decode()
    assert re.findall(r"POST \S+/transactions/commit (\d+)", log) == ["409"]


def test_rolled_back_transaction(lake: Lake) -> None:
    lake.sql("CREATE TABLE {ns}.t (id BIGINT)")
    lake.sql("BEGIN")
    lake.sql("INSERT INTO {ns}.t VALUES (1)")
    lake.sql("ROLLBACK")
    assert lake.sql("SELECT * FROM {ns}.t") == []


def test_time_travel(lake: Lake) -> None:
    lake.sql("CREATE TABLE {ns}.t AS SELECT 1 AS id")
    lake.sql("INSERT INTO {ns}.t VALUES (2)")
    [(first,), (_,)] = lake.sql(
        f"SELECT snapshot_id FROM iceberg_snapshots('lake.{lake.schema}.t') ORDER BY sequence_number"
    )
    assert lake.sql(f"SELECT * FROM {{ns}}.t AT (VERSION => {first})") == [(1,)]
    assert lake.sql("SELECT count(*) FROM {ns}.t") == [(2,)]
    data_files = lake.sql(f"SELECT count(*) FROM iceberg_metadata('lake.{lake.schema}.t')")
    assert data_files == [(2,)]
