"""Filters of scans: predicates on columns, with and, or and not (REST specification, `Expression`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import msgspec

__all__ = [
    "FALSE",
    "TRUE",
    "And",
    "Constant",
    "Expression",
    "Not",
    "Or",
    "Predicate",
    "Term",
    "conjunction",
    "disjunction",
    "predicates_of",
]


class Term(msgspec.Struct, frozen=True):
    """The subject of a predicate: a column, or a transform of one.

    Attributes:
        name: full name of the column, empty if only its id is known.
        transform: normalized transform, `None` for the column itself.
        field_id: id of the column, where the filter gives it in place of the name.
    """

    name: str
    transform: str | None = None
    field_id: int | None = None


class Constant(msgspec.Struct, frozen=True):
    """Always true or always false."""

    value: bool


class Predicate(msgspec.Struct, frozen=True):
    """A test of one term.

    Attributes:
        operation: as the specification spells it, e.g. `not-eq`.
        values: JSON values as they were sent: none for tests of null and NaN, any number for `in` and
            `not-in`, otherwise one.
        place: where it is in the filter, for messages, e.g. `filter.left`.
    """

    operation: str
    term: Term
    values: tuple[object, ...] = ()
    place: str = "filter"


class And(msgspec.Struct, frozen=True):
    """Both hold."""

    left: Expression
    right: Expression


class Or(msgspec.Struct, frozen=True):
    """At least one holds."""

    left: Expression
    right: Expression


class Not(msgspec.Struct, frozen=True):
    """The other does not hold."""

    child: Expression


Expression: TypeAlias = Constant | Predicate | And | Or | Not
"""Any filter."""

TRUE = Constant(True)
FALSE = Constant(False)


def conjunction(left: Expression, right: Expression) -> Expression:
    """Both expressions, without constants."""
    if FALSE in (left, right):
        return FALSE
    if left == TRUE:
        return right
    return left if right == TRUE else And(left, right)


def disjunction(left: Expression, right: Expression) -> Expression:
    """Either expression, without constants."""
    if TRUE in (left, right):
        return TRUE
    if left == FALSE:
        return right
    return left if right == FALSE else Or(left, right)


def predicates_of(expression: Expression) -> Iterator[Predicate]:
    """The predicates, from left to right."""
    match expression:
        case Predicate():
            yield expression
        case And() | Or():
            yield from predicates_of(expression.left)
            yield from predicates_of(expression.right)
        case Not():
            yield from predicates_of(expression.child)
