"""Tables of Trino: what SQL does to rows, schemas and snapshots, seen by Trino and by PyIceberg."""

from __future__ import annotations

import subprocess

import pytest

from tests.engines.conftest import EngineReport
from tests.engines.trino.conftest import Lake
from tests.engines.trino_server import TrinoError

_EACH_TYPE = [
    ("boolean", "true", True),
    ("integer", "-7", -7),
    ("bigint", "9223372036854775807", 9223372036854775807),
    ("real", "REAL '1.5'", 1.5),
    ("double", "-0.25e0", -0.25),
    ("decimal(38, 9)", "DECIMAL '12345678901234567890.123456789'", "12345678901234567890.123456789"),
    ("varchar", "'süß ☃ ''quoted'''", "süß ☃ 'quoted'"),
    ("varbinary", "X'00ff10'", "AP8Q"),
    ("date", "DATE '1969-12-31'", "1969-12-31"),
    ("time(6)", "TIME '23:59:59.999999'", "23:59:59.999999"),
    ("timestamp(6)", "TIMESTAMP '1582-10-15 00:00:00.000001'", "1582-10-15 00:00:00.000001"),
    (
        "timestamp(6) with time zone",
        "TIMESTAMP '2026-03-29 02:30:00.5 +02:00'",
        "2026-03-29 00:30:00.500000 UTC",
    ),
    ("uuid", "UUID '12151fd2-7586-11e9-8f9e-2a86e4085a59'", "12151fd2-7586-11e9-8f9e-2a86e4085a59"),
    ("array(integer)", "ARRAY[1, NULL, 3]", [1, None, 3]),
    ("map(varchar, bigint)", "MAP(ARRAY['k'], ARRAY[1])", {"k": 1}),
    ("row(a integer, b row(c varchar))", "ROW(1, ROW('deep'))", [1, ["deep"]]),
]

_TRANSFORMS = [
    "day", "id", "truncate(name, 2)", "bucket(id, 4)", "year(at)", "month(at)", "day(at)", "hour(at)",
    "month(day)", "bucket(name, 3)",
]  # fmt: skip


def test_schemas(lake: Lake, engine: EngineReport) -> None:
    inner = f'{lake.catalog}."{lake.schema}.inner"'
    with engine.step("nested schema"):
        lake.sql(f"CREATE SCHEMA {inner}")
        assert [f"{lake.schema}.inner"] in lake.sql(f"SHOW SCHEMAS FROM {lake.catalog}")
    with engine.step("table in a nested schema"):
        lake.sql(f"CREATE TABLE {inner}.t AS SELECT 1 AS id")
        assert lake.sql(f"SELECT id FROM {inner}.t") == [[1]]
    with engine.step("the location that a schema tells holds its tables"):
        [[told]] = lake.sql(f"SHOW CREATE SCHEMA {inner}")
        [[file]] = lake.sql(f'SELECT file_path FROM {inner}."t$files"')
        assert f"location = '{lake.warehouse.root}/{lake.schema}/inner'" in told
        assert file.startswith(f"{lake.warehouse.root}/{lake.schema}/inner/t-")
    with engine.step("schema with a location, a slash at its end"):
        elsewhere = f"{lake.warehouse.root}/elsewhere-{lake.schema}"
        lake.sql(f"CREATE SCHEMA {lake.catalog}.{lake.schema}_placed WITH (location = '{elsewhere}/')")
        lake.sql(f"CREATE TABLE {lake.catalog}.{lake.schema}_placed.t AS SELECT 2 AS id")
        [[file]] = lake.sql(f'SELECT file_path FROM {lake.catalog}.{lake.schema}_placed."t$files"')
        assert file.startswith(f"{elsewhere}/t-")
    with engine.step("schema with a location outside"), pytest.raises(TrinoError, match="allowed locations"):
        lake.sql(f"CREATE SCHEMA {lake.catalog}.{lake.schema}_out WITH (location = 's3://elsewhere/x')")
    with engine.step("the command line tells the reason with --debug alone"):
        statement = f"CREATE SCHEMA {lake.catalog}.{lake.schema}_out WITH (location = 's3://elsewhere/x')"
        for options, tells in [((), False), (("--debug",), True)]:
            command = lake.trino.command_line(*options, "--execute", statement)
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
            assert (done.returncode, "allowed locations" in done.stderr) == (1, tells), done.stderr
    with engine.step("schema that is not empty"), pytest.raises(TrinoError, match="non-empty"):
        lake.sql(f"DROP SCHEMA {inner}")
    with engine.step("drop, with what is in it"):
        lake.sql(f"DROP SCHEMA {inner} CASCADE")
        assert [f"{lake.schema}.inner"] not in lake.sql(f"SHOW SCHEMAS FROM {lake.catalog}")


