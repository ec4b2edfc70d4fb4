"""Filters that readers, or schemas, give several meanings: no file is lost whichever is meant."""

from __future__ import annotations

import struct
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from floecat.errors import BadRequestError
from tests.unit.planning.planned_files import new_planner, plan_table
from tests.unit.planning.small_tables import SmallTable, data_file, spec

_NULL, _ONE, _NAN = "null", "one", "nan"


def long_(value: int) -> bytes:
    return struct.pack("<q", value)


def compare(operation: str, term: object, value: object) -> dict[str, object]:
    return {"type": operation, "term": term, "values" if operation in ("in", "not-in") else "value": value}


def residuals(table: SmallTable, json: object, **request: Any) -> dict[str, Any]:
    return {each.path: each.residual for each in plan_table(new_planner(), table.metadata(), json, **request)}


@pytest.fixture
def floats(tmp_path: Path) -> SmallTable:
    """A partition of nulls, one of the number 1, one of NaN."""
    table = SmallTable(tmp_path, [{1: ("x", "double")}], [spec(0), spec(1, ("x", "identity", 1))])
    values = {_NULL: None, _ONE: 1.0, _NAN: float("nan")}
    files = [data_file(path, partition={"x": value}) for path, value in values.items()]
    table.add(*files, spec_id=1, types=["double"])
    return table


@pytest.mark.parametrize(
    ("operation", "value", "paths"),
    [
        ("eq", "NaN", {_NAN}),
        ("in", [1.0, "NaN"], {_ONE, _NAN}),
        ("in", [2.0, "NaN"], {_NAN}),
        ("not-eq", "NaN", {_NULL, _ONE, _NAN}),
        ("not-in", [1.0, "NaN"], {_NULL, _NAN}),
        ("lt", "NaN", {_ONE}),
        ("lt-eq", "NaN", {_ONE, _NAN}),
        ("gt", "NaN", set()),
        ("gt-eq", "NaN", {_NAN}),
        ("eq", "Infinity", set()),
        ("lt", "Infinity", {_ONE}),
        ("gt-eq", "-Infinity", {_ONE, _NAN}),
        ("gt", "1e999", {_NAN}),
        ("lt-eq", "1e999", {_ONE}),
        ("not-eq", "1e999", {_NULL, _ONE, _NAN}),
    ],
)
def test_nan_and_numbers_beyond_all(
    floats: SmallTable, operation: str, value: object, paths: set[str]
) -> None:
    found = residuals(floats, compare(operation, "x", value))
    assert found.keys() == paths
    if "NaN" in str(value):
        assert True not in (found.get(_NULL), found.get(_NAN))


@pytest.mark.parametrize("operation", ["lt", "lt-eq", "gt", "gt-eq"])
def test_what_does_not_compare_with_nan_passes_below_not(floats: SmallTable, operation: str) -> None:
    assert _ONE in residuals(floats, {"type": "not", "child": compare(operation, "x", "NaN")})


@pytest.mark.parametrize("operation", ["lt", "gt", "lt-eq", "gt-eq", "eq", "not-eq"])
def test_nan_is_no_value_of_other_columns(tmp_path: Path, operation: str) -> None:
    table = SmallTable(tmp_path, [{1: ("i", "int"), 2: ("d", "decimal(9, 2)")}])
    for name in ("i", "d"):
        with pytest.raises(BadRequestError, match=f"Invalid filter \\({name}\\): .* is not of type"):
            residuals(table, compare(operation, name, "NaN"))


_HOUR = 3_600_000_000
_TRANSFORMED = [
    ("int", "truncate[7]", 14, 14, 20),
    ("int", "truncate[7]", "14", 14, 20),
    ("date", "year", 1, 365, 729),
    ("date", "month", 1, 31, 58),
    ("date", "day", "1970-01-15", 14, 14),
    ("timestamp", "hour", 14, 14 * _HOUR, 15 * _HOUR - 1),
]


