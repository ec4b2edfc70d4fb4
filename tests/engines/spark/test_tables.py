"""Metadata columns, changes of schemas and partitions, branches, tags, views and procedures."""

from __future__ import annotations

import pytest

from tests.clients.warehouses import Warehouse
from tests.engines.conftest import EngineReport
from tests.engines.spark.conftest import PLANNERS, Lake
from tests.engines.spark_process import SparkError


def new_table(lake: Lake, columns: str, rest: str = "") -> str:
    table = f"{lake.create_namespace()}.t"
    lake.spark.sql(f"CREATE TABLE client.{table} ({columns}) {rest}")
    return table


def test_metadata_columns(lake: Lake, engine: EngineReport) -> None:
    table = new_table(lake, "id int, s string, d date", "PARTITIONED BY (s, days(d))")
    lake.spark.sql(
        f"INSERT INTO client.{table} VALUES (1, 'a', DATE'2026-01-01'), (2, NULL, DATE'2026-01-02')"
    )
    with engine.step("metadata columns"):
        rows = lake.rows(table, "id, _partition, _spec_id, _pos, _file, _deleted")
        assert [row[1:4] for row in rows] == [(["a", "2026-01-01"], 0, 0), ([None, "2026-01-02"], 0, 0)]
        assert all(row[4].startswith(lake.warehouse.root.replace("//", "", 1)[:5]) for row in rows)
    with engine.step("a part of the partition"):
        assert lake.rows(table, "_partition.s, id") == [(None, 2), ("a", 1)]


def test_columns_change(lake: Lake, engine: EngineReport) -> None:
    """Before the next snapshot, too: its schema is another one than the table's."""
    table = new_table(lake, "id int, s string, st struct<x: int>")
    spark = lake.spark
    spark.sql(f"INSERT INTO client.{table} VALUES (1, 'a', struct(1)), (2, 'b', NULL)")
    with engine.step("a column is added"):
        spark.sql(f"ALTER TABLE server.{table} ADD COLUMNS (n int, st.y string)")
        assert lake.rows(table) == [(1, "a", [1, None], None), (2, "b", None, None)]
        assert spark.sql(f"SELECT id FROM server.{table} WHERE n IS NULL ORDER BY id") == [(1,), (2,)]
        assert spark.sql(f"SELECT id FROM server.{table} WHERE n = 1") == []
    with engine.step("a column is renamed"):
        spark.sql(f"ALTER TABLE server.{table} RENAME COLUMN s TO name")
        assert lake.rows(table, "id, name") == [(1, "a"), (2, "b")]
        assert spark.sql(f"SELECT id FROM server.{table} WHERE name = 'b'") == [(2,)]
    with engine.step("a column is widened, and one is dropped"):
        spark.sql(f"ALTER TABLE server.{table} ALTER COLUMN id TYPE bigint")
        spark.sql(f"ALTER TABLE server.{table} DROP COLUMN name")
        assert lake.rows(table, "id") == [(1,), (2,)]
    with engine.step("rows of the new schema"):
        spark.sql(f"INSERT INTO server.{table} VALUES ({2**40}, struct(5, 'y'), 6)")
        assert lake.rows(table) == [(1, [1, None], None), (2, None, None), (2**40, [5, "y"], 6)]
    with engine.step("the dropped column is in older snapshots"):
        [[first]] = spark.sql(f"SELECT snapshot_id FROM client.{table}.history LIMIT 1")
        for planner in PLANNERS:
            rows = spark.sql(f"SELECT id, s FROM {planner}.{table} VERSION AS OF {first} ORDER BY id")
            assert rows == [(1, "a"), (2, "b")]
            assert spark.sql(f"SELECT id FROM {planner}.{table} VERSION AS OF {first} WHERE s = 'a'") == [
                (1,)
            ]


