"""Binds filters to a schema: names to ids, literals to values, negations to opposite tests.

Every predicate of the filter becomes a tree of tests of columns, which rule out files. The predicate itself
is kept as it was sent, for residuals.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np

from floecat.errors import BadRequestError
from floecat.iceberg.schemas.schema import Schema
from floecat.iceberg.schemas.transforms import VOID, can_transform, transform_name
from floecat.iceberg.schemas.types import PrimitiveType, StructType
from floecat.planning.filters.expressions import And, Constant, Expression, Not, Or, Predicate, Term
from floecat.planning.filters.literals import INTEGER_RANGES, Canonical, canonical
from floecat.planning.filters.transforms import parameter, result_type, source_range
from floecat.planning.filters.vectors import Vector

__all__ = ["Bound", "BoundPredicate", "Columns", "Group", "Test", "bind", "tests_of"]

_NEGATED: Final = {
    "is-null": "not-null",
    "is-nan": "not-nan",
    "lt": "gt-eq",
    "gt": "lt-eq",
    "eq": "not-eq",
    "in": "not-in",
    "starts-with": "not-starts-with",
}
_NEGATED_BOTH: Final = _NEGATED | {opposite: name for name, opposite in _NEGATED.items()}
_NO_COMPARISON: Final = frozenset({"unknown", "variant", "geometry", "geography"})
_TESTS_OF_NULL: Final = frozenset({"is-null", "not-null"})
_TESTS_OF_NAN: Final = frozenset({"is-nan", "not-nan"})


class Test(msgspec.Struct, frozen=True):
    """A test of a column, or of a transform of it that partitions may have.

    Attributes:
        operation: as of a predicate, with `in` and `not-in` for `eq` and `not-eq`.
        field_id: of the column.
        type: of the column, None if it is nested.
        values: canonical values of the term; of sets sorted and distinct.
        transform: None for the column itself.
    """

    operation: str
    field_id: int
    type: PrimitiveType | None
    values: tuple[Canonical, ...] = ()
    transform: str | None = None


class Group(msgspec.Struct, frozen=True):
    """Parts of which all must hold (`is_and`), or any. Without parts it is true, or false."""

    is_and: bool
    parts: tuple[Bound, ...]


class BoundPredicate(msgspec.Struct, frozen=True):
    """A predicate of the filter.

    Attributes:
        predicate: without negation, with the column's name in the schema.
        body: its tests.
    """

    predicate: Predicate
    body: Test | Group


Bound: TypeAlias = Test | Group | BoundPredicate
"""A bound filter, or a part of it."""

_ALWAYS: Final = Group(is_and=True, parts=())
_NEVER: Final = Group(is_and=False, parts=())


class Columns:
    """Finds columns of a schema by the names of a request."""

    def __init__(self, schema: Schema, *, case_sensitive: bool = True) -> None:
        self._schema = schema
        self._ids: Mapping[str, Sequence[int]] = {name: (id,) for name, id in schema.ids_by_name.items()}
        self._case_sensitive = case_sensitive
        if not case_sensitive:
            ids: dict[str, set[int]] = {}
            for name, id in schema.ids_by_name.items():
                ids.setdefault(name.lower(), set()).add(id)
            self._ids = {name: tuple(found) for name, found in ids.items()}

    def find(self, name: str, place: str) -> int:
        """The id of a column.

        Raises:
            BadRequestError: there is none, or several that differ in case only.
        """
        found = self._ids.get(name if self._case_sensitive else name.lower(), ())
        if not found:
            raise BadRequestError(f"Invalid {place}: cannot find column {name[:200]}")
        if len(found) > 1:
            raise BadRequestError(f"Invalid {place}: column {name[:200]} is ambiguous without case")
        return found[0]

    def find_term(self, term: Term, place: str) -> int:
        """The id of the column of a term; see `find`."""
        if term.field_id is None:
            return self.find(term.name, place)
        if term.field_id not in self._schema.fields_by_id:
            raise BadRequestError(f"Invalid {place}: cannot find column with id {term.field_id}")
        return term.field_id

    def check_filtered(self, field_id: int, place: str) -> None:
        """Refuses columns that have several values in a row.

        Raises:
            BadRequestError: it is in a list or a map.
        """
        parent = self._schema.parents.get(field_id)
        while parent is not None:
            if not isinstance(self._schema.fields_by_id[parent].type, StructType):
                name = self._schema.names_by_id[field_id]
                raise BadRequestError(f"Invalid {place}: column {name[:200]} is in a list or a map")
            parent = self._schema.parents.get(parent)

    def is_required(self, field_id: int) -> bool:
        """Whether it has no nulls: it and all that hold it are required."""
        current: int | None = field_id
        while current is not None:
            if not self._schema.fields_by_id[current].required:
                return False
            current = self._schema.parents.get(current)
        return True


def bind(expression: Expression, schema: Schema, *, case_sensitive: bool = True) -> Bound:
    """Binds a filter.

    Raises:
        BadRequestError: unknown column, a test that the column does not allow, or a value of another type.
            The message names the place.
    """
    return _Binder(schema, case_sensitive=case_sensitive).bind(expression, negated=False)


def tests_of(bound: Bound) -> Iterator[Test]:
    """All tests, from left to right."""
    match bound:
        case Test():
            yield bound
        case BoundPredicate():
            yield from tests_of(bound.body)
        case Group():
            for part in bound.parts:
                yield from tests_of(part)


class _Binder:
    def __init__(self, schema: Schema, *, case_sensitive: bool) -> None:
        self._schema = schema
        self._columns = Columns(schema, case_sensitive=case_sensitive)

    def bind(self, expression: Expression, *, negated: bool) -> Bound:
        match expression:
            case Constant():
                return _ALWAYS if expression.value != negated else _NEVER
            case Not():
                return self.bind(expression.child, negated=not negated)
            case And() | Or():
                is_and = isinstance(expression, And) != negated
                parts = (
                    self.bind(expression.left, negated=negated),
                    self.bind(expression.right, negated=negated),
                )
                return _group(parts, is_and=is_and)
            case Predicate():
                return self._predicate(expression, negated=negated)

    def _predicate(self, sent: Predicate, *, negated: bool) -> Bound:
        operation = _NEGATED_BOTH[sent.operation] if negated else sent.operation
        field_id = self._columns.find_term(sent.term, sent.place)
        self._columns.check_filtered(field_id, sent.place)
        type = self._schema.fields_by_id[field_id].type
        name = self._schema.names_by_id[field_id]
        term = Term(name, sent.term.transform)
        predicate = Predicate(operation, term, sent.values, sent.place)
        body = self._body(predicate, field_id, type if isinstance(type, PrimitiveType) else None)
        if body in (_ALWAYS, _NEVER):
            return body
        return BoundPredicate(predicate, body)

    def _body(self, predicate: Predicate, field_id: int, type: PrimitiveType | None) -> Test | Group:
        operation, transform = predicate.operation, predicate.term.transform
        tested = self._tested_type(predicate, type)
        if operation in _TESTS_OF_NULL:
            if transform != VOID and self._columns.is_required(field_id):
                return _NEVER if operation == "is-null" else _ALWAYS
            # transforms are null where the column is
            return Test(operation, field_id, type)
        if tested is None or tested.name in _NO_COMPARISON:
            raise _invalid(predicate, f"values of type {type or 'nested'} are not compared")
        if operation in _TESTS_OF_NAN:
            if tested.name not in ("float", "double"):
                raise _invalid(predicate, f"values of type {tested} are never NaN")
            return Test(operation, field_id, type)
        if operation.endswith("starts-with") and tested.name != "string":
            raise _invalid(predicate, f"values of type {tested} have no beginning")
        values = [_value(predicate, value, tested) for value in predicate.values]
        if transform is None:
            return _compare(operation, field_id, tested, values)
        return _compare_transformed(operation, transform, field_id, type, tested, values)

    def _tested_type(self, predicate: Predicate, type: PrimitiveType | None) -> PrimitiveType | None:
        transform = predicate.term.transform
        if transform is None:
            return type
        result = None if type is None else result_type(transform, type)
        if type is None or result is None or not can_transform(transform, type):
            raise _invalid(predicate, f"cannot apply {transform[:40]} to values of type {type or 'nested'}")
        return result


def _value(predicate: Predicate, value: object, type: PrimitiveType) -> Canonical:
    try:
        return canonical(value, type)
    except ValueError:
        raise _invalid(predicate, f"a value is not of type {type}") from None


def _invalid(predicate: Predicate, problem: str) -> BadRequestError:
    return BadRequestError(f"Invalid {predicate.place} ({predicate.term.name[:200]}): {problem}")


def _group(parts: tuple[Bound, ...], *, is_and: bool) -> Bound:
    decided = _NEVER if is_and else _ALWAYS
    if decided in parts:
        return decided
    left = tuple(part for part in parts if part not in (_ALWAYS, _NEVER))
    if len(left) == 1:
        return left[0]
    return Group(is_and, left)


def _compare(operation: str, field_id: int, type: PrimitiveType, values: Sequence[Canonical]) -> Test | Group:
    """A comparison whose values may be beyond, or between, those of the column."""
    if operation in ("eq", "in", "not-eq", "not-in"):
        possible = sorted({value for value in values if _is_possible(value, type)})
        name = "in" if operation in ("eq", "in") else "not-in"
        if name == "in" and not possible:
            return _NEVER
        return Test(name, field_id, type, tuple(possible))
    value = values[0]
    if isinstance(value, Fraction):
        # between two values: x < 1.5 is x <= 1
        is_upper = operation.startswith("lt")
        operation = "lt-eq" if is_upper else "gt-eq"
        value = math.floor(value) if is_upper else math.ceil(value)
    limits = INTEGER_RANGES.get(type.name)
    if limits is not None and isinstance(value, int) and not limits[0] <= value <= limits[1]:
        if (value > limits[1]) == operation.startswith("lt"):
            return Test("not-null", field_id, type)
        return _NEVER
    return Test(operation, field_id, type, (value,))


def _is_possible(value: Canonical, type: PrimitiveType) -> bool:
    if isinstance(value, Fraction):
        return False
    limits = INTEGER_RANGES.get(type.name)
    return limits is None or not isinstance(value, int) or limits[0] <= value <= limits[1]


def _compare_transformed(
    operation: str,
    transform: str,
    field_id: int,
    source: PrimitiveType | None,
    tested: PrimitiveType,
    values: Sequence[Canonical],
) -> Test | Group:
    """A comparison of a transform: of time and of truncated numbers it is one of the column."""
    name = transform_name(transform)
    is_range = name in ("year", "month", "day", "hour") or tested.name in ("int", "long", "decimal")
    if source is None or name == "bucket" or not is_range:
        plain = _compare(operation, field_id, tested, values)
        return msgspec.structs.replace(plain, transform=transform) if isinstance(plain, Test) else plain
    parts = [_compare_range(operation, transform, field_id, source, tested, value) for value in values]
    is_and = operation.startswith("not")
    return parts[0] if len(parts) == 1 else Group(is_and, tuple(parts))


def _compare_range(
    operation: str,
    transform: str,
    field_id: int,
    source: PrimitiveType,
    tested: PrimitiveType,
    value: Canonical,
) -> Test | Group:
    plain = _compare(operation, field_id, tested, [value])
    if not isinstance(plain, Test) or not plain.values:
        return plain if isinstance(plain, Group) else Test("not-null", field_id, source)
    begin, end = _range_of(transform, source, plain.values[0])

    def compare(name: str, limit: Canonical) -> Test | Group:
        return _compare(name, field_id, source, [limit])

    match plain.operation:
        case "lt":
            return compare("lt", begin)
        case "lt-eq":
            return compare("lt-eq", end)
        case "gt":
            return compare("gt", end)
        case "gt-eq":
            return compare("gt-eq", begin)
        case "in":
            return Group(is_and=True, parts=(compare("gt-eq", begin), compare("lt-eq", end)))
        case _:
            return Group(is_and=False, parts=(compare("lt", begin), compare("gt", end)))


def _range_of(transform: str, source: PrimitiveType, value: Any) -> tuple[int, int]:
    """First and last value of the column that a transform maps to a value; empty if it maps none."""
    name = transform_name(transform)
    if name != "truncate":
        vector = Vector(np.array([value], np.int64))
        exact = source_range(transform, source, vector, vector)
        end = int(exact.upper.data[0])
        # before the epoch ranges of partitions are one wider, see there; those of values are not
        previous = Vector(np.array([value - 1], np.int64))
        begin = int(source_range(transform, source, previous, previous).upper.data[0]) + 1
        return begin, end
    width = parameter(transform)
    begin = -(-value // width) * width
    return (begin, begin + width - 1) if begin == value else (begin, begin - 1)
