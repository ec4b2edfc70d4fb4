"""Evidence on a column in each of many sets of rows, and its answer to a test.

A set of rows is a partition, a file or all files of a manifest. Comparisons with null are never true. NaN
equals no value; whether it is greater than others depends on the engine, so it counts as possibly greater.
Bounds are without NaN: where there is one, an upper bound rules nothing out.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from floecat.iceberg.avro.string_columns import Bools, Int64s
from floecat.planning.filters.literals import Canonical
from floecat.planning.filters.vectors import Vector

__all__ = ["Evidence", "between_bounds", "cannot_match", "must_match"]

_Side: TypeAlias = Literal["left", "right"]

_MOST_COMPARED: Final = 200
"""Strings of a set that are compared one by one; of larger sets only the ends are."""


class Evidence(NamedTuple):
    """Evidence, with one slot for each set of rows.

    Attributes:
        size: number of slots.
        lower: no value that is neither null nor NaN is less; None where nothing is known.
        upper: no such value is greater.
        no_nulls: which sets have no null; None for unknown.
        only_nulls: which have nothing else, or no row.
        no_nans: which have no NaN.
        only_nans: which have nothing else.
        some_nans: which surely have one.
    """

    size: int
    lower: Vector | None = None
    upper: Vector | None = None
    no_nulls: Bools | None = None
    only_nulls: Bools | None = None
    no_nans: Bools | None = None
    only_nans: Bools | None = None
    some_nans: Bools | None = None

    def flag(self, found: Bools | None) -> Bools:
        """A mask in place of None."""
        return np.zeros(self.size, np.bool_) if found is None else found

    def take(self, rows: Int64s) -> Evidence:
        """Some of the slots."""
        parts: list[Any] = [None if part is None else part.take(rows) for part in self[1:]]
        return Evidence(len(rows), *parts)


def cannot_match(operation: str, values: tuple[Canonical, ...], known: Evidence) -> Bools:
    """The sets that have no row that passes a test.

    Args:
        operation: of a bound test; `eq` and `not-eq` are sets of one value.
        values: canonical, as of the test.
        known: of the tested column.
    """
    only_nulls = known.flag(known.only_nulls)
    match operation:
        case "is-null":
            return known.flag(known.no_nulls)
        case "not-null":
            return only_nulls
        case "is-nan":
            return known.flag(known.no_nans) | only_nulls
        case "not-nan":
            return known.flag(known.only_nans)
        case "not-in":
            return _surely_in(values, known)
        case "not-in-ranges":
            return _surely_in_ranges(values, known)
        case "not-starts-with":
            return known.flag(known.no_nulls) & _all_start(values[0], known)
        case "gt" | "gt-eq":
            return only_nulls | (_outside(operation, values, known) & ~known.flag(known.some_nans))
        case _:
            return only_nulls | known.flag(known.only_nans) | _outside(operation, values, known)


def must_match(operation: str, values: tuple[Canonical, ...], known: Evidence) -> Bools:
    """The sets of which all rows pass a test; arguments as of `cannot_match`."""
    lower, upper, no_nulls = known.lower, known.upper, known.flag(known.no_nulls)
    nothing = np.zeros(known.size, np.bool_)
    if operation == "is-null":
        return known.flag(known.only_nulls)
    if operation == "is-nan":
        return known.flag(known.only_nans)
    if operation == "not-nan":
        return no_nulls & known.flag(known.no_nans)
    if operation == "not-null":
        return no_nulls
    if operation in ("not-in", "not-in-ranges"):
        outside = _outside(operation.removeprefix("not-"), values, known)
        return no_nulls & (known.flag(known.only_nans) | outside)
    if lower is None or upper is None:
        return nothing
    match operation:
        case "lt":
            found = upper.less(values[0])
        case "lt-eq":
            found = upper.less_equal(values[0])
        case "gt":
            found = lower.greater(values[0])
        case "gt-eq":
            found = lower.greater_equal(values[0])
        case "in":
            return _surely_in(values, known)
        case "in-ranges":
            return _surely_in_ranges(values, known)
        case "starts-with":
            found = _all_start(values[0], known)
        case _:
            found = _outside("starts-with", values, known)
    return no_nulls & found


def _surely_in(values: tuple[Canonical, ...], known: Evidence) -> Bools:
    """The sets whose rows all have the same value, one of `values`."""
    lower, upper, no_nulls = known.lower, known.upper, known.flag(known.no_nulls)
    if lower is None or upper is None or not no_nulls.any():
        return np.zeros(known.size, np.bool_)
    found = no_nulls & lower.equals(upper) & ~_outside_set(values, known)
    # NaN is outside bounds
    is_float = isinstance(lower.data, np.ndarray) and lower.data.dtype == np.float64
    return found & known.flag(known.no_nans) if is_float else found


def _outside(operation: str, values: tuple[Canonical, ...], known: Evidence) -> Bools:
    """The sets that have no value between the bounds that passes a comparison."""
    lower, upper = known.lower, known.upper
    nothing = np.zeros(known.size, np.bool_)
    match operation:
        case "lt":
            return nothing if lower is None else lower.greater_equal(values[0])
        case "lt-eq":
            return nothing if lower is None else lower.greater(values[0])
        case "gt":
            return nothing if upper is None else upper.less_equal(values[0])
        case "gt-eq":
            return nothing if upper is None else upper.less(values[0])
        case "in":
            return _outside_set(values, known)
        case "in-ranges":
            return _outside_ranges(values, known)
        case _:
            prefix: Any = values[0]
            below = nothing if upper is None else upper.prefixes(len(prefix)).less(prefix)
            return below if lower is None else below | lower.prefixes(len(prefix)).greater(prefix)


def _surely_in_ranges(values: tuple[Canonical, ...], known: Evidence) -> Bools:
    """The sets whose rows are all in one of several ranges."""
    lower, upper = known.lower, known.upper
    if lower is None or upper is None or not values:
        return np.zeros(known.size, np.bool_)
    begins, ends = _ranges(values, np.result_type(lower.data, upper.data))
    places = np.minimum(np.searchsorted(ends, lower.data), len(ends) - 1)
    within = (begins[places] <= lower.data) & (upper.data <= ends[places])
    return known.flag(known.no_nulls) & upper.known(lower.known(np.asarray(within, np.bool_)))


def _outside_ranges(values: tuple[Canonical, ...], known: Evidence) -> Bools:
    lower, upper = known.lower, known.upper
    beyond = _beyond(values, known)
    if not values or lower is None or upper is None:
        return beyond
    begins, ends = _ranges(values, np.result_type(lower.data, upper.data))
    places = np.searchsorted(ends, lower.data)
    after = begins[np.minimum(places, len(begins) - 1)] > upper.data
    found = np.asarray((places == len(ends)) | after, np.bool_)
    return beyond | upper.known(lower.known(found))


def _beyond(values: tuple[Canonical, ...], known: Evidence) -> Bools:
    """The sets whose rows are all less than the first of sorted values, or greater than the last."""
    lower, upper = known.lower, known.upper
    if not values:
        return np.ones(known.size, np.bool_)
    beyond = np.zeros(known.size, np.bool_) if lower is None else lower.greater(values[-1])
    return beyond if upper is None else beyond | upper.less(values[0])


def _outside_set(values: tuple[Canonical, ...], known: Evidence) -> Bools:
    lower, upper = known.lower, known.upper
    beyond = _beyond(values, known)
    if len(values) <= 1 or lower is None or upper is None:
        return beyond
    if isinstance(lower.data, np.ndarray):
        return beyond | _in_gap(values, lower, upper)
    if len(values) > _MOST_COMPARED:
        return beyond | _equal_and_absent(values, lower, upper)
    outside = np.ones(known.size, np.bool_)
    for value in values:
        outside &= lower.greater(value) | upper.less(value)
    return outside


def _in_gap(values: tuple[Canonical, ...], lower: Vector, upper: Vector) -> Bools:
    """The sets whose bounds are both numbers between two neighbours of a sorted set."""
    numbers = _sorted_numbers(values, np.result_type(lower.data, upper.data))
    if not len(numbers):
        return upper.known(lower.known(np.ones(len(lower), np.bool_)))
    places = np.searchsorted(numbers, lower.data)
    after = numbers[np.minimum(places, len(numbers) - 1)]
    found = np.asarray(after > upper.data, np.bool_)
    # what sorts last is NaN, or is below numbers of the set that have more than 64 bits
    is_last = places == len(numbers)
    found = found & ~is_last if numbers.dtype == np.float64 else found | is_last
    return upper.known(lower.known(found))


@lru_cache(maxsize=16)
def _sorted_numbers(values: tuple[Canonical, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    if dtype == np.int64:
        # decimals of a set may be beyond 64 bits where those of files are not
        ordered: Any = values
        values = values[bisect_left(ordered, -(2**63)) : bisect_left(ordered, 2**63)]
    return np.array(values, dtype)


@lru_cache(maxsize=16)
def _ranges(values: tuple[Canonical, ...], dtype: np.dtype[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The begins and the ends of ranges."""
    numbers: Any = values
    if not -(2**63) <= numbers[0] <= numbers[-1] < 2**63:
        dtype = np.dtype(object)
    return np.array(values[::2], dtype), np.array(values[1::2], dtype)


