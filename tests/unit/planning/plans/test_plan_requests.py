"""Requests for plans."""

from __future__ import annotations

from pathlib import Path

import pytest

from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.planning.plans.plan_requests import PlannedScan, PlanTableScan
from tests.unit.planning.small_tables import SmallTable, data_file


@pytest.mark.parametrize(
    ("counted", "files"), [("12", 12), ("9" * 5000, 0), ("-1", 0), ("many", 0), (12, 12), (None, 0)]
)
def test_files_as_odd_writers_count_them(tmp_path: Path, counted: object, files: int) -> None:
    table = SmallTable(tmp_path, [{1: ("id", "long")}])
    table.add(data_file("f"))
    table.snapshots[0]["summary"]["total-data-files"] = counted
    assert PlannedScan.of(TableMetadata.parse(table.metadata()), PlanTableScan()).total_files == files
