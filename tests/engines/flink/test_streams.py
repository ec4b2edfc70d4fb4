"""Streams whose checkpoints are commits, while the service is killed for 20 s."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.engines.conftest import EngineReport
from tests.engines.flink.conftest import Lake

_ROWS, _ROWS_PER_S = 4500, 100
_KEYS = 50
_AWAY_S = 20.0
_PATIENCE_S = 180.0


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def snapshots(lake: Lake, table: str) -> int:
    return len(lake.pyiceberg.load_table(table).snapshots())


def create_source(lake: Lake) -> None:
    """The numbers from 1, at a rate."""
    options = {
        "connector": "datagen",
        "rows-per-second": str(_ROWS_PER_S),
        "fields.id.kind": "sequence",
        "fields.id.start": "1",
        "fields.id.end": str(_ROWS),
    }
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in options.items())
    lake.flink.sql(f"CREATE TEMPORARY TABLE IF NOT EXISTS numbers (id BIGINT) WITH ({listed})", "streaming")


def through_an_outage(lake: Lake, table: str, statement: str) -> None:
    create_source(lake)
    job = lake.flink.start(statement)
    wait_until(lambda: snapshots(lake, table) >= 2)
    lake.warehouse.server.kill()
    time.sleep(_AWAY_S)
    lake.warehouse.server.start()
    lake.flink.wait(job)
    assert snapshots(lake, table) >= 4


def test_each_row_arrives_once(lake: Lake, engine: EngineReport) -> None:
    database = lake.create_database()
    table = f"{database}.t"
    lake.flink.sql(f"CREATE TABLE {table} (id BIGINT, k BIGINT) PARTITIONED BY (k)")
    with engine.step(f"a stream of {_ROWS} rows, the service killed for {_AWAY_S:.0f} s"):
        through_an_outage(lake, table, f"INSERT INTO {table} SELECT id, MOD(id, 3) FROM numbers")
        assert lake.rows(table) == [(id, id % 3) for id in range(1, _ROWS + 1)]


@pytest.mark.parametrize("version", [2, 3])
def test_upserts(lake: Lake, engine: EngineReport, version: int) -> None:
    table = f"{lake.create_database()}.t"
    properties = f"'format-version' = '{version}', 'write.upsert.enabled' = 'true'"
    key = "PRIMARY KEY (k) NOT ENFORCED"
    lake.flink.sql(f"CREATE TABLE {table} (k BIGINT, n BIGINT, latest BIGINT, {key}) WITH ({properties})")
    with engine.step(f"a stream of upserts, v{version}, the service killed for {_AWAY_S:.0f} s"):
        counts = f"SELECT MOD(id, {_KEYS}) AS k, COUNT(*), MAX(id) FROM numbers GROUP BY MOD(id, {_KEYS})"
        through_an_outage(lake, table, f"INSERT INTO {table} {counts}")
        latest = {id % _KEYS: id for id in range(1, _ROWS + 1)}
        rows = [(k, _ROWS // _KEYS, latest[k]) for k in range(_KEYS)]
        assert lake.duckdb_rows(table) == rows
        found = lake.flink.sql(f"SELECT * FROM {table}")
        assert sorted(tuple(map(int, row)) for row in found) == rows


def test_a_stream_reads_a_table(lake: Lake, engine: EngineReport) -> None:
    database = lake.create_database()
    source, target = f"{database}.source", f"{database}.target"
    for table in (source, target):
        lake.flink.sql(f"CREATE TABLE {table} (id BIGINT)")
    lake.flink.sql(f"INSERT INTO {source} VALUES (1), (2)")
    with engine.step("a stream from table to table, the service restarted"):
        hint = "/*+ OPTIONS('streaming' = 'true', 'monitor-interval' = '1s') */"
        job = lake.flink.start(f"INSERT INTO {target} SELECT id FROM {source} {hint}")
        wait_until(lambda: lake.rows(target) == [(1,), (2,)])
        lake.warehouse.server.restart()
        lake.flink.sql(f"INSERT INTO {source} VALUES (3)")
        wait_until(lambda: lake.rows(target) == [(1,), (2,), (3,)])
        assert lake.flink.status(job) in ("RUNNING", "RESTARTING")
        lake.flink.cancel(job)
