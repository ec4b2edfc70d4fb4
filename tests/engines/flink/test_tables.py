"""Tables of Flink, their rows compared with those that PyIceberg, DuckDB and Spark read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.connections import Connections
from tests.clients.readers import READERS
from tests.engines.conftest import EngineReport
from tests.engines.flink.conftest import Lake
from tests.engines.flink_process import FlinkError
from tests.engines.spark.conftest import PLANNERS, settings_of
from tests.engines.spark_process import SparkProcess


def test_batches(lake: Lake, engine: EngineReport) -> None:
    flink = lake.flink
    table = f"{lake.create_database()}.t"
    with engine.step("a partitioned table"):
        flink.sql(f"CREATE TABLE {table} (id BIGINT, s STRING, d DATE) PARTITIONED BY (s)")
        flink.sql(f"INSERT INTO {table} VALUES (1, 'a', DATE '2026-01-01'), (2, 'b', DATE '2026-01-02')")
        flink.sql(f"INSERT INTO {table} VALUES (3, 'b', CAST(NULL AS DATE))")
        assert flink.sql(f"SELECT id, s FROM {table} WHERE s = 'b' ORDER BY id") == [("2", "b"), ("3", "b")]
        assert [row[:2] for row in lake.rows(table)] == [(1, "a"), (2, "b"), (3, "b")]
    with engine.step("overwrite a partition"):
        flink.sql(f"INSERT OVERWRITE {table} PARTITION (s = 'b') SELECT id + 10, d FROM {table} WHERE id < 3")
        assert [row[:2] for row in lake.rows(table)] == [(1, "a"), (11, "b"), (12, "b")]
    with engine.step("a column is added and renamed"):
        flink.sql(f"ALTER TABLE {table} ADD n INT")
        flink.sql(f"ALTER TABLE {table} RENAME n TO m")
        flink.sql(f"INSERT INTO {table} VALUES (20, 'c', DATE '2026-01-03', 5)")
        assert [row[3] for row in lake.rows(table)] == [None, None, None, 5]
    with engine.step("an older snapshot, and metadata tables"):
        history = table.replace(".t", ".`t$snapshots`")
        [first, *_] = flink.sql(f"SELECT snapshot_id FROM {history} ORDER BY committed_at")
        hint = f"/*+ OPTIONS('snapshot-id' = '{first[0]}') */"
        assert sorted(flink.sql(f"SELECT id FROM {table} {hint}")) == [("1",), ("2",)]
    with engine.step("rename and drop"):
        flink.sql(f"ALTER TABLE {table} RENAME TO {table}2")
        assert flink.sql(f"SHOW TABLES IN {table.split('.', maxsplit=1)[0]}") == [("t2",)]
        flink.sql(f"DROP TABLE {table}2")
        assert flink.sql(f"SHOW TABLES IN {table.split('.', maxsplit=1)[0]}") == []
        flink.sql(f"DROP DATABASE {table.split('.', maxsplit=1)[0]}")


def test_limits(lake: Lake, engine: EngineReport) -> None:
    """Flink's own: pinned, and told on the page."""
    database = lake.create_database()
    with engine.step("a database with a dot: its tables are not found again"):
        lake.flink.sql(f"CREATE DATABASE `{database}.x`")
        lake.flink.sql(f"CREATE TABLE `{database}.x`.t (id INT)")
        with pytest.raises(FlinkError, match="Table does not exist"):
            lake.flink.sql(f"SELECT * FROM `{database}.x`.t")
    with engine.step("a nested namespace holds databases"):
        options = f"'type' = 'iceberg', 'catalog-type' = 'rest', 'uri' = '{lake.warehouse.uri}'"
        options += f", 'warehouse' = '{lake.warehouse.name}', 'base-namespace' = '{database}'"
        lake.flink.sql(f"CREATE CATALOG nested WITH ({options})")
        lake.flink.sql("CREATE DATABASE nested.eu")
        lake.flink.sql("CREATE TABLE nested.eu.t (id INT)")
        lake.flink.sql("INSERT INTO nested.eu.t VALUES (1)")
        assert lake.rows(f"{database}.eu.t") == [(1,)]
    with engine.step("rows are not deleted by filter, views not created"):
        lake.flink.sql(f"CREATE TABLE {database}.t (id INT)")
        with pytest.raises(FlinkError, match="SupportsRowLevelDelete"):
            lake.flink.sql(f"DELETE FROM {database}.t WHERE id = 1")
        with pytest.raises(FlinkError, match="Could not execute CreateTable"):
            lake.flink.sql(f"CREATE VIEW {database}.v AS SELECT id FROM {database}.t")


