"""The schema of a Parquet file as its footer spells it, and where field ids stand in it (`parquet.thrift`).

`FileMetaData` has the schema as field 2, a list of `SchemaElement`s: a tree in depth-first order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from floecat.iceberg.parquet.thrift_fields import (
    BINARY,
    I32,
    LIST,
    STRUCT,
    CompactError,
    CompactReader,
    field_header,
    zigzag,
)

__all__ = ["Annotation", "SchemaNode", "read_schema", "with_field_ids"]

_SCHEMA = 2
_TYPE, _REPETITION, _NAME, _CHILDREN, _CONVERTED, _FIELD_ID, _LOGICAL = 1, 3, 4, 5, 6, 9, 10
_REPEATED = 2
_MOST_NESTED = 200


class Annotation(Enum):
    """What a group stands for."""

    NONE = "none"
    LIST = "list"
    MAP = "map"


_CONVERTED_TYPES = {1: Annotation.MAP, 2: Annotation.MAP, 3: Annotation.LIST}
_LOGICAL_TYPES = {2: Annotation.MAP, 3: Annotation.LIST}


@dataclass
class SchemaNode:
    """A `SchemaElement`.

    Attributes:
        name: its name.
        field_id: its field id, None without one.
        annotation: what it stands for.
        is_repeated: whether it is `repeated`.
        is_group: whether it has children and no values of its own.
        children: in order.
    """

    name: str = ""
    field_id: int | None = None
    annotation: Annotation = Annotation.NONE
    is_repeated: bool = False
    is_group: bool = True
    children: list[SchemaNode] = field(default_factory=list)
    _child_count: int = 0
    # bytes of the footer that give way to a field id: its value, or the header of the field after its place
    _gap: tuple[int, int] = (0, 0)
    _before: bytes = b""
    _after: bytes = b""


def read_schema(metadata: bytes) -> SchemaNode:
    """Reads the schema of a file.

    Args:
        metadata: `FileMetaData`, without the length and the magic number after it.

    Returns:
        The root.

    Raises:
        CompactError: the bytes are no such struct, or the elements are no tree.
    """
    reader = CompactReader(metadata)
    for each in reader.fields():
        if each.id == _SCHEMA and each.type == LIST:
            return _tree(_read_elements(reader, metadata))
        reader.skip(each.type)
    raise CompactError("there is no schema")


def with_field_ids(metadata: bytes, ids: Iterable[tuple[SchemaNode, int]]) -> bytes:
    """The same bytes with other field ids.

    Args:
        metadata: what the nodes were read from.
        ids: nodes, none twice, and the id that each gets.
    """
    pieces: list[bytes] = []
    at = 0
    for node, id in sorted(ids, key=lambda each: each[0]._gap):
        start, end = node._gap
        pieces += [metadata[at:start], node._before, zigzag(id), node._after]
        at = end
    return b"".join([*pieces, metadata[at:]])


def _read_elements(reader: CompactReader, metadata: bytes) -> list[SchemaNode]:
    type, count = reader.list_header()
    if type != STRUCT or count == 0:
        raise CompactError("the schema is no list of elements")
    return [_read_element(reader, metadata) for _ in range(count)]


def _read_element(reader: CompactReader, metadata: bytes) -> SchemaNode:
    node = SchemaNode()
    last, place_found = 0, False
    for each in reader.fields():
        if each.id == _FIELD_ID and each.type == I32 and node.field_id is None:
            node.field_id = reader.integer()
            node._gap, node._before, node._after = (each.value, reader.at), b"", b""
            place_found = True
            continue
        if each.id == _FIELD_ID:
            raise CompactError("a field id is no number, or there are two")
        if each.id > _FIELD_ID and not place_found:
            place_found = True
            _put_between(node, last, each.id, metadata[each.start : each.value], each.start)
        _take(node, each.id, each.type, reader)
        last = each.id
    if not place_found:
        end = reader.at - 1
        node._gap, node._before = (end, end), field_header(_FIELD_ID, I32, after=last)
    return node


def _put_between(node: SchemaNode, last: int, next_id: int, header: bytes, start: int) -> None:
    """Notes that the field id goes before another field, whose header counts from the one before it."""
    node._before = field_header(_FIELD_ID, I32, after=last)
    node._gap = (start, start + len(header))
    is_relative = len(header) == 1
    node._after = field_header(next_id, header[0] & 15, after=_FIELD_ID) if is_relative else header


def _take(node: SchemaNode, id: int, type: int, reader: CompactReader) -> None:
    if id == _NAME and type == BINARY:
        try:
            node.name = reader.binary().decode()
        except UnicodeDecodeError:
            raise CompactError("a name is no text") from None
    elif id == _LOGICAL and type == STRUCT:
        for kind in reader.fields():
            node.annotation = _LOGICAL_TYPES.get(kind.id, node.annotation)
            reader.skip(kind.type)
    elif type == I32 and id in (_TYPE, _REPETITION, _CHILDREN, _CONVERTED):
        _take_number(node, id, reader.integer())
    else:
        reader.skip(type)


def _take_number(node: SchemaNode, id: int, number: int) -> None:
    if id == _TYPE:
        node.is_group = False
    elif id == _REPETITION:
        node.is_repeated = number == _REPEATED
    elif id == _CHILDREN:
        node._child_count = number
    else:
        node.annotation = _CONVERTED_TYPES.get(number, node.annotation)


def _tree(nodes: list[SchemaNode]) -> SchemaNode:
    root = nodes[0]
    open_groups: list[SchemaNode] = [root]
    for node in nodes[1:]:
        while open_groups and len(open_groups[-1].children) >= open_groups[-1]._child_count:
            open_groups.pop()
        if not open_groups or len(open_groups) > _MOST_NESTED:
            raise CompactError("its elements are no tree, or nested too deep")
        open_groups[-1].children.append(node)
        if node.is_group:
            open_groups.append(node)
    if any(len(node.children) != max(node._child_count, 0) for node in nodes):
        raise CompactError("its elements are no tree")
    return root
