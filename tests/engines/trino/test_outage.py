"""The service killed for 20 s while Trino inserts: rows land once, or the statement says that it failed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.warehouses import Warehouse
from tests.engines.conftest import EngineReport
from tests.engines.trino.conftest import Lake, page_settings
from tests.engines.trino_server import TrinoError, TrinoServer
from tests.services.catalog import running_catalog

_AWAY_S = 20


@pytest.fixture
def fragile(tmp_path: Path, trino: TrinoServer) -> Iterator[Lake]:
    """A service of the test's own."""
    with running_catalog(tmp_path, {"FLOECAT_GATEWAY_DEFAULT_PREFIX": "fragile"}) as server:
        lake = Lake(trino, Warehouse(server), "s")
        trino.add_catalog("fragile", page_settings(lake.warehouse))
        trino.run("CREATE SCHEMA fragile.s")
        yield lake
        trino.remove_catalog("fragile")


def test_killed_during_an_insert(fragile: Lake, engine: EngineReport) -> None:
    fragile.sql("CREATE TABLE t (id bigint)")
    failed: list[TrinoError] = []

    def insert() -> None:
        try:
            # long enough that the service is gone when the commit comes
            fragile.sql(
                "INSERT INTO t SELECT a.x * 100000 + b.x FROM UNNEST(sequence(1, 10)) AS a(x)"
                " CROSS JOIN UNNEST(sequence(1, 10000)) AS b(x)"
                " WHERE sha512(sha512(sha512(to_utf8(CAST(b.x AS varchar))))) IS NOT NULL"
            )
        except TrinoError as error:
            failed.append(error)

    with engine.step("the service is killed for 20 s in an insert"):
        writer = threading.Thread(target=insert)
        writer.start()
        _wait_for_data(fragile)
        fragile.server.kill()
        time.sleep(_AWAY_S)
        fragile.server.start()
        writer.join(600)
        assert not writer.is_alive()
    with engine.step("its rows are there once, or not at all and the statement failed"):
        [[count]] = fragile.sql("SELECT count(*) FROM t")
        assert count == (0 if failed else 100_000)
    with engine.step("the next insert lands"):
        fragile.sql("INSERT INTO t VALUES -1")
        assert fragile.sql("SELECT count(*), count(DISTINCT id) FROM t") == [[count + 1, count + 1]]
    with engine.step("the service is killed between statements"):
        fragile.server.kill()
        with pytest.raises(TrinoError):
            fragile.sql("CREATE TABLE u AS SELECT 1 AS id")
        fragile.server.start()
        fragile.sql("CREATE TABLE u AS SELECT 1 AS id")
        assert fragile.sql("SELECT * FROM u") == [[1]]


def _wait_for_data(lake: Lake) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if any("/data/" in name for name in lake.warehouse.files_below(f"{lake.warehouse.root}/s")):
            return
        time.sleep(0.01)
    raise AssertionError("Trino wrote no file")