def test_rows_change(lake: Lake, engine: EngineReport) -> None:
    with engine.step("create"):
        lake.sql("CREATE TABLE t (id bigint NOT NULL, name varchar, kind varchar)"
                 " WITH (partitioning = ARRAY['kind'])")  # fmt: skip
        assert lake.sql("SELECT * FROM t") == []
    with engine.step("insert"):
        lake.sql("INSERT INTO t SELECT x, 'row ' || CAST(x AS varchar), IF(x < 4, 'a', 'b')"
                 " FROM UNNEST(sequence(0, 5)) AS s(x)")  # fmt: skip
    with engine.step("update"):
        lake.sql("UPDATE t SET name = 'changed' WHERE id = 0")
    with engine.step("delete"):
        lake.sql("DELETE FROM t WHERE id = 1")
    with engine.step("merge"):
        lake.sql(
            "MERGE INTO t USING (VALUES (2, 'merged'), (3, 'out'), (9, 'new')) AS s(id, name) ON t.id = s.id"
            " WHEN MATCHED AND s.name = 'out' THEN DELETE WHEN MATCHED THEN UPDATE SET name = s.name"
            " WHEN NOT MATCHED THEN INSERT (id, name, kind) VALUES (s.id, s.name, 'b')"
        )
    expected = [[0, "changed"], [2, "merged"], [4, "row 4"], [5, "row 5"], [9, "new"]]
    with engine.step("select"):
        assert lake.sql("SELECT id, name FROM t ORDER BY id") == expected
    with engine.step("PyIceberg reads the rows"):
        rows = lake.pyiceberg().load_table(f"{lake.schema}.t").scan().to_arrow().sort_by("id").to_pylist()
        assert [[row["id"], row["name"]] for row in rows] == expected
    with engine.step("the service's plan gives the rows"):
        planned = lake.pyiceberg()
        planned.properties["scan-planning-mode"] = "server"
        assert planned.load_table(f"{lake.schema}.t").scan().to_arrow().num_rows == len(expected)
    with engine.step("delete of a partition"):
        lake.sql("DELETE FROM t WHERE kind = 'a'")
        assert lake.sql("SELECT id FROM t ORDER BY id") == [[4], [5], [9]]
    with engine.step("truncate"):
        lake.sql("TRUNCATE TABLE t")
        assert lake.sql("SELECT count(*) FROM t") == [[0]]
    with engine.step("drop removes the table and its files"):
        location = lake.pyiceberg().load_table(f"{lake.schema}.t").location()
        lake.sql("DROP TABLE t")
        assert lake.sql("SHOW TABLES") == []
        assert lake.warehouse.wait_until_empty(location) == set()


