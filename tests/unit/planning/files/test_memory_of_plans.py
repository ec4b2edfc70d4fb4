"""What plans take of memory: metered in requests, and bounded for many tests and many residuals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from floecat.planning.files import scan_planning
from floecat.planning.filters import verdicts
from floecat.planning.filters.expression_json import parse_filter
from floecat.working_memory import Reservation, WorkingMemory, WorkingMemoryError
from tests.unit.planning.planned_files import new_planner, plan_table
from tests.unit.planning.small_tables import SmallTable, data_file, spec

_BUDGET = 8 << 20


@pytest.fixture
def request_beside_another() -> Iterator[Reservation]:
    """A request, entered, while another one holds the whole budget."""
    memory = WorkingMemory(_BUDGET, wait_ms=0)
    other = memory.work()
    other.take(_BUDGET)
    with memory.work() as request:
        yield request
    other.release()


def table_of(folder: Path, files: int, *, path_bytes: int = 8) -> SmallTable:
    """Files in partitions 0, 1… of an int."""
    table = SmallTable(
        folder, [{1: ("x", "int"), 2: ("t", "string")}], [spec(0), spec(1, ("x", "identity", 1))]
    )
    made = [data_file(f"{number:0{path_bytes}}", partition={"x": number}) for number in range(files)]
    table.add(*made, spec_id=1, types=["int"])
    return table


def test_a_large_filter_is_refused_while_others_hold_the_memory(request_beside_another: Reservation) -> None:
    parse_filter({"type": "in", "term": "x", "values": list(range(1000))})
    with pytest.raises(WorkingMemoryError, match=r"floecat\.limits\.working-memory-bytes"):
        parse_filter({"type": "in", "term": "x", "values": list(range(10_000))})


@pytest.mark.parametrize("predicates", [1, 400])
def test_predicates_and_texts_are_counted(request_beside_another: Reservation, predicates: int) -> None:
    json: Any = {"type": "eq", "term": "t", "value": "x" * (300_000 if predicates == 1 else 1)}
    for _ in range(predicates.bit_length() - 1):
        json = {"type": "or", "left": json, "right": json}
    with pytest.raises(WorkingMemoryError):
        parse_filter(json)


def test_manifests_are_decoded_in_the_memory_of_the_request(
    tmp_path: Path, request_beside_another: Reservation
) -> None:
    (tmp_path / "small").mkdir()
    assert len(plan_table(new_planner(), table_of(tmp_path / "small", 10).metadata())) == 10
    # zeros: a few kilobytes as stored
    table = table_of(tmp_path, 500, path_bytes=4000)
    with pytest.raises(WorkingMemoryError):
        plan_table(new_planner(), table.metadata())


def test_files_that_are_judged_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(tmp_path, 10)
    json = {
        "type": "or",
        "left": {"type": "gt", "term": "x", "value": 6},
        "right": {
            "type": "and",
            "left": {"type": "eq", "term": "x", "value": 2},
            "right": {"type": "eq", "term": "t", "value": "a"},
        },
    }
    whole = plan_table(new_planner(), table.metadata(), json)
    assert [int(file.path) for file in whole] == [2, 7, 8, 9]
    monkeypatch.setattr(scan_planning, "_VERDICTS_AT_ONCE", 6)
    assert plan_table(new_planner(), table.metadata(), json) == whole
    assert len(plan_table(new_planner(), table.metadata(), json, min_rows=1)) < 4


def test_of_too_many_residuals_the_rest_are_the_filter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(tmp_path, 4)
    json: Any = {"type": "eq", "term": "t", "value": "a"}
    for number in range(3):
        differs = {"type": "not-eq", "term": "x", "value": number}
        either = {"type": "or", "left": differs, "right": {"type": "eq", "term": "t", "value": str(number)}}
        json = {"type": "and", "left": json, "right": either}
    exact = [file.residual for file in plan_table(new_planner(), table.metadata(), json)]
    assert json not in exact
    monkeypatch.setattr(verdicts, "_MOST_PARTS", 15)
    assert [file.residual for file in plan_table(new_planner(), table.metadata(), json)] == [
        *exact[:2],
        json,
        json,
    ]