@pytest.mark.parametrize("version", [2, 3])
def test_upserts(lake: Lake, engine: EngineReport, version: int, tmp_path: Path) -> None:
    """Equality deletes, beside position deletes or deletion vectors."""
    table = f"{lake.create_database()}.t"
    properties = f"'format-version' = '{version}', 'write.upsert.enabled' = 'true'"
    with engine.step(f"upserts, v{version}"):
        key = "PRIMARY KEY (id) NOT ENFORCED"
        lake.flink.sql(f"CREATE TABLE {table} (id BIGINT, s STRING, {key}) WITH ({properties})")
        lake.flink.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b'), (1, 'c'), (4, 'd')")
        lake.flink.sql(f"INSERT INTO {table} VALUES (2, 'z'), (3, 'e'), (3, 'f')")
        rows = [(1, "c"), (2, "z"), (3, "f"), (4, "d")]
        assert sorted(lake.flink.sql(f"SELECT * FROM {table}")) == [(str(id), s) for id, s in rows]
    with engine.step(f"upserts, v{version}, read by DuckDB"):
        assert lake.duckdb_rows(table) == rows
    with SparkProcess(tmp_path, settings_of(lake.warehouse)) as spark:
        for planner in PLANNERS:
            with engine.step(f"upserts, v{version}, read by Spark, {planner} plans"):
                assert spark.sql(f"SELECT * FROM {planner}.{table} ORDER BY id") == rows
                assert spark.sql(f"SELECT id FROM {planner}.{table} WHERE s = 'z'") == [(2,)]
                assert spark.sql(f"SELECT id FROM {planner}.{table} WHERE s IN ('a', 'b')") == []


READ = {
    "pyiceberg": ("equality deletes", "equality deletes"),
    "pyiceberg-planned": ("equality deletes", "equality deletes"),
    "duckdb": (None, None),
    "clickhouse": (None, "Position deletes are supported only for parquet"),
    "polars": ("equality deletes", "equality deletes"),
    "daft": ("equality deletes", "equality deletes"),
}
"""What each client says instead of rows, in format versions 2 and 3; docs/clients.md has it."""


@pytest.mark.s3
@pytest.mark.parametrize("version", [2, 3])
def test_who_reads_upserts(
    s3_lake: Lake, engine: EngineReport, version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    lake = s3_lake
    table = f"{lake.create_database()}.t"
    properties = f"'format-version' = '{version}', 'write.upsert.enabled' = 'true'"
    with engine.step(f"upserts on S3, v{version}"):
        key = "PRIMARY KEY (id) NOT ENFORCED"
        lake.flink.sql(f"CREATE TABLE {table} (id BIGINT, s STRING, {key}) WITH ({properties})")
        lake.flink.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b'), (1, 'c')")
        lake.flink.sql(f"INSERT INTO {table} VALUES (2, 'z'), (3, 'e'), (3, 'f')")
        assert sorted(lake.flink.sql(f"SELECT * FROM {table}")) == [("1", "c"), ("2", "z"), ("3", "f")]
    connections = Connections(lambda: pytest.fail("Spark reads in test_upserts"), tmp_path)
    for client, refusals in READ.items():
        refusal = refusals[version - 2]
        with engine.step(f"upserts on S3, v{version}, read by {client}"):
            if refusal is None:
                rows = READERS[client](connections, lake.warehouse, table, ("id", "s"))
                assert rows == [(1, "c"), (2, "z"), (3, "f")]
            else:
                with pytest.raises(Exception, match=refusal):
                    READERS[client](connections, lake.warehouse, table, ("id", "s"))
    connections.close(lake.warehouse)


@pytest.mark.s3
def test_who_reads_appends(
    s3_lake: Lake, engine: EngineReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    lake = s3_lake
    table = f"{lake.create_database()}.t"
    with engine.step("a table on S3"):
        lake.flink.sql(f"CREATE TABLE {table} (id BIGINT, s STRING) PARTITIONED BY (s)")
        lake.flink.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
        assert lake.flink.sql(f"SELECT id FROM {table} WHERE s = 'b'") == [("2",)]
    connections = Connections(lambda: pytest.fail("Spark reads in test_upserts"), tmp_path)
    for client in READ:
        with engine.step(f"appends on S3, read by {client}"):
            rows = READERS[client](connections, lake.warehouse, table, ("id", "s"))
            assert rows == [(1, "a"), (2, "b")]
    connections.close(lake.warehouse)


@pytest.mark.s3
def test_without_keys(keyless_lake: Lake, engine: EngineReport) -> None:
    lake = keyless_lake
    table = f"{lake.create_database()}.t"
    with engine.step("keys of the catalog: create, write, read"):
        lake.flink.sql(
            f"CREATE TABLE {table} (id BIGINT, s STRING, PRIMARY KEY (id) NOT ENFORCED)"
            " WITH ('format-version' = '2', 'write.upsert.enabled' = 'true')"
        )
        lake.flink.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
        assert sorted(lake.flink.sql(f"SELECT * FROM {table}")) == [("1", "a"), ("2", "b")]
    with engine.step("keys of the catalog: change rows, add a column"):
        lake.flink.sql(f"INSERT INTO {table} VALUES (2, 'z')")
        lake.flink.sql(f"ALTER TABLE {table} ADD amount INT")
        lake.flink.sql(f"INSERT INTO {table} VALUES (3, 'c', 7)")
        found = sorted(lake.flink.sql(f"SELECT id, s FROM {table}"))
        assert found == [("1", "a"), ("2", "z"), ("3", "c")]
    assert lake.duckdb_rows(table) == [(1, "a", None), (2, "z", None), (3, "c", 7)]