def test_create_table_as(lake: Lake, engine: EngineReport) -> None:
    with engine.step("create table as"):
        lake.sql("CREATE TABLE t WITH (sorted_by = ARRAY['id DESC']) AS SELECT * FROM (VALUES 1, 2) AS v(id)")
        assert lake.sql("SELECT * FROM t ORDER BY 1") == [[1], [2]]
    with engine.step("its reports are taken"):
        assert "/metrics 404" not in lake.server.log.read_text()
    with engine.step("with a location of one's own"):
        lake.sql(f"CREATE TABLE own WITH (location = '{lake.warehouse.root}/own-{lake.schema}')"
                 " AS SELECT 1 AS id")  # fmt: skip
        assert lake.sql("SELECT * FROM own") == [[1]]
    with engine.step("with a location outside"):
        with pytest.raises(TrinoError):
            lake.sql("CREATE TABLE outside (id bigint) WITH (location = 's3://elsewhere/outside')")
        assert ["outside"] not in lake.sql("SHOW TABLES")
    with engine.step("create or replace keeps the history"):
        lake.sql("CREATE OR REPLACE TABLE t AS SELECT 'x' AS other")
        assert lake.sql("SELECT * FROM t") == [["x"]]
        assert lake.sql('SELECT count(*) FROM "t$snapshots"') == [[2]]
    with engine.step("if not exists"):
        lake.sql("CREATE TABLE IF NOT EXISTS t (id bigint)")
        assert lake.sql("SELECT * FROM t") == [["x"]]
    with engine.step("that exists"), pytest.raises(TrinoError, match="already exists"):
        lake.sql("CREATE TABLE t (id bigint)")
    with engine.step("that fails leaves nothing"):
        with pytest.raises(TrinoError, match="Division by zero"):
            lake.sql("CREATE TABLE broken AS SELECT 1 / (x - 3) AS y FROM UNNEST(sequence(1, 5)) AS s(x)")
        assert ["broken"] not in lake.sql("SHOW TABLES")
    with engine.step("rename"):
        lake.sql("ALTER TABLE t RENAME TO renamed")
        assert lake.sql("SELECT * FROM renamed") == [["x"]]
        assert lake.sql("SHOW TABLES") == [["own"], ["renamed"]]


def test_types(lake: Lake, engine: EngineReport) -> None:
    with engine.step("every type"):
        columns = ", ".join(f"c{number} {kind}" for number, (kind, _, _) in enumerate(_EACH_TYPE))
        lake.sql(f"CREATE TABLE t ({columns})")
        lake.sql(f"INSERT INTO t VALUES ({', '.join(literal for _, literal, _ in _EACH_TYPE)})")
        lake.sql(f"INSERT INTO t VALUES ({', '.join('NULL' for _ in _EACH_TYPE)})")
    with engine.step("values come back"):
        # the protocol writes times with three digits unless they are text
        shown = ", ".join(
            f"CAST(c{number} AS varchar)" if kind.startswith(("time", "date")) else f"c{number}"
            for number, (kind, _, _) in enumerate(_EACH_TYPE)
        )
        assert lake.sql(f"SELECT {shown} FROM t WHERE c0") == [[value for _, _, value in _EACH_TYPE]]
        assert lake.sql("SELECT * FROM t WHERE c0 IS NULL") == [[None] * len(_EACH_TYPE)]
    for number, (kind, literal, _) in enumerate(_EACH_TYPE):
        if "(integer)" in kind or kind.startswith(("map", "row")):
            continue
        with engine.step(f"filter on {kind}"):
            assert lake.sql(f"SELECT count(*) FROM t WHERE c{number} = {literal}") == [[1]]
    with engine.step("PyIceberg reads them"):
        rows = lake.pyiceberg().load_table(f"{lake.schema}.t").scan(row_filter="c0 = true").to_arrow()
        [row] = rows.to_pylist()
        assert (row["c6"], row["c7"], row["c13"]) == ("süß ☃ 'quoted'", b"\x00\xff\x10", [1, None, 3])
        assert row["c15"] == {"a": 1, "b": {"c": "deep"}}


