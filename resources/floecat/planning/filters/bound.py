"""Filters that are bound to columns: trees of tests, which rule out files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

import msgspec

from floecat.iceberg.schemas.types import PrimitiveType
from floecat.planning.filters.expressions import Expression
from floecat.planning.filters.literals import FLOATS, Canonical

__all__ = [
    "ALWAYS",
    "NEVER",
    "Body",
    "Bound",
    "BoundPredicate",
    "Combination",
    "Either",
    "Test",
    "bound_predicates",
    "is_large_set",
    "tests_of",
]

_LARGE_SET: Final = 100


class Test(msgspec.Struct, frozen=True):
    """A test of a column, or of a transform of it that partitions may have.

    Attributes:
        operation: as of a predicate, with `in` and `not-in` for `eq` and `not-eq`; `in-ranges` and
            `not-in-ranges` for sets of transformed values that are ranges of the column.
        field_id: of the column.
        type: of the column, None if it is nested.
        values: canonical values of the term; of sets sorted and distinct; of ranges, which are sorted and do
            not touch, the first and the last value of each.
        transform: None for the column itself.
    """

    operation: str
    field_id: int
    type: PrimitiveType | None
    values: tuple[Canonical, ...] = ()
    transform: str | None = None


class Combination(msgspec.Struct, frozen=True):
    """Parts of which all must hold (`is_and`), or any. Without parts it is true, or false."""

    is_and: bool
    parts: tuple[Bound, ...]


class Either(msgspec.Struct, frozen=True):
    """The readings of a predicate: a row passes, or fails, for sure if it does so in each of them."""

    readings: tuple[Body, ...]


class BoundPredicate(msgspec.Struct, frozen=True):
    """A predicate of the filter.

    Attributes:
        residual: what is left of it where partitions do not decide it: without negation, with the column's
            name in the schema.
        place: where it is in the filter.
        body: its tests.
    """

    residual: Expression
    place: str
    body: Body


Body: TypeAlias = Test | Combination | Either
"""Tests of a predicate."""

Bound: TypeAlias = Body | BoundPredicate
"""A bound filter, or a part of it."""

ALWAYS: Final = Combination(is_and=True, parts=())
NEVER: Final = Combination(is_and=False, parts=())


def is_large_set(test: Test) -> bool:
    """Whether a test is of a set of so many values that a residual has only those that a file may have.

    The predicate has the values in the order of the test then, each once. Floating-point numbers are left as
    they were sent: the two zeros are one value of a test, and not of every reader of residuals.
    """
    is_set = test.operation in ("in", "not-in") and test.transform is None
    return (
        is_set and test.type is not None and test.type.name not in FLOATS and len(test.values) >= _LARGE_SET
    )


def bound_predicates(bound: Bound) -> Iterator[BoundPredicate]:
    """All predicates, from left to right."""
    match bound:
        case BoundPredicate():
            yield bound
        case Combination():
            for part in bound.parts:
                yield from bound_predicates(part)


def tests_of(bound: Bound) -> Iterator[Test]:
    """All tests, from left to right."""
    match bound:
        case Test():
            yield bound
        case BoundPredicate():
            yield from tests_of(bound.body)
        case Combination():
            for part in bound.parts:
                yield from tests_of(part)
        case Either():
            for reading in bound.readings:
                yield from tests_of(reading)
