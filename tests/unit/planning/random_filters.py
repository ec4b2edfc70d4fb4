"""Random filters, and what they are for a row: three-valued logic without the code of the planner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID

from tests.unit.planning.random_columns import TRANSFORMS, Column, json_value, transformed

__all__ = ["Filter", "may_pass", "passes", "random_filter"]

_UNARY = ("is-null", "not-null")
_NAN = ("is-nan", "not-nan")
_COMPARED = ("lt", "lt-eq", "gt", "gt-eq", "eq", "not-eq", "eq", "lt", "gt")
_STARTS = ("starts-with", "not-starts-with")
_OPPOSITES = (
    ("and", "or"),
    ("is-null", "not-null"),
    ("is-nan", "not-nan"),
    ("lt", "gt-eq"),
    ("gt", "lt-eq"),
    ("eq", "not-eq"),
    ("in", "not-in"),
    _STARTS,
)
_NEGATED = dict(_OPPOSITES) | {right: left for left, right in _OPPOSITES}


class Filter:
    """A filter: its JSON, and the values behind the literals of its JSON."""

    def __init__(self, source: Random, columns: Sequence[Column], *, with_transforms: bool) -> None:
        self._source = source
        self._columns = columns
        self._with_transforms = with_transforms
        self.values: dict[tuple[str, str], Any] = {}
        self.json = self._any(source.choice([0, 0, 1, 1, 2, 3]))

    def _any(self, depth: int) -> dict[str, Any]:
        if depth == 0:
            return self._predicate()
        kind = self._source.choice(["and", "or", "and", "or", "not"])
        if kind == "not":
            return {"type": "not", "child": self._any(depth - 1)}
        return {"type": kind, "left": self._any(depth - 1), "right": self._any(depth - 1)}

    def _predicate(self) -> dict[str, Any]:
        column = self._source.choice(self._columns)
        transforms = TRANSFORMS.get(column.type, ()) if self._with_transforms else ()
        if transforms and self._source.random() < 0.5:
            return self._transformed(column, self._source.choice(transforms))
        kinds = [*_COMPARED, *_UNARY, "in", "not-in"]
        if column.type in ("float", "double"):
            kinds += _NAN
        if column.type == "string":
            kinds += [*_STARTS, *_STARTS]
        kind = self._source.choice(kinds)
        if kind in _UNARY or kind in _NAN:
            return {"type": kind, "term": column.name}
        if kind in ("in", "not-in"):
            values = [self._literal(column) for _ in range(self._source.randint(1, 4))]
            return {"type": kind, "term": column.name, "values": values}
        return {"type": kind, "term": column.name, "value": self._literal(column)}

    def _transformed(self, column: Column, transform: str) -> dict[str, Any]:
        term = {"type": "transform", "transform": transform, "term": column.name}
        kind = self._source.choice([*_COMPARED, *_UNARY, "in", "not-in", "not-in"])
        if kind in _UNARY:
            return {"type": kind, "term": term}
        # the least number is truncated to what is no number of the type
        pool = [value for value in column.pool if not isinstance(value, int) or value > min(column.pool)]
        chosen = [transformed(column, transform, self._source.choice(pool)) for _ in range(2)]
        result = Column(0, column.name, _result(column, transform))
        literals = [json_value(value, result) for value in chosen]
        if kind in ("in", "not-in"):
            return {"type": kind, "term": term, "values": literals}
        return {"type": kind, "term": term, "value": literals[0]}

    def _literal(self, column: Column) -> Any:
        value = self._source.choice([each for each in column.pool if each == each])
        if isinstance(value, int) and not isinstance(value, bool) and self._source.random() < 0.3:
            value += self._source.choice([-1, 1])
            limits = {"int": 2**31, "long": 2**63}.get(column.type)
            if limits is not None:
                value = max(-limits, min(value, limits - 1))
            if column.type == "time":
                value = max(0, min(value, 86_399_999_999))
        json = json_value(value, column, self._source)
        self.values[column.name, str(json)] = value
        return json


def random_filter(source: Random, columns: Sequence[Column], *, with_transforms: bool = False) -> Filter:
    """Makes a filter."""
    return Filter(source, columns, with_transforms=with_transforms)


def _result(column: Column, transform: str) -> str:
    return "date" if transform == "day" else column.type if transform.startswith("truncate") else "int"


def passes(json: Any, row: Mapping[int, Any], columns: Sequence[Column], values: Mapping[Any, Any]) -> bool:
    """Whether a row passes a filter.

    Args:
        json: legacy spelling.
        row: values by column id.
        columns: of the table.
        values: of literals, `Filter.values`.
    """
    return _evaluate(_without_not(json), row, {column.name: column for column in columns}, values) is True


def may_pass(json: Any, row: Mapping[int, Any], columns: Sequence[Column], values: Mapping[Any, Any]) -> bool:
    """Whether a row passes a filter for a reader to whom null differs from every value; as `passes`.

    Where partitions are null no such reader is asked for beginnings.
    """
    by_name = {column.name: column for column in columns}
    return _evaluate(_without_not(json), row, by_name, values, null_differs=True) is True


def _without_not(json: Any, *, negated: bool = False) -> Any:
    """As Iceberg does it: what is not less is greater or equal, also where NaN is neither."""
    if isinstance(json, bool):
        return json != negated
    kind = json["type"]
    if kind == "not":
        return _without_not(json["child"], negated=not negated)
    if not negated and kind not in ("and", "or"):
        return json
    sides = {side: _without_not(json[side], negated=negated) for side in ("left", "right") if side in json}
    return json | {"type": _NEGATED[kind] if negated else kind} | sides


def _evaluate(
    json: Any,
    row: Mapping[int, Any],
    columns: Mapping[str, Column],
    values: Mapping[Any, Any],
    *,
    null_differs: bool = False,
) -> bool | None:
    if isinstance(json, bool):
        return json
    kind = json["type"]
    if kind in ("and", "or"):
        parts = [
            _evaluate(json[side], row, columns, values, null_differs=null_differs)
            for side in ("left", "right")
        ]
        decided = kind == "or"
        if decided in parts:
            return decided
        return None if None in parts else not decided
    term = json["term"]
    column = columns[term["term"] if isinstance(term, dict) else term]
    value = row.get(column.id)
    if value is None and null_differs and kind in ("not-eq", "not-in"):
        return True
    if isinstance(term, dict):
        return _evaluate_transformed(json, row, column, term["transform"])
    if kind in _UNARY:
        return (value is None) == (kind == "is-null")
    if value is None:
        return None
    if kind in _NAN:
        return (value != value) == (kind == "is-nan")
    literals = json["values"] if "values" in json else [json["value"]]
    return _compare(kind, value, [_value(column, literal, values) for literal in literals])


def _evaluate_transformed(json: Any, row: Mapping[int, Any], column: Column, transform: str) -> bool | None:
    value = transformed(column, transform, row.get(column.id))
    if json["type"] in _UNARY:
        return (value is None) == (json["type"] == "is-null")
    if value is None:
        return None
    result = Column(0, column.name, _result(column, transform))
    literals = json["values"] if "values" in json else [json["value"]]
    return _compare(json["type"], value, [_parsed(literal, result) for literal in literals])


def _parsed(literal: Any, column: Column) -> Any:
    """The value of a literal of a transform, which is no value of the pool."""
    # Java writes days as numbers
    if column.type == "date" and isinstance(literal, str):
        return (date.fromisoformat(literal) - date(1970, 1, 1)).days
    if column.type.startswith("decimal"):
        return Decimal(literal)
    return bytes.fromhex(literal) if column.type == "binary" else literal


def _value(column: Column, literal: Any, values: Mapping[Any, Any]) -> Any:
    known = values.get((column.name, str(literal)))
    if known is not None:
        return known
    # another spelling of the same value
    for (name, text), value in values.items():
        if name == column.name and text.lower() == str(literal).lower():
            return value
    return literal


def _compare(kind: str, value: Any, literals: Sequence[Any]) -> bool:
    compared: dict[str, Callable[[Any, Any], bool]] = {
        "lt": lambda a, b: a < b,
        "lt-eq": lambda a, b: a <= b,
        "gt": lambda a, b: a > b,
        "gt-eq": lambda a, b: a >= b,
        "eq": lambda a, b: a == b,
        "not-eq": lambda a, b: a != b,
        "starts-with": lambda a, b: a.startswith(b),
        "not-starts-with": lambda a, b: not a.startswith(b),
    }
    left, rights = _key(value), [_key(literal) for literal in literals]
    if kind in ("in", "not-in"):
        return (left in rights) == (kind == "in")
    return compared[kind](left, rights[0])


def _key(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, UUID):
        return value.bytes
    return Decimal(value) if isinstance(value, Decimal) else value