@pytest.mark.parametrize(("type", "transform", "value", "first", "last"), _TRANSFORMED)
def test_files_whose_values_may_differ_from_a_transform(
    tmp_path: Path, type: str, transform: str, value: object, first: int, last: int
) -> None:
    form = "<i" if type in ("int", "date") else "<q"
    table = SmallTable(tmp_path, [{1: ("x", type)}])
    for path, nulls, ends in (
        ("nulls", 2, None),
        ("lower", 0, (first - 1, last)),
        ("higher", 0, (first, last + 1)),
        ("some", 1, (first, last)),
        ("none", 0, (first, last)),
    ):
        bounds: dict[str, Any] = {"value_counts": {1: 2}, "null_value_counts": {1: nulls}}
        if ends is not None:
            lower, upper = (struct.pack(form, end) for end in ends)
            bounds |= {"lower_bounds": {1: lower}, "upper_bounds": {1: upper}}
        table.add(data_file(path, **bounds))
    for json in _differing({"type": "transform", "transform": transform, "term": "x"}, value):
        assert residuals(table, json).keys() == {"nulls", "lower", "higher", "some"}


_SETS = [
    ("int", "truncate[7]", [14, 15, 21, -7, 2**31 - 1], [(-7, -1), (14, 27)]),
    ("long", "truncate[7]", [14, 14, 35, -(2**63)], [(14, 20), (35, 41)]),
    ("decimal(9, 2)", "truncate[50]", ["0.50", "-0.50"], [(-50, -1), (50, 99)]),
    ("date", "year", [0, -1, 2**31 - 1], [(-365, 364)]),
    ("date", "month", [1, 3, 4], [(31, 58), (90, 150)]),
    ("timestamp", "hour", [14, 15, -1], [(-_HOUR, -1), (14 * _HOUR, 16 * _HOUR - 1)]),
]


@pytest.mark.parametrize(("type", "transform", "values", "ranges"), _SETS)
def test_a_set_of_transforms_is_one_of_ranges(
    tmp_path: Path, type: str, transform: str, values: list[object], ranges: list[tuple[int, int]]
) -> None:
    form = "<i" if type in ("int", "date") else "<q"
    table = SmallTable(tmp_path, [{1: ("x", type)}])
    ends = sorted({end + step for each in ranges for end in each for step in (-1, 0, 1)})
    pairs = [(lower, upper) for lower in ends for upper in ends if lower <= upper]
    files = [data_file("nulls", value_counts={1: 2}, null_value_counts={1: 2})]
    for pair, nulls in product(pairs, (0, 1)):
        packed = [
            end.to_bytes(4, "big", signed=True) if "decimal" in type else struct.pack(form, end)
            for end in pair
        ]
        bounds: dict[str, Any] = {"lower_bounds": {1: packed[0]}, "upper_bounds": {1: packed[1]}}
        files.append(
            data_file(f"{pair} {nulls}", value_counts={1: 2}, null_value_counts={1: nulls}, **bounds)
        )
    table.add(*files)
    term = {"type": "transform", "transform": transform, "term": "x"}
    may_be = {pair for pair in pairs if any(pair[0] <= last and first <= pair[1] for first, last in ranges)}
    may_differ = {
        pair for pair in pairs if not any(first <= pair[0] and pair[1] <= last for first, last in ranges)
    }
    assert residuals(table, compare("in", term, values)).keys() == {
        f"{pair} {nulls}" for pair, nulls in product(may_be, (0, 1))
    }
    assert residuals(table, compare("not-in", term, values)).keys() == {
        "nulls",
        *(f"{pair} 0" for pair in may_differ),
        *(f"{pair} 1" for pair in pairs),
    }


@pytest.mark.parametrize("transform", ["identity", "truncate[7]"])
@pytest.mark.parametrize("tested", ["truncate[7]", "truncate[14]", "bucket[3]", None])
def test_nulls_of_a_partition_may_differ(tmp_path: Path, transform: str, tested: str | None) -> None:
    table = SmallTable(tmp_path, [{1: ("x", "int")}], [spec(0), spec(1, ("x", transform, 1))])
    files = [data_file(path, partition={"x": value}) for path, value in ((_NULL, None), ("14", 14))]
    table.add(*files, spec_id=1, types=["int"])
    term = "x" if tested is None else {"type": "transform", "transform": tested, "term": "x"}
    value = 2 if tested == "bucket[3]" else 14
    for json in _differing(term, value):
        # to some readers null differs, to others not
        assert residuals(table, json)[_NULL] not in (True, False)


