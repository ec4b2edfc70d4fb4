"""Filters of any form are planned or refused, and never fail otherwise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from floecat.errors import BadRequestError
from tests.unit.planning.planned_files import new_planner, plan_table
from tests.unit.planning.random_tables import random_table

_OPERATIONS = (
    "lt", "lt-eq", "gt", "gt-eq", "eq", "not-eq", "in", "not-in", "starts-with", "not-starts-with",
    "is-null", "not-null", "is-nan", "not-nan", "and", "or", "not", "true", "literal", "unknown",
)  # fmt: skip
_VALUES: Sequence[Any] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, -(2**63) - 1, 10**40, 1.5, -0.0, 1e308, 1e39, "", "a",
    "1970-01-01", "1969-12-31T23:59:59.9999999", "9999-12-31", "0001-01-01", "1970-01-01T00:00:00+14:00",
    "12:00:00", "0.001", "-1e5", "1e999", "F79C3E09-677C-4BBD-A479-3F349CB785E7", "00ff", [], {}, "\ud800",
)  # fmt: skip
_TRANSFORMS = (
    "bucket[3]", "truncate[2]", "truncate[2147483647]", "bucket[2147483647]", "year", "month", "day", "hour",
    "void", "identity", "unknown",
)  # fmt: skip


def _filter(source: Random, names: Sequence[str], depth: int) -> Any:
    kind = source.choice(_OPERATIONS)
    if kind in ("and", "or", "not") and depth:
        sides = ("child",) if kind == "not" else ("left", "right")
        return {"type": kind} | {side: _filter(source, names, depth - 1) for side in sides}
    name = source.choice(names)
    term = source.choice(
        [
            name,
            {"type": "transform", "transform": source.choice(_TRANSFORMS), "term": name},
            {"type": "reference", "id": source.randint(0, 5)},
        ]
    )
    return {
        "type": kind,
        "term": term,
        "value": source.choice(_VALUES),
        "values": [source.choice(_VALUES) for _ in range(source.randint(0, 3))],
    }


@pytest.mark.parametrize("seed", range(3))
def test_odd_filters(seed: int, tmp_path: Path) -> None:
    source = Random(seed)
    table = random_table(source, tmp_path)
    planner, outcomes = new_planner(), Counter[str]()
    for _ in range(200):
        json = _filter(source, [column.name for column in table.columns], source.choice([0, 0, 1]))
        outcomes["asked"] += 1
        with suppress(BadRequestError):
            plan_table(planner, table.metadata, json)
            outcomes["planned"] += 1
    assert 0 < outcomes["planned"] < outcomes["asked"]
