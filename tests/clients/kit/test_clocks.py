"""Writers whose clocks are wrong: Java's client reads what comes of it, appends to it and travels in it."""

from __future__ import annotations

import time
from typing import Any

import httpx
import pytest

from tests.clients.kit.java import Iceberg
from tests.clients.warehouses import Warehouse

HOUR_MS = 3_600_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def append_with_clock(warehouse: Warehouse, ns: str, table: Any, made_ms: int) -> int:
    """An append by a client that does not look at the history, as PyIceberg; answers the snapshot id."""
    parent = table.currentSnapshot()
    snapshot_id = parent.snapshotId() // 2 + 1
    snapshot = {
        "snapshot-id": snapshot_id,
        "parent-snapshot-id": parent.snapshotId(),
        "sequence-number": parent.sequenceNumber() + 1,
        "timestamp-ms": made_ms,
        "manifest-list": parent.manifestListLocation(),
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    ref = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id}
    updates = [{"action": "add-snapshot", "snapshot": snapshot}, ref]
    answer = httpx.post(
        f"{warehouse.uri}/v1/{warehouse.name}/namespaces/{ns}/tables/{table.name().rpartition('.')[2]}",
        json={"requirements": [], "updates": updates},
        timeout=60,
    )
    assert answer.status_code == 200, answer.text
    return snapshot_id


@pytest.mark.parametrize("off_by_ms", [10 * HOUR_MS, 50_000, -50_000, -10 * HOUR_MS])
def test_a_wrong_clock_stops_nobody(
    iceberg: Iceberg, catalog: Any, warehouse: Warehouse, ns: str, off_by_ms: int
) -> None:
    identifier = iceberg.identifier(ns, "tbl")
    table = catalog.createTable(identifier, iceberg.schema())
    table.newFastAppend().appendFile(iceberg.data_file(table.spec())).commit()
    first, first_ms = table.currentSnapshot().snapshotId(), int(table.history()[0].timestampMillis())
    second = append_with_clock(warehouse, ns, table, now_ms() + off_by_ms)

    loaded = catalog.loadTable(identifier)
    assert loaded.currentSnapshot().snapshotId() == second
    loaded.newFastAppend().appendFile(iceberg.data_file(loaded.spec())).commit()
    loaded = catalog.loadTable(identifier)
    third = loaded.currentSnapshot().snapshotId()

    history = [(int(entry.timestampMillis()), entry.snapshotId()) for entry in loaded.history()]
    assert [snapshot_id for _, snapshot_id in history] == [first, second, third]
    times = [entry_ms for entry_ms, _ in history]
    assert times == sorted(times)
    assert first_ms <= times[1] <= now_ms() + 60_000

    as_of = iceberg.api.util.SnapshotUtil.snapshotIdAsOfTime
    assert as_of(loaded, first_ms) == (second if times[1] == first_ms else first)
    assert as_of(loaded, times[2]) == third
    assert as_of(loaded, now_ms() + HOUR_MS) == third
