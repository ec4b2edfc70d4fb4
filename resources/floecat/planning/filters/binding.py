"""Binds filters to a schema: names to ids, literals to values, negations to opposite tests.

Every predicate of the filter becomes a tree of tests of columns, which rule out files. The predicate itself
is kept for residuals, as it was sent but for numbers that are texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from floecat.errors import BadRequestError
from floecat.iceberg.schemas.schema import Schema
from floecat.iceberg.schemas.transforms import VOID, can_transform
from floecat.iceberg.schemas.types import PrimitiveType, StructType
from floecat.planning.filters.bound import (
    ALWAYS,
    NEVER,
    Body,
    Bound,
    BoundPredicate,
    Combination,
    Either,
    Test,
    is_large_set,
)
from floecat.planning.filters.comparisons import compare, compare_transformed
from floecat.planning.filters.expressions import And, Constant, Expression, Not, Or, Predicate, Term
from floecat.planning.filters.finite import with_finite_values
from floecat.planning.filters.literals import EXAMPLES, FLOATS, Canonical, canonical, json_number
from floecat.planning.filters.transforms import result_type
from floecat.suggestions import did_you_mean, nearest

__all__ = ["Columns", "bind"]

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
_LONGEST_SHOWN: Final = 40
_JSON_NUMBERS: Final = frozenset({"int", "long", *FLOATS})


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

    def find(self, name: str, place: str, *others: Columns) -> int:
        """The id of a column, of other schemas if there is none of that name in this one.

        Raises:
            BadRequestError: there is none, or several that differ in case only.
        """
        found = self._ids.get(name if self._case_sensitive else name.lower(), ())
        if not found and others:
            return others[0].find(name, place, *others[1:])
        if not found:
            near = did_you_mean(nearest(name[:200], self._schema.ids_by_name))
            raise BadRequestError(f"Invalid {place}: cannot find column {name[:200]}{near}")
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
                name = self.name_of(field_id)[:200]
                raise BadRequestError(f"Invalid {place}: column {name} is in a list or a map")
            parent = self._schema.parents.get(parent)

    def name_of(self, field_id: int) -> str:
        """The full name of a column."""
        return self._schema.names_by_id[field_id]

    def type_of(self, field_id: int) -> PrimitiveType | None:
        """The type of a column; None if it is nested."""
        type = self._schema.fields_by_id[field_id].type
        return type if isinstance(type, PrimitiveType) else None

    def is_required(self, field_id: int) -> bool:
        """Whether it has no nulls: it and all that hold it are required."""
        current: int | None = field_id
        while current is not None:
            if not self._schema.fields_by_id[current].required:
                return False
            current = self._schema.parents.get(current)
        return True


def bind(expression: Expression, columns: Columns, *others: Columns) -> Bound:
    """Binds a filter.

    Args:
        expression: the filter.
        columns: that its names may mean.
        *others: of other schemas. A name that means another column, or one of another type, there may mean
            either.

    Raises:
        BadRequestError: unknown column, a test that the column does not allow, or a value of another type,
            whatever is meant. The message names the place.
    """
    return _Binder((columns, *others)).bind(expression, negated=False)


class _Binder:
    def __init__(self, schemas: Sequence[Columns]) -> None:
        self._schemas = schemas

    def bind(self, expression: Expression, *, negated: bool) -> Bound:
        match expression:
            case Constant():
                return ALWAYS if expression.value != negated else NEVER
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
        found: dict[tuple[int, PrimitiveType | None], tuple[Expression, Body]] = {}
        refused: list[BadRequestError] = []
        for columns in self._schemas:
            try:
                field_id = columns.find_term(sent.term, sent.place)
                key = (field_id, columns.type_of(field_id))
                if key not in found:
                    found[key] = _in_schema(columns, field_id, sent, negated=negated)
            except BadRequestError as error:
                refused.append(error)
        if not found:
            raise refused[0]
        bound = list(found.values())
        residual, body = bound[0]
        if len(bound) > 1:
            body = Either(tuple(body for _, body in bound))
        return body if body in (ALWAYS, NEVER) else BoundPredicate(residual, sent.place, body)


def _in_schema(columns: Columns, field_id: int, sent: Predicate, *, negated: bool) -> tuple[Expression, Body]:
    """A predicate on a column, as residuals have it, and its tests."""
    columns.check_filtered(field_id, sent.place)
    type = columns.type_of(field_id)
    operation = _NEGATED_BOTH[sent.operation] if negated else sent.operation
    term = Term(columns.name_of(field_id), sent.term.transform)
    predicate = Predicate(operation, term, sent.values, sent.place)
    transform = term.transform
    tested = _tested_type(predicate, type)
    if operation in _TESTS_OF_NULL:
        if transform != VOID and columns.is_required(field_id):
            return predicate, NEVER if operation == "is-null" else ALWAYS
        # transforms are null where the column is
        return predicate, Test(operation, field_id, type)
    if tested is None or tested.name in _NO_COMPARISON:
        raise _invalid(predicate, f"values of type {type or 'nested'} are not compared")
    if operation in _TESTS_OF_NAN:
        if tested.name not in FLOATS:
            raise _invalid(predicate, f"values of type {tested} are never NaN")
        return predicate, Test(operation, field_id, type)
    if operation.endswith("starts-with") and tested.name != "string":
        raise _invalid(predicate, f"values of type {tested} have no beginning")
    values = [_value(predicate, value, tested) for value in predicate.values]
    if tested.name in _JSON_NUMBERS:
        predicate = _with_numbers(predicate)
    if transform is None:
        body = compare(operation, field_id, tested, values, negated=negated)
        if tested.name in FLOATS:
            return with_finite_values(predicate, values, tested, negated=negated), body
        return _in_order(predicate, values, body), body
    return predicate, compare_transformed(operation, transform, field_id, type, tested, values)


def _in_order(predicate: Predicate, values: Sequence[Canonical], body: Body) -> Predicate:
    """The predicate with the values of a large set in the order of its test, each once."""
    if not isinstance(body, Test) or not is_large_set(body):
        return predicate
    sent = dict(zip(values, predicate.values, strict=True))
    return msgspec.structs.replace(predicate, values=tuple(sent[value] for value in body.values))


def _with_numbers(predicate: Predicate) -> Predicate:
    """The predicate with numbers in place of texts: readers of residuals may not take these."""
    values = tuple(json_number(value) if isinstance(value, str) else value for value in predicate.values)
    return msgspec.structs.replace(predicate, values=values)


def _tested_type(predicate: Predicate, type: PrimitiveType | None) -> PrimitiveType | None:
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
        raise _invalid(
            predicate, f"{_shown(value)} is not of type {type}, as {EXAMPLES[type.name]} is"
        ) from None


def _shown(value: object) -> str:
    """A value as in SQL, its beginning if it is long."""
    if not isinstance(value, str):
        return msgspec.json.encode(value).decode()
    text = value if len(value) <= _LONGEST_SHOWN else f"{value[:_LONGEST_SHOWN]}…"
    return "'{}'".format(text.replace("'", "''"))


def _invalid(predicate: Predicate, problem: str) -> BadRequestError:
    return BadRequestError(f"Invalid {predicate.place} ({predicate.term.name[:200]}): {problem}")


def _group(parts: tuple[Bound, ...], *, is_and: bool) -> Bound:
    decided = NEVER if is_and else ALWAYS
    if decided in parts:
        return decided
    left = tuple(part for part in parts if part not in (ALWAYS, NEVER))
    if len(left) == 1:
        return left[0]
    return Combination(is_and, left)
