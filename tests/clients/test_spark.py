"""Spark SQL, on the local disk and on S3. Each statement costs a part of a second: few rows, few of them."""

from __future__ import annotations

import re
import threading

import pytest
from pyspark import InheritableThread
from pyspark.errors import AnalysisException

from tests.clients.connections import Connections, SparkCatalog
from tests.clients.spark_lake import Lake, new_lake
from tests.clients.warehouses import Warehouse, unique
from tests.services.cut import CutProxy, Moment

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(connections: Connections, warehouse: Warehouse) -> Lake:
    """A new namespace."""
    return new_lake(connections, warehouse)


def test_namespaces(lake: Lake) -> None:
    lake.sql("CREATE NAMESPACE {ns}.`eu.west`")
    lake.sql("CREATE NAMESPACE {ns}.`eu.west`.shop WITH DBPROPERTIES ('owner-team' = 'x')")
    assert lake.sql("SHOW NAMESPACES IN {ns}") == [(f"{lake.ns}.`eu.west`",)]
    assert "owner-team" in str(lake.sql("DESCRIBE NAMESPACE EXTENDED {ns}.`eu.west`.shop"))
    lake.sql("CREATE TABLE {ns}.`eu.west`.shop.t AS SELECT 1 AS id")
    assert lake.ids("{ns}.`eu.west`.shop.t") == [1]
    with pytest.raises(Exception, match="not empty"):
        lake.sql("DROP NAMESPACE {ns}.`eu.west`")
    lake.sql("DROP TABLE {ns}.`eu.west`.shop.t")
    lake.sql("DROP NAMESPACE {ns}.`eu.west`.shop")
    lake.sql("DROP NAMESPACE {ns}.`eu.west`")
    assert lake.sql("SHOW NAMESPACES IN {ns}") == []


@pytest.mark.parametrize("version", [2, 3])
def test_rows_change(lake: Lake, version: int) -> None:
    lake.sql(
        "CREATE TABLE {ns}.t (id BIGINT, name STRING, kind STRING) USING iceberg PARTITIONED BY (kind)"
        f" TBLPROPERTIES ('format-version' = '{version}', 'write.delete.mode' = 'merge-on-read',"
        " 'write.update.mode' = 'copy-on-write', 'write.merge.mode' = 'merge-on-read')"
    )
    lake.sql("INSERT INTO {ns}.t SELECT id, concat('row ', id), if(id < 4, 'a', 'b') FROM range(0, 6, 1, 1)")
    lake.sql("UPDATE {ns}.t SET name = 'changed' WHERE id = 0")
    lake.sql("DELETE FROM {ns}.t WHERE id = 1")
    lake.sql(
        "MERGE INTO {ns}.t USING (SELECT * FROM VALUES (2, 'merged'), (3, 'out'), (9, 'new') AS (id, name)) s"
        " ON t.id = s.id WHEN MATCHED AND s.name = 'out' THEN DELETE"
        " WHEN MATCHED THEN UPDATE SET name = s.name"
        " WHEN NOT MATCHED THEN INSERT (id, name, kind) VALUES (s.id, s.name, 'b')"
    )
    expected = [(0, "changed"), (2, "merged"), (4, "row 4"), (5, "row 5"), (9, "new")]
    assert sorted(lake.sql("SELECT id, name FROM {ns}.t")) == expected
    if version == 3:
        lineage = lake.sql("SELECT _row_id FROM {ns}.t")
        assert None not in {row_id for (row_id,) in lineage}
        assert len(set(lineage)) == len(expected)
    lake.sql("INSERT OVERWRITE {ns}.t PARTITION (kind = 'b') SELECT 7, 'overwritten'")
    assert sorted(lake.sql("SELECT id, name FROM {ns}.t")) == [*expected[:2], (7, "overwritten")]