def between_bounds(values: tuple[Canonical, ...], known: Evidence) -> tuple[Int64s, Int64s]:
    """The values of a sorted set that each set of rows may have, by its bounds: the first, and the end."""
    begins, ends = np.zeros(known.size, np.int64), np.full(known.size, len(values), np.int64)
    sides: tuple[_Side, _Side] = ("left", "right")
    for vector, side, found in zip((known.lower, known.upper), sides, (begins, ends), strict=True):
        if vector is not None:
            sure = vector.known(np.ones(known.size, np.bool_))
            places = _places(values, vector, side)
            found[sure] = places[sure]
    return begins, ends


def _places(values: tuple[Canonical, ...], bounds: Vector, side: _Side) -> Int64s:
    """The places of bounds in a sorted set; an end of it for NaN and bounds that cannot be compared."""
    ordered: Any = values
    unknown = 0 if side == "left" else len(values)
    if not isinstance(bounds.data, np.ndarray):
        bisect = bisect_left if side == "left" else bisect_right
        found = [unknown if each is None else bisect(ordered, each) for each in bounds.data.to_pylist()]
        return np.array(found, np.int64)
    numbers = _sorted_numbers(values, bounds.data.dtype)
    if len(numbers) < len(values) or numbers[-1] != numbers[-1]:
        return np.full(len(bounds), unknown, np.int64)
    places = np.searchsorted(numbers, bounds.data, side).astype(np.int64)
    return np.where(bounds.data == bounds.data, places, unknown)


def _equal_and_absent(values: tuple[Canonical, ...], lower: Vector, upper: Vector) -> Bools:
    """The sets whose bounds are the same string, which is none of `values`."""
    ordered: Any = values
    found = np.zeros(len(lower), np.bool_)
    for row in np.flatnonzero(lower.equals(upper)).tolist():
        value = lower.data[row].as_py()
        place = bisect_left(ordered, value)
        found[row] = place == len(ordered) or ordered[place] != value
    return found


def _all_start(prefix: Any, known: Evidence) -> Bools:
    if known.lower is None or known.upper is None:
        return np.zeros(known.size, np.bool_)
    return known.lower.starts_with(prefix) & known.upper.starts_with(prefix)
