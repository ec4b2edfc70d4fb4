"""Leaf columns of Parquet files (`parquet.thrift`, "SchemaElement"; "LogicalTypes.md")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from floecat.iceberg.parquet.schema_elements import SchemaNode, schema_tree

__all__ = ["ParquetColumn", "leaf_columns"]

_TYPE, _CONVERTED, _SCALE, _LOGICAL = 1, 6, 7, 10
_STRING, _DECIMAL, _DATE, _TIMESTAMP, _INTEGER = 1, 5, 6, 8, 10

_STORES = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_UNITS = {1: "ms", 2: "us", 3: "ns"}

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
    return list(_leaves(schema_tree(elements), ()))


def _leaves(group: SchemaNode, owner: tuple[str, ...] | None) -> Iterator[ParquetColumn]:
    for node in group.children:
        path = None if owner is None or node.is_repeated else (*owner, node.name)
        if node.children:
            yield from _leaves(node, path)
        else:
            yield _column(node, path)


def _column(node: SchemaNode, path: tuple[str, ...] | None) -> ParquetColumn:
    type = node.number(_TYPE)
    if type is None or not 0 <= type < len(_STORES):
        raise ValueError("a column has no type")
    logical, unit, scale = _logical_type(node.element)
    return ParquetColumn(path, node.field_id, _STORES[type], logical, unit, scale)


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
