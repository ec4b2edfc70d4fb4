"""Filters in JSON: both spellings of the REST specification are read, the legacy one is written.

Legacy: `{"type": "eq", "term": "x", "value": 1}`. New: objects of type `reference`, `literal`, `literals` and
`apply` under `left` and `right`, or `child`. Released clients write and read the legacy one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from floecat.errors import BadRequestError, IllegalArgumentError
from floecat.iceberg.schemas.transforms import normalize_transform
from floecat.planning.filters.expressions import (
    FALSE,
    TRUE,
    And,
    Constant,
    Expression,
    Not,
    Or,
    Predicate,
    Term,
)
from floecat.working_memory import take_memory

__all__ = ["MOST_VALUES", "parse_filter", "write_expression"]

MOST_VALUES: Final = 100_000
"""Most values of `in` and `not-in` in a filter, all together."""

_MOST_LEVELS: Final = 200
_MOST_PREDICATES: Final = 10_000
_PREDICATE_BYTES: Final = 4 << 10
_VALUE_BYTES: Final = 256
_COPIES: Final = 4
"""Copies of texts: a plan holds them as sent, as the column has them, for processes, and for answers."""

_UNARY: Final = frozenset({"is-null", "not-null", "is-nan", "not-nan"})
_COMPARISONS: Final = frozenset(
    {"lt", "lt-eq", "gt", "gt-eq", "eq", "not-eq", "starts-with", "not-starts-with"}
)
_SETS: Final = frozenset({"in", "not-in"})


def parse_filter(json: object) -> Expression:
    """Reads a filter.

    Args:
        json: decoded JSON; None stands for no filter.

    Raises:
        BadRequestError: malformed, too deep or too large. The message names the place.
        WorkingMemoryError: others held the memory all the time.
    """
    return TRUE if json is None else _Parser().expression(json, "filter", 0)


def write_expression(expression: Expression) -> object:
    """The legacy spelling of a filter, to be encoded as JSON."""
    match expression:
        case Constant():
            return expression.value
        case And() | Or():
            name = "and" if isinstance(expression, And) else "or"
            return {
                "type": name,
                "left": write_expression(expression.left),
                "right": write_expression(expression.right),
            }
        case Not():
            return {"type": "not", "child": write_expression(expression.child)}
        case Predicate():
            return _write_predicate(expression)


def _write_predicate(predicate: Predicate) -> dict[str, object]:
    term = predicate.term
    written: object = term.name
    if term.transform is not None:
        written = {"type": "transform", "transform": term.transform, "term": term.name}
    fields: dict[str, object] = {"type": predicate.operation, "term": written}
    if predicate.operation in _SETS:
        fields["values"] = list(predicate.values)
    elif predicate.values:
        fields["value"] = predicate.values[0]
    return fields


class _Parser:
    def __init__(self) -> None:
        self._predicates = self._values = 0

    def expression(self, json: object, place: str, level: int) -> Expression:
        if isinstance(json, bool):
            return TRUE if json else FALSE
        fields = _fields(json, place)
        if level > _MOST_LEVELS:
            raise BadRequestError(f"Invalid filter: nested deeper than {_MOST_LEVELS} levels")
        kind = _text(fields, "type", place).lower()
        match kind:
            case "true" | "false":
                return TRUE if kind == "true" else FALSE
            case "literal":
                value = fields.get("value")
                if not isinstance(value, bool):
                    raise _invalid(place, "a literal that is a filter must be true or false")
                return TRUE if value else FALSE
            case "and" | "or":
                left = self.expression(_part(fields, "left", place), f"{place}.left", level + 1)
                right = self.expression(_part(fields, "right", place), f"{place}.right", level + 1)
                return And(left, right) if kind == "and" else Or(left, right)
            case "not":
                return Not(self.expression(_part(fields, "child", place), f"{place}.child", level + 1))
        return self._predicate(kind, fields, place)

    def _predicate(self, kind: str, fields: Mapping[str, Any], place: str) -> Predicate:
        self._predicates += 1
        if self._predicates > _MOST_PREDICATES:
            raise BadRequestError(f"Invalid filter: more than {_MOST_PREDICATES:,} predicates")
        take_memory(_PREDICATE_BYTES)
        if kind in _UNARY:
            operand = "term" if "term" in fields else "child"
            return Predicate(kind, _term(_part(fields, operand, place), f"{place}.{operand}"), (), place)
        if kind not in _COMPARISONS and kind not in _SETS:
            raise _invalid(place, f"unknown type {kind[:40]}")
        operand = "term" if "term" in fields else "left" if "left" in fields else "child"
        term = _term(_part(fields, operand, place), f"{place}.{operand}")
        values = self._set(fields, place) if kind in _SETS else (_value(fields, place),)
        return Predicate(kind, term, values, place)

    def _set(self, fields: Mapping[str, Any], place: str) -> tuple[object, ...]:
        at = "values" if "values" in fields else "right"
        values = _part(fields, at, place)
        if at == "right":
            literals = _fields(values, f"{place}.right")
            if _text(literals, "type", f"{place}.right") != "literals":
                raise _invalid(f"{place}.right", "must be of type literals")
            values, at = _part(literals, "values", f"{place}.right"), "right.values"
        if not isinstance(values, list):
            raise _invalid(f"{place}.{at}", "must be a list")
        self._values += len(values)
        if self._values > MOST_VALUES:
            raise BadRequestError(f"Invalid filter: more than {MOST_VALUES:,} values")
        take_memory(sum(map(_size_of, values)))
        return tuple(_plain(value, f"{place}.{at}[{index}]") for index, value in enumerate(values))


def _value(fields: Mapping[str, Any], place: str) -> object:
    at = "value" if "value" in fields else "right"
    value = _plain(_part(fields, at, place), f"{place}.{at}")
    take_memory(_size_of(value))
    return value


def _size_of(value: object) -> int:
    """Memory that a plan takes for a value."""
    return _VALUE_BYTES + (_COPIES * len(value) if isinstance(value, str) else 0)


def _plain(value: object, place: str) -> object:
    """A literal, which may be wrapped in an object of type `literal`."""
    if isinstance(value, dict) and value.get("type") == "literal":
        value = _part(value, "value", place)
    if not isinstance(value, str | int | float):
        raise _invalid(place, "must be a string, a number or a boolean")
    return value


def _term(json: object, place: str) -> Term:
    if isinstance(json, str):
        return _named(json, place)
    fields = _fields(json, place)
    match _text(fields, "type", place):
        case "reference":
            return _reference(fields, place)
        case "transform":
            inner = _term(_part(fields, "term", place), f"{place}.term")
            return _transformed(_text(fields, "transform", place), inner, place)
        case "apply":
            return _applied(fields, place)
        case _:
            raise _invalid(place, "must be a column, a reference, a transform or a function")


def _reference(fields: Mapping[str, Any], place: str) -> Term:
    # the reference implementation writes the name as `term`
    if (name := fields.get("name", fields.get("term"))) is not None:
        if not isinstance(name, str):
            raise _invalid(place, "name must be a string")
        return _named(name, place)
    field_id = fields.get("id")
    if type(field_id) is not int:
        raise _invalid(place, "a reference has a name or an id")
    return Term("", None, field_id)


def _named(name: str, place: str) -> Term:
    if not name:
        raise _invalid(place, "a column has a name")
    return Term(name)


def _applied(fields: Mapping[str, Any], place: str) -> Term:
    """A function: a transform whose first argument is the column and whose second, if any, its width."""
    function = _text(fields, "function", place)
    arguments = _part(fields, "arguments", place)
    if not isinstance(arguments, list) or not 1 <= len(arguments) <= 2:
        raise _invalid(f"{place}.arguments", "must be a list of a column and, for some functions, a width")
    columns = [argument for argument in arguments if _is_reference(argument)]
    others = [argument for argument in arguments if not _is_reference(argument)]
    if len(columns) != 1:
        raise _invalid(f"{place}.arguments", "must hold one column")
    term = _term(columns[0], f"{place}.arguments")
    if others:
        width = _plain(others[0], f"{place}.arguments")
        if type(width) is not int:
            raise _invalid(f"{place}.arguments", "the width must be an integer")
        function = f"{function}[{width}]"
    return _transformed(function, term, place)


def _is_reference(argument: object) -> bool:
    return isinstance(argument, str) or (isinstance(argument, dict) and argument.get("type") == "reference")


def _transformed(transform: str, term: Term, place: str) -> Term:
    if term.transform is not None:
        raise _invalid(place, "a transform of a transform")
    try:
        normalized = normalize_transform(transform)
    except IllegalArgumentError as error:
        raise _invalid(place, error.message) from None
    return term if normalized == "identity" else Term(term.name, normalized, term.field_id)


def _fields(json: object, place: str) -> Mapping[str, Any]:
    if not isinstance(json, dict):
        raise _invalid(place, "must be an object")
    return json


def _part(fields: Mapping[str, Any], name: str, place: str) -> object:
    if name not in fields:
        raise _invalid(place, f"has no {name}")
    return fields[name]


def _text(fields: Mapping[str, Any], name: str, place: str) -> str:
    value = _part(fields, name, place)
    if not isinstance(value, str):
        raise _invalid(place, f"{name} must be a string")
    return value


def _invalid(place: str, problem: str) -> BadRequestError:
    return BadRequestError(f"Invalid {place}: {problem}")
