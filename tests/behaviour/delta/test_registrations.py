"""Several entries over one Delta table, one after the other or at once: each has artifacts of its own."""

from __future__ import annotations

import json
import shutil

from floecat.identifiers.namespace import TableIdentifier
from floecat.planning.plans.plan_requests import PlanTableScan
from floecat.planning.plans.plans import PlanClient
from tests.behaviour.delta.conftest import Lake, as_rows, delta_table, rows_of


def test_many_registrations_of_a_log_that_goes_on(open_lake, tmp_path):
    """Each begins with another version, which it makes whole, and whose names others took."""
    lake = open_lake(max_versions_in_request=4)
    writer = delta_table(tmp_path / "t", files=5, rows=1)
    for number in range(12):
        writer.append(rows_of(100 + number))
        table = lake.register(writer.folder, f"t{number}")
        assert lake.state(table).version == writer.version
        assert lake.rows(table) == as_rows(writer.rows[writer.version])
    first = lake.rows(lake.register(writer.folder, "once more"))
    assert first == as_rows(writer.rows[writer.version])


def planned_rows(lake: Lake, table: TableIdentifier) -> int:
    """Rows of the files in a plan by the service."""
    answer = lake.kernel.planning.plans.plan(lake.call, table, PlanTableScan(), PlanClient(60_000))
    tasks = json.loads(b"{%b}" % answer.fields)["file-scan-tasks"]
    return sum(task["data-file"]["record-count"] for task in tasks)


def test_another_table_at_the_place_of_one_that_was_dropped(lake, tmp_path):
    """Its artifacts have the same names and other bytes; nothing of the old ones may be remembered."""
    writer = delta_table(tmp_path / "t", files=2, rows=2)
    dropped = lake.register(writer.folder)
    assert planned_rows(lake, dropped) == writer.rows[writer.version].num_rows
    for number in range(2):
        writer.append(rows_of(100 + number))
        lake.rows(dropped)  # reads manifests that stay in memory
    lake.kernel.catalog.tables.drop(lake.call, dropped)
    shutil.rmtree(writer.folder)
    other = delta_table(tmp_path / "t", files=2, rows=3)
    table = lake.register(other.folder)
    assert lake.rows(table) == as_rows(other.rows[other.version])
    assert planned_rows(lake, table) == other.rows[other.version].num_rows
    other.remove([0])
    assert lake.rows(table) == as_rows(other.rows[other.version])


def test_entries_over_one_log_go_on_beside_each_other(open_lake, tmp_path):
    lake = open_lake(max_versions_in_request=2)
    writer = delta_table(tmp_path / "t", files=3, rows=2)
    one = lake.register(writer.folder, "one")
    writer.append(rows_of(100))
    two = lake.register(writer.folder, "two")
    for place in (0, 1):
        writer.remove([place])
        for table in (one, two):
            assert lake.rows(table) == as_rows(writer.rows[writer.version])
    for table in (one, two):
        lake.materialise(table)
        assert lake.rows(table, 2) == as_rows(writer.rows[2])