def test_partitions(lake: Lake, engine: EngineReport) -> None:
    for number, transform in enumerate(_TRANSFORMS):
        with engine.step(f"partitions by {transform}"):
            lake.sql(
                f"CREATE TABLE p{number} (id bigint, name varchar, day date, at timestamp(6))"
                f" WITH (partitioning = ARRAY['{transform}'])"
            )
            lake.sql(
                f"INSERT INTO p{number} VALUES (NULL, NULL, NULL, NULL),"
                " (1, 'one', DATE '2026-01-01', TIMESTAMP '2026-01-01 10:00:00'),"
                " (2, 'two', DATE '1969-12-31', TIMESTAMP '1969-12-31 23:00:00')"
            )
            lake.sql(f"DELETE FROM p{number} WHERE id = 2")
            assert lake.sql(f"SELECT id FROM p{number} ORDER BY id") == [[1], [None]]
            assert lake.sql(f"SELECT name FROM p{number} WHERE day = DATE '2026-01-01'") == [["one"]]
            assert lake.pyiceberg().load_table(f"{lake.schema}.p{number}").scan().to_arrow().num_rows == 2
    with engine.step("partitioning changes"):
        lake.sql("ALTER TABLE p0 SET PROPERTIES partitioning = ARRAY['bucket(id, 2)', 'month(day)']")
        lake.sql("INSERT INTO p0 VALUES (3, 'three', DATE '2026-02-01', NULL)")
        assert lake.sql("SELECT id FROM p0 ORDER BY id") == [[1], [3], [None]]
    with engine.step("select from $partitions"):
        assert sum(row[0] for row in lake.sql('SELECT record_count FROM "p1$partitions"')) == 2


def test_schema_evolution(lake: Lake, engine: EngineReport) -> None:
    lake.sql("CREATE TABLE t AS SELECT 1 AS id, CAST(ROW(1) AS row(a integer)) AS r, REAL '1.5' AS f")
    with engine.step("add a column"):
        lake.sql("ALTER TABLE t ADD COLUMN added varchar COMMENT 'later'")
        assert lake.sql("SELECT id, added FROM t") == [[1, None]]
    with engine.step("add a field of a row"):
        lake.sql("ALTER TABLE t ADD COLUMN r.b varchar")
        assert lake.sql("SELECT r FROM t") == [[[1, None]]]
    with engine.step("rename a column"):
        lake.sql("ALTER TABLE t RENAME COLUMN id TO key")
        assert lake.sql("SELECT key FROM t") == [[1]]
    with engine.step("widen"):
        lake.sql("ALTER TABLE t ALTER COLUMN key SET DATA TYPE bigint")
        lake.sql("ALTER TABLE t ALTER COLUMN f SET DATA TYPE double")
        lake.sql("INSERT INTO t (key, f) VALUES (9223372036854775807, 2.5)")
        assert lake.sql("SELECT key, f FROM t ORDER BY key") == [[1, 1.5], [9223372036854775807, 2.5]]
    with engine.step("drop a column, add it anew"):
        lake.sql("ALTER TABLE t DROP COLUMN f")
        lake.sql("ALTER TABLE t ADD COLUMN f varchar")
        assert lake.sql("SELECT DISTINCT f FROM t") == [[None]]
    with engine.step("drop a field"):
        lake.sql("ALTER TABLE t DROP COLUMN r.b")
        assert lake.sql("SELECT r FROM t WHERE key = 1") == [[[1]]]
    with engine.step("comments"):
        lake.sql("COMMENT ON TABLE t IS 'a table'")
        lake.sql("COMMENT ON COLUMN t.key IS 'a key'")
        [[shown]] = lake.sql("SHOW CREATE TABLE t")
        assert "COMMENT 'a table'" in shown
        assert "COMMENT 'a key'" in shown
    with engine.step("files of another format"):
        lake.sql("ALTER TABLE t SET PROPERTIES format = 'AVRO'")
        lake.sql("INSERT INTO t (key) VALUES (7)")
        assert lake.sql("SELECT count(*) FROM t") == [[3]]
        assert {row[0] for row in lake.sql('SELECT file_format FROM "t$files"')} >= {"PARQUET", "AVRO"}