def _differing(term: object, value: object) -> list[dict[str, object]]:
    return [
        compare("not-eq", term, value),
        compare("not-in", term, [value]),
        {"type": "not", "child": compare("eq", term, value)},
    ]


@pytest.mark.parametrize(
    ("operation", "value", "sent"), [("gt", "0.5", 0.5), ("eq", "1", 1), ("in", ["1.0", 2], [1, 2])]
)
@pytest.mark.parametrize("type", ["int", "long", "float", "double"])
def test_numbers_that_are_texts_are_numbers_in_residuals(
    tmp_path: Path, type: str, operation: str, value: object, sent: object
) -> None:
    table = SmallTable(tmp_path, [{1: ("x", type)}])
    table.add(data_file("f"))
    assert residuals(table, compare(operation, "x", value)) == {"f": compare(operation, "x", sent)}


# -- names of several schemas ---------------------------------------------------------------------------


def test_a_name_of_the_current_schema_beside_those_of_the_snapshot(tmp_path: Path) -> None:
    table = SmallTable(tmp_path, [{1: ("old", "long")}, {1: ("new", "long"), 2: ("added", "string")}])
    table.add(data_file("f", lower_bounds={1: long_(0)}, upper_bounds={1: long_(9)}))
    for name in ("old", "new"):
        assert residuals(table, compare("eq", name, 5), use_snapshot_schema=True).keys() == {"f"}
        assert not residuals(table, compare("eq", name, 10), use_snapshot_schema=True)
    # nothing is known of a column that the snapshot does not have: it is null, or has its default
    for json in (compare("eq", "added", "a"), {"type": "is-null", "term": "added"}):
        assert residuals(table, json, use_snapshot_schema=True) == {"f": json}
        assert residuals(table, json) == {"f": json}
    assert residuals(table, None, use_snapshot_schema=True, stats_fields=("old", "added"))
    with pytest.raises(BadRequestError, match="cannot find column old"):
        residuals(table, compare("eq", "old", 5))
    with pytest.raises(BadRequestError, match="cannot find column neither"):
        residuals(table, compare("eq", "neither", 5), use_snapshot_schema=True)


@pytest.mark.parametrize(("before", "after"), [("string", "long"), ("long", "long"), ("long", "string")])
def test_a_column_that_was_dropped_and_made_anew_may_be_either(
    tmp_path: Path, before: str, after: str
) -> None:
    table = SmallTable(tmp_path, [{1: ("x", before)}, {2: ("x", after)}])
    counts = {"value_counts": {1: 5}, "null_value_counts": {1: 0}}
    bound = {1: b"a" if before == "string" else long_(1)}
    table.add(data_file("f", **counts, lower_bounds=bound, upper_bounds=bound))
    for value in (1, "a"):
        types = [type for type in (before, after) if (type == "string") == (value == "a")]
        if not types:
            with pytest.raises(
                BadRequestError, match=r"Invalid filter \(x\): 'a' is not of type long, as 42 is"
            ):
                residuals(table, compare("eq", "x", value), use_snapshot_schema=True)
        else:
            assert residuals(table, compare("eq", "x", value), use_snapshot_schema=True).keys() == {"f"}
    # the new column is null, and the former one is not
    for operation in ("is-null", "not-null"):
        json = {"type": operation, "term": "x"}
        assert residuals(table, json, use_snapshot_schema=True) == {"f": json}


def test_a_column_of_another_precision_may_have_either(tmp_path: Path) -> None:
    table = SmallTable(tmp_path, [{1: ("x", "float")}, {1: ("x", "double")}])
    bound = {1: struct.pack("<f", 0.1)}
    table.add(data_file("f", lower_bounds=bound, upper_bounds=bound))
    # the number in the file is a little more than 0.1
    assert residuals(table, compare("gt", "x", 0.1), use_snapshot_schema=True).keys() == {"f"}
    assert not residuals(table, compare("gt", "x", 0.2), use_snapshot_schema=True)
