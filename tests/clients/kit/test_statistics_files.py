"""Transactions of Java beside the statistics files that the service commits to their tables."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog

from tests.clients.kit.java import Iceberg
from tests.clients.warehouses import Warehouse
from tests.services.catalog import CatalogServer

QUIET_S = 2.0
HOLDS_S = 1.4
ROUNDS = 4


@pytest.mark.scale
def test_schema_changes_do_not_fail(iceberg: Iceberg, start_catalog: Callable[..., CatalogServer]) -> None:
    """Java refuses a transaction with a schema change if the table changes while it is open.

    Each one is open when the statistics file of the commit before would be due.
    """
    server = start_catalog(
        FLOECAT_STATISTICS_WORKERS="1",
        FLOECAT_STATISTICS_PUBLISH_AFTER=f"PT{QUIET_S}S",
        FLOECAT_STATISTICS_POLL_INTERVAL_MS="20",
    )
    catalog = iceberg.catalog(Warehouse(server))
    writer = RestCatalog("writer", uri=server.base_url)
    writer.create_namespace("ns")
    rows = pa.table({"id": [1, 2, 3]})
    writer.create_table("ns.t", rows.schema)
    captures = f"{server.base_url}/management/v1/catalogs/floecat/namespaces/ns/tables/t/captures"

    def wait_for(member: str, snapshot_id: int) -> None:
        deadline = time.monotonic() + 60
        while True:
            found: list[dict[str, Any]] = httpx.get(captures, timeout=60).json()["snapshots"]
            if any(each["snapshot-id"] == snapshot_id and each[member] is not None for each in found):
                return
            assert time.monotonic() < deadline, found
            time.sleep(0.05)

    try:
        for number in range(ROUNDS):
            table = writer.load_table("ns.t")
            table.append(pa.table({"id": [number]}))
            appended = table.current_snapshot()
            assert appended is not None
            begun_s = time.monotonic()
            wait_for("finalized-at-ms", appended.snapshot_id)
            time.sleep(max(0.0, QUIET_S - HOLDS_S / 2 - (time.monotonic() - begun_s)))
            transaction = catalog.loadTable(iceberg.identifier("ns", "t")).newTransaction()
            transaction.updateSchema().addColumn(f"c{number}", iceberg.primitive("Long")).commit()
            time.sleep(HOLDS_S)
            transaction.commitTransaction()
        wait_for("published-at-ms", appended.snapshot_id)
    finally:
        catalog.close()
    assert len(writer.load_table("ns.t").schema().fields) == 1 + ROUNDS