def test_snapshots(lake: Lake, engine: EngineReport) -> None:
    lake.sql("CREATE TABLE t AS SELECT 1 AS id")
    [[first]] = lake.sql('SELECT snapshot_id FROM "t$snapshots"')
    lake.sql("INSERT INTO t VALUES 2")
    [[second, at]] = lake.sql(
        'SELECT snapshot_id, CAST(committed_at AS varchar) FROM "t$snapshots"'
        " ORDER BY committed_at DESC LIMIT 1"
    )
    lake.sql("INSERT INTO t VALUES 3")
    table = lake.pyiceberg().load_table(f"{lake.schema}.t")
    table.manage_snapshots().create_tag(first, "one").create_branch(second, "two").commit()
    for name, version, rows in [
        ("a snapshot", f"VERSION AS OF {first}", [[1]]),
        ("a time", f"TIMESTAMP AS OF TIMESTAMP '{at}'", [[1], [2]]),
        ("a tag", "VERSION AS OF 'one'", [[1]]),
        ("a branch", "VERSION AS OF 'two'", [[1], [2]]),
    ]:
        with engine.step(f"rows as of {name}"):
            assert lake.sql(f"SELECT id FROM t FOR {version} ORDER BY id") == rows
    for table_name, count in [("snapshots", 3), ("history", 3), ("files", 3), ("refs", 3), ("manifests", 3)]:
        with engine.step(f"select from ${table_name}"):
            assert lake.sql(f'SELECT count(*) FROM "t${table_name}"') == [[count]]
    with engine.step("select from $properties"):
        assert ["write.format.default", "PARQUET"] in lake.sql('SELECT * FROM "t$properties"')
    with engine.step("hidden columns"):
        assert lake.sql('SELECT count(DISTINCT "$path") FROM t') == [[3]]
    with engine.step("optimize"):
        lake.sql("ALTER TABLE t EXECUTE optimize")
        assert lake.sql('SELECT count(*) FROM "t$files"') == [[1]]
    with engine.step("optimize_manifests"):
        lake.sql("ALTER TABLE t EXECUTE optimize_manifests")
        assert lake.sql('SELECT count(*) FROM "t$manifests"') == [[1]]
    with engine.step("expire_snapshots"):
        lake.sql("ALTER TABLE t EXECUTE expire_snapshots(retention_threshold => '0s')")
        kept = {row[0] for row in lake.sql('SELECT snapshot_id FROM "t$snapshots"')}
        assert kept >= {first, second}
        assert len(kept) == 3
    with engine.step("remove_orphan_files"):
        location = table.location()
        lake.warehouse.put(f"{location}/data/orphan.parquet")
        lake.sql("ALTER TABLE t EXECUTE remove_orphan_files(retention_threshold => '0s')")
        assert "data/orphan.parquet" not in lake.warehouse.files_below(location)
        assert lake.sql("SELECT id FROM t ORDER BY id") == [[1], [2], [3]]
        assert lake.sql("SELECT id FROM t FOR VERSION AS OF 'one'") == [[1]]
    with engine.step("rollback_to_snapshot"):
        lake.sql(f"ALTER TABLE t EXECUTE rollback_to_snapshot({second})")
        assert lake.sql("SELECT id FROM t ORDER BY id") == [[1], [2]]
    with engine.step("unregister and register"):
        location = lake.pyiceberg().load_table(f"{lake.schema}.t").location()
        lake.sql(f"CALL {lake.catalog}.system.unregister_table('{lake.schema}', 't')")
        assert lake.sql("SHOW TABLES") == []
        assert lake.warehouse.files_below(location)
    with engine.step("register_table is off unless the catalog allows it"), pytest.raises(TrinoError):
        lake.sql(f"CALL {lake.catalog}.system.register_table('{lake.schema}', 't', '{location}')")


def test_statistics(lake: Lake, engine: EngineReport) -> None:
    lake.sql("CREATE TABLE t AS SELECT x AS id, x % 3 AS third FROM UNNEST(sequence(1, 100)) AS s(x)")
    with engine.step("show stats"):
        stats = {row[0]: row for row in lake.sql("SHOW STATS FOR t")}
        assert stats[None][4] == 100.0
    with engine.step("analyze"):
        lake.sql("INSERT INTO t SELECT x, x FROM UNNEST(sequence(101, 110)) AS s(x)")
        lake.sql("ANALYZE t")
        stats = {row[0]: row for row in lake.sql("SHOW STATS FOR t")}
        assert (stats["id"][2], stats["third"][2]) == (110.0, 13.0)
    with engine.step("drop_extended_stats"):
        lake.sql("ALTER TABLE t EXECUTE drop_extended_stats")
        assert {row[0]: row[2] for row in lake.sql("SHOW STATS FOR t")}["id"] is None
