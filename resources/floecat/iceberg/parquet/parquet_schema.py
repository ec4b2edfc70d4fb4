"""The schema of a Parquet file: a tree of `SchemaElement`s, its field ids, and its leaf columns.

`FileMetaData` has the schema as field 2, a list of the elements in depth-first order (`parquet.thrift`,
"SchemaElement"; "LogicalTypes.md").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise, repeat
from typing import Any, Final, TypeAlias

from floecat.iceberg.parquet.thrift_compact import (
    I32,
    LIST,
    STOP,
    STRUCT,
    FieldPlace,
    Fields,
    ThriftError,
    field_header,
    field_places,
    list_header,
    read_struct,
    zigzag,
)

__all__ = [
    "SCHEMA_FIELDS",
    "Annotation",
    "ParquetColumn",
    "SchemaNode",
    "leaf_columns",
    "read_schema",
    "schema_tree",
    "with_field_ids",
]

_SCHEMA = 2
_TYPE, _REPETITION, _NAME, _CHILDREN, _CONVERTED, _SCALE, _FIELD_ID, _LOGICAL = 1, 3, 4, 5, 6, 7, 9, 10
_DECIMAL, _TIMESTAMP, _INTEGER = 5, 8, 10

SCHEMA_FIELDS: Final[Fields] = {
    **dict.fromkeys((_TYPE, _REPETITION, _NAME, _CHILDREN, _CONVERTED, _SCALE, _FIELD_ID)),
    _LOGICAL: {
        **{number: {} for number in range(1, 32)},
        _DECIMAL: {1: None},
        _TIMESTAMP: {1: None, 2: {1: {}, 2: {}, 3: {}}},
        _INTEGER: {2: None},
    },
}
"""Fields of `SchemaElement` that are used."""

_REPEATED = 2
_DEEPEST = 200
_MOST_ELEMENTS = 100_000


class Annotation(Enum):
    """The kind of a group."""

    NONE = "none"
    LIST = "list"
    MAP = "map"


_CONVERTED_TYPES = {1: Annotation.MAP, 2: Annotation.MAP, 3: Annotation.LIST}
_LOGICAL_TYPES = {2: Annotation.MAP, 3: Annotation.LIST}

_Element: TypeAlias = Mapping[int, Any]


@dataclass(frozen=True, eq=False, slots=True)
class SchemaNode:
    """A `SchemaElement`.

    Attributes:
        element: its fields, by number.
        name: its name; empty for the root.
        children: in order.
        places: where its fields are in the metadata; empty if they were not located.
    """

    element: _Element
    name: str
    children: Sequence[SchemaNode]
    places: Sequence[FieldPlace]

    @property
    def field_id(self) -> int | None:
        """The field id, None without one."""
        return self.number(_FIELD_ID)

    @property
    def annotation(self) -> Annotation:
        """Its annotation: the logical or the converted type."""
        logical = self.element.get(_LOGICAL)
        for known in logical if isinstance(logical, dict) else ():
            if known in _LOGICAL_TYPES:
                return _LOGICAL_TYPES[known]
        return _CONVERTED_TYPES.get(self.number(_CONVERTED) or 0, Annotation.NONE)

    @property
    def is_repeated(self) -> bool:
        """Whether it is `repeated`."""
        return self.element.get(_REPETITION) == _REPEATED

    @property
    def is_group(self) -> bool:
        """Whether it has no values of its own."""
        return self.number(_TYPE) is None

    def number(self, field: int) -> int | None:
        """A field that is a whole number; None if it is missing or something else."""
        found = self.element.get(field)
        return found if isinstance(found, int) else None


def schema_tree(
    elements: Sequence[_Element], places: Iterable[Sequence[FieldPlace]] = repeat(())
) -> SchemaNode:
    """The tree of the elements of a schema.

    Args:
        elements: in depth-first order, `SCHEMA_FIELDS` of each.
        places: of the fields of each, if they are wanted.

    Returns:
        The root.

    Raises:
        ThriftError: the elements are not a tree, or have no names.
    """
    remaining = iter(zip(elements, places, strict=False))
    root = _node(remaining, 0)
    if root.number(_CHILDREN) is None or next(remaining, None) is not None:
        raise ThriftError("the schema has no root, or several")
    return root


def read_schema(metadata: bytes) -> SchemaNode:
    """Reads the schema of a file, and nothing else of its footer.

    Args:
        metadata: `FileMetaData`, without the length and the magic number after it.

    Returns:
        The root. The fields of all nodes are located.

    Raises:
        ThriftError: the bytes are not such a struct, or the elements are not a tree.
    """
    for field in field_places(metadata):
        if field.number == _SCHEMA and field.kind == LIST:
            return _read_elements(metadata, field.value)
    raise ThriftError("there is no schema")


def with_field_ids(metadata: bytes, ids: Iterable[tuple[SchemaNode, int]]) -> bytes:
    """The same bytes with other field ids.

    Args:
        metadata: what the nodes were read from.
        ids: nodes, none twice, and the id that each gets.
    """
    pieces: list[bytes] = []
    at = 0
    for node, id in sorted(ids, key=lambda each: each[0].places[0].start):
        start, end, before, after = _id_place(metadata, node.places)
        pieces += [metadata[at:start], before, zigzag(id), after]
        at = end
    return b"".join([*pieces, metadata[at:]])


def _read_elements(metadata: bytes, place: int) -> SchemaNode:
    count, kind, place = list_header(metadata, place)
    if kind != STRUCT:
        raise ThriftError("the schema is not a list of elements")
    if count > _MOST_ELEMENTS:
        raise ThriftError("the schema has too many elements")
    elements, places = [], []
    for _ in range(count):
        fields = list(field_places(metadata, place))
        if [field.kind for field in fields if field.number == _FIELD_ID] not in ([], [I32]):
            raise ThriftError("a field id is not a number, or there are two")
        elements.append(read_struct(metadata, SCHEMA_FIELDS, place))
        places.append(fields)
        place = fields[-1].value
    return schema_tree(elements, places)


def _node(remaining: Iterator[tuple[_Element, Sequence[FieldPlace]]], depth: int) -> SchemaNode:
    element, places = next(remaining, (None, ()))
    if element is None or depth > _DEEPEST:
        raise ThriftError("the schema is not a tree, or nested too deeply")
    try:
        name = element[_NAME].decode() if depth else ""
    except (KeyError, AttributeError, UnicodeDecodeError):
        raise ThriftError("an element of the schema has no name") from None
    children: list[SchemaNode] = []
    node = SchemaNode(element, name, children, places)
    children += (_node(remaining, depth + 1) for _ in range(node.number(_CHILDREN) or 0))
    return node


def _id_place(metadata: bytes, fields: Sequence[FieldPlace]) -> tuple[int, int, bytes, bytes]:
    """Start and end of the bytes that the field id of an element replaces, and what surrounds it."""
    for field, following in pairwise(fields):
        if field.number == _FIELD_ID:
            return field.value, following.start, b"", b""
    last = 0
    for following in fields:
        if following.number > _FIELD_ID or following.kind == STOP:
            break
        last = following.number
    header = metadata[following.start : following.value]
    if header[0] >> 4:  # its number counts from the field before it
        header = field_header(following.number, following.kind, after=_FIELD_ID)
    return following.start, following.value, field_header(_FIELD_ID, I32, after=last), header


_STRING, _DATE = 1, 6

_STORES = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_UNITS = {1: "ms", 2: "us", 3: "ns"}

_CONVERTED_VALUES = {
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
        ValueError: the elements are not a tree, or have no names.
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
        logical, unit = ("", "") if converted is None else _CONVERTED_VALUES.get(converted, ("other", ""))
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
