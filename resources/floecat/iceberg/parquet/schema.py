"""Leaf columns of Parquet files (`parquet.thrift`, "SchemaElement"; "LogicalTypes.md")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["SCHEMA_FIELDS", "ParquetColumn", "leaf_columns"]

_TYPE, _REPETITION, _NAME, _CHILDREN, _CONVERTED, _SCALE, _FIELD_ID, _LOGICAL = 1, 3, 4, 5, 6, 7, 9, 10
_STRING, _DECIMAL, _DATE, _TIMESTAMP, _INTEGER = 1, 5, 6, 8, 10

SCHEMA_FIELDS: Mapping[int, Any] = {
    **dict.fromkeys((_TYPE, _REPETITION, _NAME, _CHILDREN, _CONVERTED, _SCALE, _FIELD_ID)),
    _LOGICAL: {
        **{number: {} for number in range(1, 32)},
        _DECIMAL: {1: None},
        _TIMESTAMP: {1: None, 2: {1: {}, 2: {}, 3: {}}},
        _INTEGER: {2: None},
    },
}
"""Fields of `SchemaElement` that are used."""

_STORES = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_REPEATED = 2
_UNITS = {1: "ms", 2: "us", 3: "ns"}
_DEEPEST = 100

_CONVERTED_TYPES = {
    0: ("string", ""),
    5: ("decimal", ""),
    6: ("date", ""),
    9: ("timestamptz", "ms"),
    10: ("timestamptz", "us"),
    **dict.fromkeys(range(15, 19), ("signed", "")),
}
"""Logical types of writers that do not know the newer field, with their unit."""


@dataclass(frozen=True)
class ParquetColumn:
    """A leaf column.

    Attributes:
        path: names from the root through structs; None if it lies in a list or map.
        field_id: None if it has none.
        store: the physical type, e.g. `INT64`.
        logical: `string`, `decimal`, `date`, `timestamp`, `timestamptz`, `signed` for whole numbers, empty
            for none, `other` for all others.
        unit: of timestamps: `ms`, `us` or `ns`.
        scale: of decimals.
    """

    path: tuple[str, ...] | None
    field_id: int | None
    store: str
    logical: str
    unit: str = ""
    scale: int = 0


def leaf_columns(elements: Sequence[Mapping[int, Any]]) -> list[ParquetColumn]:
    """The leaf columns of a file, in its order.

    Args:
        elements: the schema in depth-first order, `SCHEMA_FIELDS` of each element; the first is the root.

    Raises:
        ValueError: that is no tree of named elements.
    """
    remaining = iter(elements)
    columns = list(_leaves(remaining, next(remaining, {}).get(_CHILDREN), (), 0))
    if next(remaining, None) is not None:
        raise ValueError("the schema has several roots")
    return columns


def _leaves(
    remaining: Iterator[Mapping[int, Any]], count: object, owner: tuple[str, ...] | None, depth: int
) -> Iterator[ParquetColumn]:
    if not isinstance(count, int) or depth > _DEEPEST:
        raise ValueError("the schema is no tree")
    for _ in range(count):
        element = next(remaining, None)
        if element is None or not isinstance(element.get(_NAME), bytes):
            raise ValueError("the schema is no tree of names")
        is_nested = owner is not None and element.get(_REPETITION) != _REPEATED
        path = (*owner, element[_NAME].decode()) if owner is not None and is_nested else None
        if element.get(_CHILDREN):
            yield from _leaves(remaining, element[_CHILDREN], path, depth + 1)
        else:
            yield _column(element, path)


def _column(element: Mapping[int, Any], path: tuple[str, ...] | None) -> ParquetColumn:
    type = element.get(_TYPE)
    if not isinstance(type, int) or not 0 <= type < len(_STORES):
        raise ValueError("a column has no type")
    field_id = element.get(_FIELD_ID)
    logical, unit, scale = _logical_type(element)
    return ParquetColumn(
        path, field_id if isinstance(field_id, int) else None, _STORES[type], logical, unit, scale
    )


def _logical_type(element: Mapping[int, Any]) -> tuple[str, str, int]:
    scale = element.get(_SCALE)
    known = element.get(_LOGICAL)
    if not isinstance(known, dict) or len(known) != 1:
        converted = element.get(_CONVERTED)
        logical, unit = ("", "") if converted is None else _CONVERTED_TYPES.get(converted, ("other", ""))
        return logical, unit, scale if isinstance(scale, int) else 0
    ((number, details),) = known.items()
    if number == _DECIMAL:
        return "decimal", "", details.get(1, -1)
    if number == _TIMESTAMP:
        unit = next((name for unit, name in _UNITS.items() if unit in details.get(2, {})), "")
        return "timestamptz" if details.get(1) else "timestamp", unit, 0
    if number == _INTEGER:
        return "signed" if details.get(2) else "other", "", 0
    return {_STRING: "string", _DATE: "date"}.get(number, "other"), "", 0