def test_partitions_change(lake: Lake, engine: EngineReport) -> None:
    table = new_table(lake, "id int, s string, ts timestamp", "PARTITIONED BY (s)")
    spark = lake.spark
    with engine.step("partition fields are added, replaced and dropped"):
        spark.sql(f"INSERT INTO client.{table} VALUES (1, 'a', TIMESTAMP'2026-01-01 00:00:00')")
        for change in (
            "ADD PARTITION FIELD bucket(4, id)",
            "REPLACE PARTITION FIELD s WITH truncate(1, s)",
            "ADD PARTITION FIELD hours(ts) AS hour",
            "DROP PARTITION FIELD hour",
        ):
            spark.sql(f"ALTER TABLE server.{table} {change}")
            [[last]] = spark.sql(f"SELECT max(id) FROM client.{table}")
            row = f"({last + 1}, 'b{last}', TIMESTAMP'2026-01-0{last + 1} 01:00:00')"
            spark.sql(f"INSERT INTO server.{table} VALUES {row}")
            assert len(lake.rows(table)) == last + 1
        assert [row[1] for row in lake.rows(table, "id, _spec_id")] == [0, 1, 2, 3, 2]
    with engine.step("DELETE over partitions of several specs"):
        spark.sql(f"ALTER TABLE client.{table} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
        spark.sql(f"DELETE FROM server.{table} WHERE id IN (1, 3, 5)")
        assert lake.rows(table, "id") == [(2,), (4,)]


def test_branches_and_tags(lake: Lake, engine: EngineReport) -> None:
    table = new_table(lake, "id int")
    spark = lake.spark
    spark.sql(f"INSERT INTO client.{table} VALUES (1)")
    with engine.step("branches and tags"):
        spark.sql(f"ALTER TABLE server.{table} CREATE TAG first")
        spark.sql(f"ALTER TABLE server.{table} CREATE BRANCH dev")
        spark.sql(f"INSERT INTO server.{table}.branch_dev VALUES (2)")
        spark.sql(f"DELETE FROM server.{table}.branch_dev WHERE id = 1")
        for planner in PLANNERS:
            assert spark.sql(f"SELECT * FROM {planner}.{table}.branch_dev") == [(2,)]
            assert spark.sql(f"SELECT * FROM {planner}.{table} VERSION AS OF 'dev'") == [(2,)]
            assert spark.sql(f"SELECT * FROM {planner}.{table} VERSION AS OF 'first'") == [(1,)]
        assert lake.rows(table) == [(1,)]
    with engine.step("a branch becomes the table"):
        spark.sql(f"INSERT INTO server.{table} VALUES (3)")
        with pytest.raises(SparkError, match="not an ancestor"):
            spark.sql(f"CALL server.system.fast_forward('{table}', 'main', 'dev')")
        spark.sql(f"CALL server.system.rollback_to_snapshot('{table}', {snapshot(lake, table, 'first')})")
        spark.sql(f"CALL server.system.fast_forward('{table}', 'main', 'dev')")
        assert lake.rows(table) == [(2,)]
        spark.sql(f"ALTER TABLE server.{table} DROP BRANCH dev")
        spark.sql(f"ALTER TABLE server.{table} DROP TAG first")
        assert spark.sql(f"SELECT name FROM client.{table}.refs") == [("main",)]


def snapshot(lake: Lake, table: str, ref: str) -> int:
    [[found]] = lake.spark.sql(f"SELECT snapshot_id FROM client.{table}.refs WHERE name = '{ref}'")
    assert isinstance(found, int)
    return found


def test_views(lake: Lake, engine: EngineReport) -> None:
    table = new_table(lake, "id int, s string")
    spark = lake.spark
    spark.sql(f"INSERT INTO client.{table} VALUES (1, 'a'), (2, 'b')")
    namespace = table.split(".")[0]
    with engine.step("views"):
        spark.sql(f"CREATE VIEW server.{namespace}.v (n COMMENT 'a number') AS SELECT id FROM server.{table}")
        assert lake.rows(f"{namespace}.v") == [(1,), (2,)]
        spark.sql(f"CREATE OR REPLACE VIEW server.{namespace}.v AS SELECT s FROM server.{table} WHERE id > 1")
        assert lake.rows(f"{namespace}.v") == [("b",)]
        spark.sql(f"ALTER VIEW server.{namespace}.v SET TBLPROPERTIES ('k' = 'v')")
        spark.sql(f"ALTER VIEW server.{namespace}.v RENAME TO server.{namespace}.w")
        assert [row[1] for row in spark.sql(f"SHOW VIEWS IN client.{namespace}")] == ["w"]
        spark.sql(f"DROP VIEW server.{namespace}.w")
        assert spark.sql(f"SHOW VIEWS IN client.{namespace}") == []


@pytest.mark.parametrize("planner", PLANNERS)
def test_procedures(lake: Lake, engine: EngineReport, planner: str) -> None:
    properties = "TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')"
    table = new_table(lake, "id int, s string", f"PARTITIONED BY (s) {properties}")
    spark = lake.spark
    for id in range(1, 7):
        spark.sql(
            f"INSERT INTO client.{table} VALUES ({id}, '{'ab'[id % 2]}'), ({id * 10}, '{'ab'[id % 2]}')"
        )
    spark.sql(f"DELETE FROM client.{table} WHERE id IN (10, 20)")
    rows = lake.rows(table)
    assert len(rows) == 10
    calls = {
        "rewrite_position_delete_files": "options => map('rewrite-all', 'true')",
        "rewrite_data_files": "options => map('rewrite-all', 'true', 'remove-dangling-deletes', 'true')",
        "rewrite_manifests": "",
        "expire_snapshots": "older_than => TIMESTAMP'2100-01-01 00:00:00', retain_last => 1",
        "compute_table_stats": "",
        "compute_partition_stats": "",
        "remove_orphan_files": "dry_run => true, prefix_listing => true",
        "ancestors_of": "",
    }
    for name, rest in calls.items():
        with engine.step(f"{name}, {planner} plans"):
            arguments = f"table => '{table}'" + (f", {rest}" if rest else "")
            spark.sql(f"CALL {planner}.system.{name}({arguments})")
            assert lake.rows(table) == rows
    [[files, snapshots]] = spark.sql(
        f"SELECT (SELECT count(*) FROM client.{table}.files), (SELECT count(*) FROM client.{table}.snapshots)"
    )
    assert (files, snapshots) == (2, 1)
    with engine.step("a changelog"):
        spark.sql(f"INSERT INTO client.{table} VALUES (99, 'a')")
        arguments = f"table => '{table}', changelog_view => 'changes', options => map('start-timestamp', '0')"
        spark.sql(f"CALL {planner}.system.create_changelog_view({arguments})")


def test_drop_and_purge(lake: Lake, engine: EngineReport) -> None:
    """With `rest-catalog-purge` the service deletes the files, in its own time."""
    warehouse: Warehouse = lake.warehouse
    table = new_table(lake, "id int")
    lake.spark.sql(f"INSERT INTO client.{table} VALUES (1)")
    [[file]] = lake.spark.sql(f"SELECT file_path FROM client.{table}.files")
    location = file.rpartition("/data/")[0]
    with engine.step("DROP TABLE PURGE"):
        lake.spark.sql(f"DROP TABLE client.{table} PURGE")
        path = f"/management/v1/catalogs/{warehouse.name}/purges"
        [purge] = lake.http.http.get(path, params={"table": table}).json()["purges"]
        assert purge["table"]["name"] == "t"
        assert warehouse.wait_until_empty(location) == set()
    with engine.step("the table is gone"), pytest.raises(SparkError, match="TABLE_OR_VIEW_NOT_FOUND"):
        lake.spark.sql(f"SELECT * FROM client.{table}")
