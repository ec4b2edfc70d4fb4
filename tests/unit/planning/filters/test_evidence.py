"""What bounds and counts say of tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from floecat.planning.filters.evidence import Evidence, cannot_match, must_match
from floecat.planning.filters.vectors import Vector

_NO, _YES = np.array([False]), np.array([True])
_OPPOSITE = {"none": "all", "all": "none", "some": "some"}


def between(lower: Any, upper: Any, **flags: bool) -> Evidence:
    """Rows between two values, without nulls and NaN unless a flag says otherwise."""
    is_text = isinstance(lower, bytes)
    vectors = [
        Vector(pa.array([value], pa.binary()) if is_text else np.array([value])) for value in (lower, upper)
    ]
    given = {"no_nulls": True, "only_nulls": False, "no_nans": True, "only_nans": False} | flags
    return Evidence(1, *vectors, **{name: np.array([flag]) for name, flag in given.items()})


def verdict(operation: str, values: Sequence[Any], known: Evidence) -> str:
    """`none`, `all` or `some` of the rows pass."""
    cannot = cannot_match(operation, tuple(values), known)[0]
    must = must_match(operation, tuple(values), known)[0]
    assert not (cannot and must)
    return "none" if cannot else "all" if must else "some"


@pytest.mark.parametrize(
    ("operation", "value", "found"),
    [
        ("lt", 5, "none"), ("lt", 6, "some"), ("lt", 10, "all"),
        ("lt-eq", 4, "none"), ("lt-eq", 5, "some"), ("lt-eq", 9, "all"),
        ("gt", 9, "none"), ("gt", 8, "some"), ("gt", 4, "all"),
        ("gt-eq", 10, "none"), ("gt-eq", 9, "some"), ("gt-eq", 5, "all"),
        ("in", 4, "none"), ("in", 5, "some"), ("in", 10, "none"),
        ("not-in", 4, "all"), ("not-in", 5, "some"),
    ],
)  # fmt: skip
def test_comparisons(operation: str, value: int, found: str) -> None:
    assert verdict(operation, [value], between(5, 9)) == found
    as_text = bytes([value])
    assert verdict(operation, [as_text], between(b"\x05", b"\x09")) == found


def test_one_value() -> None:
    assert verdict("in", [5], between(5, 5)) == "all"
    assert verdict("not-in", [5], between(5, 5)) == "none"
    assert verdict("not-in", [5], between(5, 5, no_nulls=False)) == "some"
    # NaN is outside bounds
    assert verdict("in", [5.0], between(5.0, 5.0, no_nans=False)) == "some"
    assert verdict("not-in", [5.0], between(5.0, 5.0, no_nans=False)) == "some"


@pytest.mark.parametrize("many", [False, True])
def test_sets(many: bool) -> None:
    numbers = [1, 10, *range(100, 400 if many else 101)]
    assert verdict("in", numbers, between(2, 9)) == "none"
    assert verdict("in", numbers, between(2, 10)) == "some"
    assert verdict("in", numbers, between(500, 600)) == "none"
    assert verdict("not-in", numbers, between(2, 9)) == "all"
    texts = sorted(str(number).encode() for number in numbers)
    assert verdict("in", texts, between(b"99", b"99")) == "none"
    assert verdict("in", texts, between(b"10", b"10")) == "all"


def test_sets_of_decimals_beyond_64_bits() -> None:
    assert verdict("in", [-(10**30), 7, 10**30], between(5, 6)) == "none"
    assert verdict("in", [-(10**30), 10**30], between(5, 6)) == "none"
    assert verdict("in", [-(10**30), 4, 10**30], between(5, 6)) == "none"
    assert verdict("not-in", [-(10**30), 4, 10**30], between(5, 5)) == "all"
    assert verdict("not-in", [-(10**30), 9, 10**30], between(5, 5)) == "all"
    assert verdict("in", [-(10**30), 10**30], Evidence(1)) == "some"
    assert verdict("in", [], between(5, 6)) == "none"


@pytest.mark.parametrize("offset", [0, 2**63, -(2**64)])
def test_ranges(offset: int) -> None:
    ranges = [(2, 4), (6, 6), (9, 11)]
    values = [offset + end for each in ranges for end in each]
    for lower in range(13):
        for upper in range(lower, 13):
            known = between(offset + lower, offset + upper)
            found = "none" if all(last < lower or upper < first for first, last in ranges) else "some"
            if any(first <= lower and upper <= last for first, last in ranges):
                found = "all"
            assert verdict("in-ranges", values, known) == found
            assert verdict("not-in-ranges", values, known) == _OPPOSITE[found]


def test_ranges_beyond_64_bits_of_numbers_that_are_not() -> None:
    most = 2**63 - 1
    assert verdict("in-ranges", [most + 1, most + 9], between(most, most)) == "none"
    assert verdict("in-ranges", [5, most + 9], between(most, most)) == "all"


def test_ranges_and_what_is_not_known() -> None:
    one_sided = between(5, 9)._replace(upper=None)
    assert verdict("in-ranges", [1, 2], one_sided) == "none"
    assert verdict("in-ranges", [1, 9], one_sided) == "some"
    nulls = between(5, 9, no_nulls=False)
    assert [verdict(kind, [5, 9], nulls) for kind in ("in-ranges", "not-in-ranges")] == ["some", "some"]
    assert [verdict(kind, [], nulls) for kind in ("in-ranges", "not-in-ranges")] == ["none", "some"]


@pytest.mark.parametrize(
    ("lower", "upper", "starts", "does_not"),
    [
        (b"aa", b"ab", "all", "none"),
        (b"a", b"b", "some", "some"),
        (b"b", b"c", "none", "all"),
        (b"", b"Z", "none", "all"),
        (b"", b"ab", "some", "some"),
    ],
)
def test_beginnings(lower: bytes, upper: bytes, starts: str, does_not: str) -> None:
    assert verdict("starts-with", [b"a"], between(lower, upper)) == starts
    assert verdict("not-starts-with", [b"a"], between(lower, upper)) == does_not


def test_nulls() -> None:
    nulls = Evidence(1, no_nulls=_NO, only_nulls=_YES)
    for operation in ("lt", "gt-eq", "in", "starts-with", "not-null"):
        assert verdict(operation, [b"a"], nulls) == "none"
    assert verdict("is-null", [], nulls) == "all"
    # engines differ in whether null is unequal
    for operation in ("not-in", "not-starts-with"):
        assert verdict(operation, [b"a"], nulls) == "some"
    assert verdict("is-null", [], between(1, 2)) == "none"
    assert verdict("not-null", [], between(1, 2)) == "all"
    assert verdict("lt", [9], between(1, 2, no_nulls=False)) == "some"


def test_nan() -> None:
    only = Evidence(1, no_nulls=_YES, only_nulls=_NO, no_nans=_NO, only_nans=_YES)
    assert [verdict(operation, [], only) for operation in ("is-nan", "not-nan")] == ["all", "none"]
    assert [verdict(operation, [1.0], only) for operation in ("lt", "in", "not-in")] == [
        "none",
        "none",
        "all",
    ]
    # engines differ in whether it is greater
    assert verdict("gt", [1.0], only) == "some"
    assert [verdict(operation, [], between(1.0, 2.0)) for operation in ("is-nan", "not-nan")] == [
        "none",
        "all",
    ]


def test_nothing_is_known() -> None:
    for operation in ("lt", "gt", "in", "not-in", "starts-with", "not-starts-with", "is-null", "is-nan"):
        assert verdict(operation, [b"a"], Evidence(1)) == "some"
    for operation in ("in-ranges", "not-in-ranges"):
        assert verdict(operation, [1, 2], Evidence(1)) == "some"
