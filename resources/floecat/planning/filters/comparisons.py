"""Comparisons of columns, and of transforms of them, as tests.

Readers differ on two of them, and no row may be lost whoever reads. A null differs from every value to some;
to others nothing is known of it. NaN is equal to itself and greater than all numbers to some; to others no
comparison with it holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, Final

import msgspec
import numpy as np

from floecat.iceberg.schemas.transforms import transform_name
from floecat.iceberg.schemas.types import PrimitiveType
from floecat.planning.filters.bound import ALWAYS, NEVER, Body, Combination, Either, Test
from floecat.planning.filters.literals import FLOATS, INTEGER_RANGES, Canonical
from floecat.planning.filters.transforms import parameter, source_range
from floecat.planning.filters.vectors import Vector

__all__ = ["compare", "compare_transformed"]

_SETS: Final = {"eq": "in", "in": "in", "not-eq": "not-in", "not-in": "not-in"}


def compare(
    operation: str, field_id: int, type: PrimitiveType, values: Sequence[Canonical], *, negated: bool = False
) -> Body:
    """A comparison whose values may be beyond, or between, those of the column, or NaN.

    Args:
        operation: of the predicate.
        values: of type `type`.
        negated: whether the filter has the opposite operation below a `not`.
    """
    numbers = [value for value in values if not _is_nan(value)]
    if len(numbers) < len(values):
        return _compare_with_nan(operation, field_id, type, numbers, negated=negated)
    if operation in _SETS:
        possible = sorted({value for value in values if _is_possible(value, type)})
        if _SETS[operation] == "in" and not possible:
            return NEVER
        return Test(_SETS[operation], field_id, type, tuple(possible))
    value = values[0]
    if isinstance(value, Fraction):
        operation, value = _rounded(operation, value, is_float=type.name in FLOATS)
    limits = INTEGER_RANGES.get(type.name)
    if limits is not None and isinstance(value, int) and not limits[0] <= value <= limits[1]:
        if (value > limits[1]) == operation.startswith("lt"):
            return Test("not-null", field_id, type)
        return NEVER
    return Test(operation, field_id, type, (value,))


def _is_nan(value: Canonical) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _is_possible(value: Canonical, type: PrimitiveType) -> bool:
    if isinstance(value, Fraction):
        return False
    limits = INTEGER_RANGES.get(type.name)
    return limits is None or not isinstance(value, int) or limits[0] <= value <= limits[1]


def _rounded(operation: str, value: Fraction, *, is_float: bool) -> tuple[str, Canonical]:
    """The same comparison with the nearest value of the column: x < 1.5 is x <= 1."""
    is_upper = operation.startswith("lt")
    if not is_float:
        return ("lt-eq", math.floor(value)) if is_upper else ("gt-eq", math.ceil(value))
    # between infinity and all finite numbers
    infinity = math.inf if value > 0 else -math.inf
    name = "lt" if is_upper else "gt"
    return name if is_upper == (value > 0) else f"{name}-eq", infinity


def _compare_with_nan(
    operation: str, field_id: int, type: PrimitiveType, numbers: Sequence[Canonical], *, negated: bool
) -> Body:
    """A comparison with NaN, beside numbers in a set."""
    is_nan, not_nan = Test("is-nan", field_id, type), Test("not-nan", field_id, type)
    not_null = Test("not-null", field_id, type)
    match operation:
        case "eq" | "in":
            with_nan = Either((is_nan, NEVER))
            return Combination(is_and=False, parts=(compare("in", field_id, type, numbers), with_nan))
        case "not-eq" | "not-in":
            without_nan = Either((not_nan, ALWAYS))
            return Combination(is_and=True, parts=(compare("not-in", field_id, type, numbers), without_nan))
        case "lt":
            greatest: Body = Combination(is_and=True, parts=(not_null, not_nan))
        case "lt-eq":
            greatest = not_null
        case "gt":
            greatest = NEVER
        case _:
            greatest = is_nan
    return Either((greatest, ALWAYS if negated else NEVER))


def compare_transformed(
    operation: str,
    transform: str,
    field_id: int,
    source: PrimitiveType | None,
    tested: PrimitiveType,
    values: Sequence[Canonical],
) -> Body:
    """A comparison of a transform: of time and of truncated numbers it is one of the column.

    Args:
        operation: of the predicate.
        transform: normalized.
        source: type of the column; None if it is nested.
        tested: type of transformed values.
        values: of type `tested`.
    """
    name = transform_name(transform)
    is_range = name in ("year", "month", "day", "hour") or tested.name in ("int", "long", "decimal")
    if source is None or name == "bucket" or not is_range:
        plain = compare(operation, field_id, tested, values)
        return msgspec.structs.replace(plain, transform=transform) if isinstance(plain, Test) else plain
    if operation in _SETS:
        return _compare_ranges(_SETS[operation], transform, field_id, source, tested, values)
    plain = compare(operation, field_id, tested, values)
    if not isinstance(plain, Test):
        return plain
    if not plain.values:
        return msgspec.structs.replace(plain, type=source)
    ((begin, end),) = _ranges_of(transform, source, plain.values)
    limit = end if plain.operation in ("lt-eq", "gt") else begin
    return compare(plain.operation, field_id, source, [limit])


def _compare_ranges(
    operation: str,
    transform: str,
    field_id: int,
    source: PrimitiveType,
    tested: PrimitiveType,
    values: Sequence[Canonical],
) -> Body:
    """A comparison with a set, as one with the sorted ranges of its values, joined where they touch."""
    possible = sorted({value for value in values if _is_possible(value, tested)})
    joined: list[int] = []
    for begin, end in _ranges_of(transform, source, possible):
        if begin > end:
            continue
        if joined and begin <= joined[-1] + 1:
            joined[-1] = end
        else:
            joined += (begin, end)
    if operation == "in" and not joined:
        return NEVER
    return Test(f"{operation}-ranges", field_id, source, tuple(joined))


def _ranges_of(transform: str, source: PrimitiveType, values: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """First and last value of the column that a transform maps to each value; empty if it maps none."""
    if transform_name(transform) != "truncate":
        found = np.array(values, np.int64)
        # before the epoch ranges of partitions are one wider, see there; those of values are not
        before, ends = (
            source_range(transform, source, vector, vector).upper.data.tolist()
            for vector in (Vector(found - 1), Vector(found))
        )
        yield from ((end + 1, last) for end, last in zip(before, ends, strict=True))
        return
    width = parameter(transform)
    for value in values:
        begin = -(-value // width) * width
        yield (begin, begin + width - 1) if begin == value else (begin, begin - 1)
