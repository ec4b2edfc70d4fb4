"""Tables of format version 3, which Trino 476 reads and appends to, as docs/clients/trino.md says."""

from __future__ import annotations

from datetime import date
from typing import Any

import httpx
import pytest

from tests.clients.connections import connect_duckdb, connect_pyiceberg
from tests.engines.conftest import EngineReport
from tests.engines.trino.conftest import Lake
from tests.engines.trino_server import TrinoError

_COLUMNS = [("id", "long", {}), ("name", "string", {})]
_WITH_DEFAULTS = [
    ("id", "long", {}),
    ("number", "int", {"initial-default": 7, "write-default": 8}),
    ("text", "string", {"initial-default": "old", "write-default": "new"}),
    ("day", "date", {"initial-default": "2026-01-02", "write-default": "2026-01-03"}),
]
_OLD = [1, 7, "old", date(2026, 1, 2)]
_NEW = [2, 8, "new", date(2026, 1, 3)]
_UNREADABLE = ["timestamp_ns", "timestamptz_ns", "variant", "geometry", "geography", "unknown"]


def test_rows(lake: Lake, engine: EngineReport) -> None:
    create(lake, "t", _COLUMNS)
    with engine.step("insert into a table of version 3"):
        lake.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        lake.sql("INSERT INTO t VALUES (3, 'c')")
        assert lake.sql("SELECT * FROM t ORDER BY id") == [[1, "a"], [2, "b"], [3, "c"]]
    with engine.step("others read the rows, which have ids"):
        duckdb = connect_duckdb(lake.warehouse)
        found = duckdb.execute(f"SELECT * FROM lake.{lake.schema}.t ORDER BY id").fetchall()
        assert found == [(1, "a"), (2, "b"), (3, "c")]
        metadata = ask(lake, "GET", "/t")["metadata"]
        assert (metadata["next-row-id"], metadata["snapshots"][-1]["first-row-id"]) == (3, 2)
    with engine.step("change a schema"):
        lake.sql("ALTER TABLE t ADD COLUMN more varchar")
        assert lake.sql("SELECT id, more FROM t WHERE id = 3") == [[3, None]]
    for statement in (
        "DELETE FROM t WHERE id = 1",
        "UPDATE t SET name = 'x' WHERE id = 1",
        "MERGE INTO t USING (VALUES 1) AS s(id) ON t.id = s.id WHEN MATCHED THEN DELETE",
        "ALTER TABLE t EXECUTE optimize",
    ):
        with engine.step(f"{statement.split()[0]} … {statement.split()[-1]} is refused"):
            with pytest.raises(TrinoError):
                lake.sql(statement)
            assert lake.sql("SELECT count(*) FROM t") == [[3]]
    with engine.step("a table with deletion vectors is refused"):
        duckdb.execute(f"DELETE FROM lake.{lake.schema}.t WHERE id = 1")
        with pytest.raises(TrinoError, match="PUFFIN"):
            lake.sql("SELECT * FROM t")
    with (
        engine.step("a new table of version 3 is refused"),
        pytest.raises(TrinoError, match="between 1 and 2"),
    ):
        lake.sql("CREATE TABLE u (id bigint) WITH (format_version = 3)")


def test_types(lake: Lake, engine: EngineReport) -> None:
    for kind in _UNREADABLE:
        create(lake, f"t_{kind}", [("id", "long", {}), ("value", kind, {})])
        with (
            engine.step(f"a table with {kind} is refused"),
            pytest.raises(TrinoError, match="Cannot convert"),
        ):
            lake.sql(f"SELECT id FROM t_{kind}")
    create(lake, "t", _COLUMNS)
    with engine.step("lists leave these tables out, and show the others"):
        listed = lake.sql(
            f"SELECT DISTINCT table_name FROM {lake.catalog}.information_schema.columns"
            f" WHERE table_schema = '{lake.schema}'"
        )
        assert listed == [["t"]]


def test_initial_defaults(lake: Lake, engine: EngineReport) -> None:
    """Columns with defaults, added after a file was written: its rows have the initial default."""
    create(lake, "t", _WITH_DEFAULTS[:1])
    lake.sql("INSERT INTO t VALUES 1")
    added = [
        {"action": "add-schema", "schema": schema(_WITH_DEFAULTS), "last-column-id": len(_WITH_DEFAULTS)},
        {"action": "set-current-schema", "schema-id": -1},
    ]
    ask(lake, "POST", "/t", {"requirements": [], "updates": added})
    duckdb = connect_duckdb(lake.warehouse)
    duckdb.execute(f"INSERT INTO lake.{lake.schema}.t (id) VALUES (2)")
    with engine.step("DuckDB reads initial defaults, and writes defaults"):
        assert sorted(duckdb.execute(f"SELECT * FROM lake.{lake.schema}.t").fetchall()) == [
            tuple(_OLD),
            tuple(_NEW),
        ]
        filtered = f"SELECT id FROM lake.{lake.schema}.t WHERE text = 'old'"
        assert duckdb.execute(filtered).fetchall() == [(1,)]
    for mode in ("client", "server"):
        table = connect_pyiceberg(lake.warehouse, **{"scan-planning-mode": mode}).load_table(
            f"{lake.schema}.t"
        )
        for row_filter, expected in [
            ("id > 0", [_OLD, _NEW]),
            ("number = 7", [_OLD]),
            ("number != 7", [_NEW]),
            ("text is null", []),
        ]:
            with engine.step(f"PyIceberg reads {row_filter}, planned by the {mode}"):
                rows = table.scan(row_filter=row_filter).to_arrow().sort_by("id").to_pylist()
                assert [list(row.values()) for row in rows] == expected
        with engine.step(f"PyIceberg compares a default that is a date with a number, planned by the {mode}"):
            by_day = table.scan(row_filter="day < '2026-01-03'")
            with pytest.raises(TypeError, match=r"datetime\.date"):
                by_day.to_arrow()
    with engine.step("Trino knows no initial defaults: it reads nulls"):
        read = lake.sql("SELECT * FROM t ORDER BY id")
        assert read == [[1, None, None, None], [2, 8, "new", "2026-01-03"]]


def schema(columns: list[tuple[str, str, dict[str, Any]]]) -> dict[str, Any]:
    """A schema as the protocol has it."""
    fields = [
        {"id": number, "name": name, "type": kind, "required": False} | defaults
        for number, (name, kind, defaults) in enumerate(columns, 1)
    ]
    return {"type": "struct", "fields": fields}


def create(lake: Lake, name: str, columns: list[tuple[str, str, dict[str, Any]]]) -> None:
    """Creates a table of version 3."""
    ask(lake, "POST", "", {"name": name, "schema": schema(columns), "properties": {"format-version": "3"}})


def ask(lake: Lake, method: str, path: str, body: object = None) -> Any:
    """Asks for the tables of the schema by REST."""
    url = f"{lake.warehouse.uri}/v1/{lake.catalog}/namespaces/{lake.schema}/tables{path}"
    return httpx.request(method, url, json=body, timeout=120).raise_for_status().json()