def test_tables_may_be_called_like_metadata_tables(lake: Lake) -> None:
    """Where one is missing, Spark asks for the namespace as a table in a namespace without levels."""
    for name in ("entries", "FILES", "history", "snapshots", "refs", "manifests", "partitions"):
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
            lake.sql(f"SELECT * FROM {{ns}}.{name}")
        lake.sql(f"DROP TABLE IF EXISTS {{ns}}.{name}")
    for name, statement in (
        ("entries", "CREATE TABLE {ns}.entries (id BIGINT) USING iceberg"),
        ("files", "CREATE TABLE {ns}.files USING iceberg AS SELECT 7 AS id"),
        ("history", "CREATE OR REPLACE TABLE {ns}.history USING iceberg AS SELECT 7 AS id"),
    ):
        lake.sql(statement)
        assert lake.ids(f"{{ns}}.{name}") == ([] if name == "entries" else [7])
    assert len(lake.sql("SELECT * FROM {ns}.files.files")) == 1
    lake.sql("DROP TABLE {ns}.history")
    assert sorted(lake.sql("SHOW TABLES IN {ns}")) == [(lake.ns, "entries", False), (lake.ns, "files", False)]


def test_create_replace_and_drop_with_purge(lake: Lake) -> None:
    lake.sql("CREATE TABLE {ns}.t USING iceberg AS SELECT 1 AS id")
    lake.sql(
        "CREATE OR REPLACE TABLE {ns}.t USING iceberg PARTITIONED BY (kind) AS SELECT 2 AS id, 'x' AS kind"
    )
    assert lake.sql("SELECT * FROM {ns}.t") == [(2, "x")]
    assert len(lake.sql("SELECT * FROM {ns}.t.snapshots")) == 2
    location = lake.location("t")
    assert lake.warehouse.files_below(location)
    lake.sql("DROP TABLE {ns}.t PURGE")
    assert lake.sql("SHOW TABLES IN {ns}") == []
    assert not lake.warehouse.wait_until_empty(location)


def test_replaced_tables_may_change_the_type_of_a_column(lake: Lake) -> None:
    lake.sql("CREATE TABLE {ns}.filled USING iceberg AS SELECT 1 AS id")
    lake.sql("CREATE TABLE {ns}.empty (id INT) USING iceberg")
    for name in ("filled", "empty"):
        lake.sql(f"CREATE OR REPLACE TABLE {{ns}}.{name} (id STRING) USING iceberg")
        lake.sql(f"INSERT INTO {{ns}}.{name} VALUES ('x')")
        lake.sql(f"CREATE OR REPLACE TABLE {{ns}}.{name} USING iceberg AS SELECT array(1) AS id, 'y' AS more")
        lake.sql(f"ALTER TABLE {{ns}}.{name} ADD COLUMN last DATE")
        assert lake.sql(f"SELECT * FROM {{ns}}.{name}") == [([1], "y", None)]


def test_schema_partitions_and_order_change(lake: Lake) -> None:
    lake.sql(
        "CREATE TABLE {ns}.t (id INT, at TIMESTAMP, point STRUCT<x: INT>)"
        " USING iceberg PARTITIONED BY (days(at))"
    )
    lake.sql("INSERT INTO {ns}.t VALUES (1, TIMESTAMP '2024-01-01 00:00:00', named_struct('x', 1))")
    for change in (
        "ADD COLUMNS (note STRING COMMENT 'free text' AFTER id, point.y DOUBLE)",
        "RENAME COLUMN note TO remark",
        "ALTER COLUMN id TYPE BIGINT",
        "DROP PARTITION FIELD days(at)",
        "ADD PARTITION FIELD bucket(8, id) AS shard",
        "WRITE ORDERED BY id DESC NULLS LAST",
        "SET TBLPROPERTIES ('owner-team' = 'x')",
    ):
        lake.sql(f"ALTER TABLE {{ns}}.t {change}")
    lake.sql("INSERT INTO {ns}.t VALUES (2, 'new', NULL, named_struct('x', 2, 'y', 0.5))")
    rows = sorted(lake.sql("SELECT id, remark, point.x, point.y FROM {ns}.t"))
    assert rows == [(1, None, 1, None), (2, "new", 2, 0.5)]
    partitions = lake.sql("SELECT partition.shard IS NULL, record_count FROM {ns}.t.partitions")
    assert sorted(partitions) == [(False, 1), (True, 1)]
    lake.sql("ALTER TABLE {ns}.t DROP COLUMN remark")
    assert lake.sql("SELECT id, point.x FROM {ns}.t WHERE at = TIMESTAMP '2024-01-01 00:00:00'") == [(1, 1)]
    properties = dict(lake.sql("SHOW TBLPROPERTIES {ns}.t"))
    assert properties["owner-team"] == "x"
    assert properties["sort-order"] == "id DESC NULLS LAST"


