from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.planning.planned_files import new_planner, plan_table
from tests.unit.planning.small_tables import SmallTable, data_file

_GREATEST = {"float": struct.unpack("<f", b"\xff\xff\x7f\x7f")[0], "double": math.ldexp(2 - 2**-52, 1023)}
_BEYOND = {"float": (1e39, -1e39, "1e999", "-1e999"), "double": ("1e999", "-1e999")}
_WITHOUT = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "lt": operator.lt,
    "lt-eq": operator.le,
    "gt": operator.gt,
    "gt-eq": operator.ge,
    "eq": operator.eq,
    "not-eq": operator.ne,
}


def rank(value: Any) -> tuple[int, Any]:
    """Places a number in the order of readers for whom NaN is the greatest, as Java is."""
    if isinstance(value, str) and value not in _WITHOUT:
        return (0, 10**400 if value[0] != "-" else -(10**400))
    number = float(value)
    if math.isnan(number):
        return (2, 0)
    return (0, number) if math.isfinite(number) else ((1, 0) if number > 0 else (-1, 0))


def passes(json: Any, value: float | None) -> bool:
    """Whether a row passes a filter; a null differs from all values."""
    if isinstance(json, bool):
        return json
    match json["type"]:
        case "and":
            return passes(json["left"], value) and passes(json["right"], value)
        case "or":
            return passes(json["left"], value) or passes(json["right"], value)
        case "is-null":
            return value is None
        case "not-null":
            return value is not None
        case "is-nan":
            return value is not None and math.isnan(value)
        case "not-nan":
            return value is None or not math.isnan(value)
        case "in":
            return value is not None and any(rank(value) == rank(each) for each in json["values"])
        case "not-in":
            return value is None or all(rank(value) != rank(each) for each in json["values"])
        case operation:
            if value is None:
                return operation == "not-eq"
            return _COMPARISONS[operation](rank(value), rank(json["value"]))


def rows_of(type: str) -> list[float | None]:
    greatest = _GREATEST[type]
    return [None, -math.inf, -greatest, -0.0, 0.0, 1.5, greatest, math.inf, math.nan]


def residual(tmp_path: Path, type: str, filter: object) -> Any:
    table = SmallTable(tmp_path, [{1: ("x", type)}])
    table.add(data_file("f"))
    [planned] = plan_table(new_planner(), table.metadata(), filter) or [None]
    return False if planned is None else planned.residual


def numbers(json: Any) -> list[Any]:
    if isinstance(json, bool):
        return []
    parts = [number for side in ("left", "right") if side in json for number in numbers(json[side])]
    return [*parts, *json.get("values", ()), *((json["value"],) if "value" in json else ())]


@pytest.mark.parametrize("type", ["float", "double"])
@pytest.mark.parametrize("operation", [*_COMPARISONS, "in", "not-in"])
def test_residuals_have_finite_numbers_and_the_same_rows(tmp_path: Path, type: str, operation: str) -> None:
    greatest = _GREATEST[type]
    values = ["Infinity", "-Infinity", *_BEYOND[type], greatest, -greatest, 1.5, "NaN"]
    if operation in ("in", "not-in"):
        sets = [[each] for each in values] + [[each, 1.5, "Infinity", -greatest] for each in values]
        filters: list[Any] = [{"type": operation, "term": "x", "values": each} for each in sets]
    else:
        filters = [{"type": operation, "term": "x", "value": each} for each in values]
    for filter in filters:
        found = residual(tmp_path, type, filter)
        for number in numbers(found):
            assert isinstance(number, int | float)
            assert abs(number) <= greatest
        for row in rows_of(type):
            expected = passes(filter, row)
            # to some readers NaN differs from itself
            is_wider = operation.startswith("not") and "NaN" in str(filter)
            assert passes(found, row) >= expected, (filter, row, found)
            assert is_wider or passes(found, row) == expected, (filter, row, found)


@pytest.mark.parametrize("type", ["float", "double"])
def test_parts_of_a_filter(tmp_path: Path, type: str) -> None:
    infinite = {"type": "eq", "term": "x", "value": "Infinity"}
    low = {"type": "lt", "term": "x", "value": 1.5}
    for filter in (
        {"type": "and", "left": {"type": "not", "child": infinite}, "right": low},
        {"type": "or", "left": infinite, "right": {"type": "and", "left": low, "right": infinite}},
        {"type": "not", "child": {"type": "or", "left": infinite, "right": low}},
        {"type": "not", "child": {"type": "gt", "term": "x", "value": "-Infinity"}},
    ):
        found = residual(tmp_path, type, filter)
        negated = filter["type"] == "not"
        for row in rows_of(type)[1:]:
            meant = not passes(filter["child"], row) if negated else passes(_without_not(filter), row)
            assert passes(found, row) == meant, (filter, row, found)


def _without_not(json: Any) -> Any:
    if "left" in json:
        return json | {side: _without_not(json[side]) for side in ("left", "right")}
    return json["child"] | {"type": "not-eq"} if json["type"] == "not" else json


@pytest.mark.parametrize("operation", ["lt", "lt-eq", "gt", "gt-eq"])
def test_what_does_not_compare_with_nan_passes_below_not(tmp_path: Path, operation: str) -> None:
    filter = {"type": "not", "child": {"type": operation, "term": "x", "value": "NaN"}}
    assert residual(tmp_path, "double", filter) == {
        "type": "or",
        "left": {"type": "is-null", "term": "x"},
        "right": {"type": "not-null", "term": "x"},
    }


def test_many_infinities_of_a_set_are_one(tmp_path: Path) -> None:
    filter = {"type": "in", "term": "x", "values": ["Infinity", "1e999", "-Infinity"] * 10_000 + [2.5]}
    found = msgspec.json.encode(residual(tmp_path, "float", filter))
    assert len(found) < 1000
    assert b"2.5" in found


def test_the_greatest_float_as_java_writes_it(tmp_path: Path) -> None:
    """Read as a double it is beyond the greatest float."""
    filter = {"type": "eq", "term": "x", "value": 3.4028235e38}
    assert residual(tmp_path, "float", filter) == filter | {"value": _GREATEST["float"]}
    assert residual(tmp_path, "double", filter) == filter
