"""Spark SQL, on the local disk and on S3. Each statement costs a part of a second: few rows, few of them."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import AnalysisException

from tests.clients.connections import Connections, SparkCatalog
from tests.clients.warehouses import Warehouse, unique

pytestmark = pytest.mark.spark


class Lake:
    """A namespace in Spark."""

    def __init__(self, catalog: SparkCatalog, warehouse: Warehouse, ns: str) -> None:
        self.catalog = catalog
        self.warehouse = warehouse
        self.ns = ns

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Runs a statement in which `{ns}` is the namespace."""
        return self.catalog.sql(statement.replace("{ns}", self.ns))

    def call(self, procedure: str, arguments: str) -> tuple[Any, ...]:
        """Calls a procedure that answers one row."""
        [row] = self.sql(f"CALL {self.catalog.name}.system.{procedure}({arguments})")
        return row

    def ids(self, relation: str) -> list[int]:
        """The column `id`, sorted."""
        return sorted(row[0] for row in self.sql(f"SELECT id FROM {relation}"))


@pytest.fixture
def lake(connections: Connections, warehouse: Warehouse) -> Lake:
    """A new namespace."""
    catalog = connections.spark(warehouse)
    name = unique("spark")
    catalog.sql(f"CREATE NAMESPACE {name}")
    return Lake(catalog, warehouse, name)


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


def test_create_replace_and_drop_with_purge(lake: Lake) -> None:
    lake.sql("CREATE TABLE {ns}.t USING iceberg AS SELECT 1 AS id")
    lake.sql(
        "CREATE OR REPLACE TABLE {ns}.t USING iceberg PARTITIONED BY (kind) AS SELECT 2 AS id, 'x' AS kind"
    )
    assert lake.sql("SELECT * FROM {ns}.t") == [(2, "x")]
    assert len(lake.sql("SELECT * FROM {ns}.t.snapshots")) == 2
    [(file,)] = lake.sql("SELECT file FROM {ns}.t.metadata_log_entries ORDER BY timestamp DESC LIMIT 1")
    location = file.rpartition("/metadata/")[0]
    assert lake.warehouse.files_below(location)
    lake.sql("DROP TABLE {ns}.t PURGE")
    assert lake.sql("SHOW TABLES IN {ns}") == []
    assert not lake.warehouse.wait_until_empty(location)


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


def test_branches_tags_and_time_travel(lake: Lake) -> None:
    lake.sql("CREATE TABLE {ns}.t USING iceberg AS SELECT 1 AS id")
    [(first,)] = lake.sql("SELECT snapshot_id FROM {ns}.t.snapshots")
    lake.sql("ALTER TABLE {ns}.t CREATE TAG release RETAIN 7 DAYS")
    lake.sql("ALTER TABLE {ns}.t CREATE BRANCH audit")
    lake.sql("INSERT INTO {ns}.t.branch_audit VALUES (2)")
    assert lake.ids("{ns}.t") == [1]
    assert lake.ids("{ns}.t VERSION AS OF 'audit'") == [1, 2]
    lake.call("fast_forward", f"'{lake.ns}.t', 'main', 'audit'")
    assert lake.ids("{ns}.t") == [1, 2]
    assert lake.ids("{ns}.t.tag_release") == [1]
    assert lake.ids(f"{{ns}}.t VERSION AS OF {first}") == [1]
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


def test_maintenance(lake: Lake) -> None:
    lake.sql(
        "CREATE TABLE {ns}.t (id BIGINT, kind STRING) USING iceberg"
        " TBLPROPERTIES ('write.delete.mode' = 'merge-on-read', 'commit.manifest-merge.enabled' = 'false')"
    )
    for start in (0, 10, 20):
        lake.sql(f"INSERT INTO {{ns}}.t SELECT id, 'x' FROM range({start}, {start + 10}, 1, 1)")
    lake.sql("DELETE FROM {ns}.t WHERE id IN (1, 2)")
    lake.sql("DELETE FROM {ns}.t WHERE id IN (3, 4)")
    name = f"table => '{lake.ns}.t'"
    expected = [number for number in range(30) if number not in (1, 2, 3, 4)]
    assert (
        lake.call("rewrite_position_delete_files", f"{name}, options => map('rewrite-all', 'true')")[0] >= 1
    )
    assert lake.call("rewrite_manifests", name)[0] >= 2
    rewritten = lake.call("rewrite_data_files", f"{name}, options => map('rewrite-all', 'true')")
    assert rewritten[:2] == (3, 1)
    assert lake.ids("{ns}.t") == expected
    expired = lake.call("expire_snapshots", f"{name}, older_than => TIMESTAMP '2999-01-01', retain_last => 1")
    assert expired[0] >= 3
    assert len(lake.sql("SELECT * FROM {ns}.t.snapshots")) == 1
    assert lake.ids("{ns}.t") == expected
    arguments = f"{name}, older_than => TIMESTAMP '2000-01-01', dry_run => true, prefix_listing => true"
    assert lake.sql(f"CALL {lake.catalog.name}.system.remove_orphan_files({arguments})") == []


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
