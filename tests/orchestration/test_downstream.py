"""The examples of `docs/downstream.md`, run as the page shows them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from floecat.events.catalog_events import STATISTICS_PRINCIPAL
from tests.orchestration.conftest import Follower, Lakehouse

PAGE = (Path(__file__).parents[2] / "docs" / "downstream.md").read_text()
REPORT = dg.AssetKey("order_report")


def example(number: int) -> dg.Definitions:
    """The definitions after one of the examples; those before it are part of it."""
    names: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[: number + 1]:
        # this file's `from __future__ import annotations` must not hold there: Dagster wants types
        exec(compile(code, "downstream.md", "exec", dont_inherit=True), names)
    defs = names["defs"]
    assert isinstance(defs, dg.Definitions)
    return defs


def commits(lakehouse: Lakehouse) -> Iterator[bool]:
    """Commits to the table of the page one by one; says of each whether something must start."""
    table = lakehouse.create("orders")
    yield True
    snapshot_id = lakehouse.append(table, "3", added_records="3", added_data_files="1")
    yield True
    statistics = {
        "snapshot-id": snapshot_id,
        "statistics-path": "file:///s.puffin",
        "file-size-in-bytes": 1,
        "file-footer-size-in-bytes": 1,
        "blob-metadata": [],
    }
    update = {"action": "set-statistics", "statistics": statistics}
    lakehouse.commit(table, update, by=STATISTICS_PRINCIPAL)
    yield False
    lakehouse.append(table, "6")
    yield True


def test_the_sensor_starts_a_run_for_each_commit(
    lakehouse: Lakehouse, follower: Follower, capfd: pytest.CaptureFixture[str]
) -> None:
    defs, cursor = example(0), None
    sensor = defs.get_repository_def().get_sensor_def("on_orders")

    def runs() -> int:
        nonlocal cursor
        follower.tick()
        context = dg.build_sensor_context(instance=follower.instance, cursor=cursor, definitions=defs)
        found = sensor.evaluate_tick(context)
        cursor = found.cursor or cursor
        return len(found.run_requests or ())

    assert runs() == 0
    for starts in commits(lakehouse):
        assert (runs(), runs()) == (starts, 0)
    lakehouse.append(lakehouse.create("others"), "1")
    assert runs() == 0
    assert defs.resolve_job_def("refresh").execute_in_process(instance=follower.instance).success
    assert "append by ada; snapshot " in capfd.readouterr().err


@pytest.mark.filterwarnings("ignore::dagster.BetaWarning")
def test_the_condition_starts_a_run_for_each_commit(lakehouse: Lakehouse, follower: Follower) -> None:
    defs, cursor = example(1), None

    def runs() -> int:
        nonlocal cursor
        follower.tick()
        found = dg.evaluate_automation_conditions(defs, follower.instance, cursor=cursor)
        cursor = found.cursor
        if found.get_num_requested(REPORT):
            job = defs.resolve_implicit_global_asset_job_def()
            assert job.execute_in_process(instance=follower.instance).success
        return found.get_num_requested(REPORT)

    assert runs() == 0
    for starts in commits(lakehouse):
        assert (runs(), runs(), runs()) == (starts, 0, 0)