def test_column_comes_back_without_its_old_values(lake: Lake) -> None:
    """Case O11: the id of a dropped column is not given out again."""
    lake.sql("CREATE TABLE {ns}.t USING iceberg AS SELECT 1 AS id, 'x' AS name, 10 AS c3")
    changes = (("c3", "c3b"), ("c3b", "c3b"), ("c3b", "c3"))
    for number, (dropped, column) in enumerate(changes, start=4):
        lake.sql(f"ALTER TABLE {{ns}}.t DROP COLUMN {dropped}")
        lake.sql(f"ALTER TABLE {{ns}}.t ADD COLUMN {column} INT")
        assert lake.load("t").metadata.last_column_id == number
        assert lake.sql(f"SELECT id, {column} FROM {{ns}}.t WHERE id = 1") == [(1, None)]
        lake.sql(f"INSERT INTO {{ns}}.t VALUES ({number}, 'x', {number})")
    assert sorted(lake.sql("SELECT id, c3 FROM {ns}.t")) == [(1, None), (4, None), (5, None), (6, 6)]


def test_row_ids_of_parallel_writers(lake: Lake) -> None:
    """Case O13: writers that meet take the next row id anew, so none is given out twice."""
    lake.sql(
        "CREATE TABLE {ns}.t (id BIGINT) USING iceberg TBLPROPERTIES ('format-version' = '3',"
        " 'commit.retry.num-retries' = '20', 'commit.retry.min-wait-ms' = '10')"
    )
    table = f"{lake.catalog.name}.{lake.ns}.t"
    both_ready = threading.Barrier(2, timeout=60)
    done = []

    def write(first: int) -> None:
        both_ready.wait()
        for start in (first, first + 10, first + 20):
            lake.catalog.session.sql(f"INSERT INTO {table} SELECT id FROM range({start}, {start + 10}, 1, 1)")
        done.append(first)

    # Its threads give their connection to the JVM back; others leave it to the garbage collector.
    writers = [InheritableThread(target=write, args=(first,)) for first in (0, 30)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sorted(done) == [0, 30]
    rows = sorted(lake.sql("SELECT _row_id, id FROM {ns}.t"))
    assert [row_id for row_id, _ in rows] == list(range(60))
    assert sorted(key for _, key in rows) == list(range(60))
    assert lake.load("t").metadata.next_row_id == 60


def test_snapshots_are_loaded_when_they_are_asked_for(lake: Lake) -> None:
    """Case O01: a client that asks for the snapshots of refs gets the others later."""
    lake.sql("CREATE TABLE {ns}.t USING iceberg AS SELECT 1 AS id")
    lake.sql("INSERT INTO {ns}.t VALUES (2)")
    both = lake.sql("SELECT snapshot_id FROM {ns}.t.snapshots ORDER BY committed_at")
    assert len(both) == 2
    asked: list[str] = []

    def note(chunk: bytes, _: object) -> bool:
        asked.extend(re.findall(rf"GET \S+/{lake.ns}/tables/t\?(\S+) ", chunk.decode("latin-1")))
        return False

    with CutProxy("127.0.0.1", lake.warehouse.server.port) as proxy:
        proxy.cut(Moment("request", note))
        lazy = SparkCatalog(
            lake.catalog.session,
            lake.warehouse,
            unique("refs"),
            uri=f"http://127.0.0.1:{proxy.port}",
            snapshot_loading_mode="refs",
        )
        assert sorted(lazy.sql(f"SELECT id FROM {lake.ns}.t")) == [(1,), (2,)]
        assert set(asked) == {"snapshots=refs"}
        assert lazy.sql(f"SELECT snapshot_id FROM {lake.ns}.t.snapshots ORDER BY committed_at") == both
        assert set(asked) == {"snapshots=refs", "snapshots=all"}
        first = both[0][0]
        assert lazy.sql(f"SELECT id FROM {lake.ns}.t VERSION AS OF {first}") == [(1,)]


def test_branches_tags_and_time_travel(lake: Lake) -> None:
    lake.sql("CREATE TABLE {ns}.t USING iceberg AS SELECT 1 AS id")
    [(first, then)] = lake.sql("SELECT snapshot_id, string(committed_at) FROM {ns}.t.snapshots")
    lake.sql("ALTER TABLE {ns}.t CREATE TAG release RETAIN 7 DAYS")
    lake.sql("ALTER TABLE {ns}.t CREATE BRANCH audit")
    lake.sql("INSERT INTO {ns}.t.branch_audit VALUES (2)")
    assert lake.ids("{ns}.t") == [1]
    assert lake.ids("{ns}.t VERSION AS OF 'audit'") == [1, 2]
    lake.call("fast_forward", f"'{lake.ns}.t', 'main', 'audit'")
    assert lake.ids("{ns}.t") == [1, 2]
    assert lake.ids("{ns}.t.tag_release") == [1]
    assert lake.ids(f"{{ns}}.t VERSION AS OF {first}") == [1]
    assert lake.ids(f"{{ns}}.t TIMESTAMP AS OF '{then}'") == [1]
    lake.call("rollback_to_snapshot", f"'{lake.ns}.t', {first}")
    assert lake.ids("{ns}.t") == [1]
    lake.sql("ALTER TABLE {ns}.t DROP TAG release")
    assert sorted(lake.sql("SELECT name, type FROM {ns}.t.refs")) == [("audit", "BRANCH"), ("main", "BRANCH")]


def test_views(lake: Lake) -> None:
    lake.sql("CREATE TABLE {ns}.t USING iceberg AS SELECT id FROM range(0, 4, 1, 1)")
    lake.sql(
        "CREATE VIEW {ns}.v (even COMMENT 'an id') TBLPROPERTIES ('k' = 'v')"
        " AS SELECT id FROM {ns}.t WHERE id % 2 = 0"
    )
    assert sorted(lake.sql("SELECT even FROM {ns}.v")) == [(0,), (2,)]
    lake.sql("CREATE OR REPLACE VIEW {ns}.v AS SELECT id FROM {ns}.t WHERE id > 2")
    assert lake.sql("SELECT * FROM {ns}.v") == [(3,)]
    lake.sql("ALTER VIEW {ns}.v SET TBLPROPERTIES ('k' = 'w')")
    lake.sql("ALTER VIEW {ns}.v RENAME TO {ns}.w")
    assert [row[1] for row in lake.sql("SHOW VIEWS IN {ns}")] == ["w"]
    assert ("k", "w") in lake.sql("SHOW TBLPROPERTIES {ns}.w")
    with pytest.raises(AnalysisException, match="already exists"):
        lake.sql("CREATE VIEW {ns}.w AS SELECT 1")
    lake.sql("DROP VIEW {ns}.w")
    assert lake.sql("SHOW VIEWS IN {ns}") == []


def test_rename_and_register(lake: Lake) -> None:
    lake.sql("CREATE TABLE {ns}.t USING iceberg AS SELECT 1 AS id")
    lake.sql("ALTER TABLE {ns}.t RENAME TO {ns}.renamed")
    [(file,)] = lake.sql("SELECT file FROM {ns}.renamed.metadata_log_entries ORDER BY timestamp DESC LIMIT 1")
    lake.sql("DROP TABLE {ns}.renamed")
    lake.call("register_table", f"'{lake.ns}.again', '{file}'")
    lake.sql("INSERT INTO {ns}.again VALUES (2)")
    assert lake.ids("{ns}.again") == [1, 2]


def test_metadata_tables(lake: Lake) -> None:
    lake.sql("CREATE TABLE {ns}.t USING iceberg AS SELECT 1 AS id")
    lake.sql("INSERT INTO {ns}.t VALUES (2)")
    for name, count in {
        "snapshots": 2,
        "history": 2,
        "files": 2,
        "manifests": 2,
        "entries": 2,
        "refs": 1,
        "all_data_files": 2,
        "metadata_log_entries": 2,
    }.items():
        assert len(lake.sql(f"SELECT * FROM {{ns}}.t.{name}")) == count, name
