"""Statistics of Trino beside captures of the service: engines read the newest statistics file alone."""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx
import pyarrow as pa
import pytest
from pyiceberg.table import Table

from tests.clients.warehouses import Warehouse
from tests.engines.conftest import EngineReport
from tests.engines.trino.conftest import Lake, page_settings
from tests.engines.trino_server import TrinoServer
from tests.services.catalog import running_catalog

_COLUMNS = 40
"""More than `floecat.statistics.first-columns`."""

_PATIENCE_S = 180.0


@pytest.fixture
def captured(tmp_path_factory: pytest.TempPathFactory, trino: TrinoServer) -> Iterator[Lake]:
    """A service that captures each commit and soon publishes."""
    environment = {
        "FLOECAT_GATEWAY_DEFAULT_PREFIX": "captured",
        "FLOECAT_STATISTICS_WORKERS": "1",
        "FLOECAT_STATISTICS_PUBLISH_AFTER": "PT1S",
    }
    with running_catalog(tmp_path_factory.mktemp("captured"), environment) as server:
        lake = Lake(trino, Warehouse(server), "s")
        trino.add_catalog("captured", page_settings(lake.warehouse))
        trino.run("CREATE SCHEMA captured.s")
        yield lake
        trino.remove_catalog("captured")


def test_no_column_is_hidden(captured: Lake, engine: EngineReport) -> None:
    columns = ", ".join(f"x % {number + 2} AS c{number}" for number in range(_COLUMNS))
    expected = {f"c{number}": float(number + 2) for number in range(_COLUMNS)}
    with engine.step("ANALYZE of 40 columns"):
        captured.sql(f"CREATE TABLE t AS SELECT {columns} FROM UNNEST(sequence(1, 1000)) AS s(x)")
        captured.sql("ANALYZE t")
        assert distinct_values(captured) == expected
    table = captured.pyiceberg().load_table("s.t")
    with engine.step("what the service publishes after another's commit has all 40"):
        append(table, -1)
        wait_until(captured, table, "published")
        assert distinct_values(captured) == {name: count + 1 for name, count in expected.items()}
    with engine.step("nothing is published where the policy leaves columns out"):
        with table.transaction() as change:
            change.set_properties({"floecat.statistics.columns": "c0"})
        append(table, -2)
        wait_until(captured, table, "captured")
        time.sleep(5)
        assert not is_published(table)
        assert distinct_values(captured) == {name: count + 1 for name, count in expected.items()}
    with engine.step("Trino's next ANALYZE counts all rows"):
        captured.sql("ANALYZE t")
        assert distinct_values(captured) == {name: count + 2 for name, count in expected.items()}


def distinct_values(lake: Lake) -> dict[str, float | None]:
    """What Trino shows, by column."""
    return {row[0]: row[2] for row in lake.sql("SHOW STATS FOR t") if row[0]}


def append(table: Table, value: int) -> None:
    """Appends a row that has the same value in each column."""
    names = table.schema().column_names
    table.append(pa.table({name: pa.array([value], pa.int64()) for name in names}))


def is_published(table: Table) -> bool:
    """Whether the current snapshot has a statistics file."""
    metadata = table.refresh().metadata
    return metadata.current_snapshot_id in {each.snapshot_id for each in metadata.statistics}


def wait_until(lake: Lake, table: Table, state: str) -> None:
    """Waits until the current snapshot is captured, or published."""
    path = "/management/v1/catalogs/captured/namespaces/s/tables/t/captures"
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        found = httpx.get(f"{lake.warehouse.uri}{path}", timeout=60).json()["snapshots"]
        done = {each["snapshot-id"] for each in found if each["finalized-at-ms"] is not None}
        if table.metadata.current_snapshot_id in done and (state == "captured" or is_published(table)):
            return
        time.sleep(0.5)
    raise AssertionError(f"the snapshot is not {state}: {found}")
