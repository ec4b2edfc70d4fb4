"""Field ids for Parquet files whose writer left some out, or gave them by another schema.

Readers of Iceberg take columns by id as soon as a file has any ids, and then find no element, key or value
that has none: some answer nulls for them. Delta's column mapping numbers the fields of structs only. And
files that were written for another table bring the ids of that one, by which readers take one column for
another. A footer with the right ids cures that: everything else in the file, positions of rows among them,
stays.

How groups stand for lists and maps is told by Parquet ("Logical types", lists and maps, with the rules for
older writers).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

from floecat.errors import InvalidDeltaTableError, UnsupportedDeltaTableError
from floecat.iceberg.parquet.footers import TAIL_LENGTH, footer_length
from floecat.iceberg.parquet.parquet_schema import Annotation, SchemaNode, read_schema, with_field_ids
from floecat.iceberg.parquet.thrift_compact import ThriftError
from floecat.iceberg.schemas.schema import Schema
from floecat.iceberg.schemas.types import ListType, MapType, PrimitiveType, StructType, Type

__all__ = [
    "FIRST_HIDDEN_ID",
    "FooterSchema",
    "NumberedFooter",
    "RequiredFieldIds",
    "fields_of",
    "footer_schema",
    "number_fields",
]

_MAGIC = b"PAR1"

FIRST_HIDDEN_ID = 2_000_000_000
"""First of the ids that no column has, downwards; Iceberg keeps those above 2,147,483,447 for itself."""

Path: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class RequiredFieldIds:
    """The ids that the fields of data files have.

    Attributes:
        ids: by path in data files, with `element`, `key` and `value` for the parts of lists and maps. Columns
            that the schema has no more may be among them: files have them still.
        schema: what readers read by.
        by_id: whether a file's own ids tell which column is which, rather than its names.
        is_own: whether writers of the table know nothing of these ids. What has an id and is not among them
            is of another table then, and its id may be given out here some day.
        sampled: whether writers of the table give no ids, or these, so that other ones are a rare exception.
    """

    ids: Mapping[Path, int]
    schema: Schema
    by_id: bool
    is_own: bool = False
    sampled: bool = False

    @cached_property
    def paths(self) -> Mapping[int, Path]:
        """The paths by id; where two have one id, that of the schema is meant, which comes last."""
        return {id: path for path, id in self.ids.items()}


@dataclass(frozen=True)
class NumberedFooter:
    """The end of a file with all of its ids.

    Attributes:
        data: it takes the place of the last `replaced` bytes.
        replaced: how many bytes the old footer takes.
        columns: full names of the fields that lacked ids, of lists and maps for their parts.
        is_foreign: whether the file has ids of another schema.
    """

    data: bytes
    replaced: int
    columns: tuple[str, ...]
    is_foreign: bool = False


class FooterSchema(NamedTuple):
    """The metadata in a footer, and the root of the schema in them."""

    metadata: bytes
    root: SchemaNode


def number_fields(
    tail: bytes | FooterSchema, numbers: RequiredFieldIds, location: str
) -> NumberedFooter | None:
    """Gives ids to what lacks them, or has others.

    Args:
        tail: the end of the file, its whole footer or more; or what `footer_schema` read of it.
        numbers: the ids.
        location: where the file is, for messages.

    Returns:
        None if the file has no ids at all, so that readers go by names; or all that the schema asks for.

    Raises:
        InvalidDeltaTableError: the footer is damaged, or longer than `tail`.
        UnsupportedDeltaTableError: a column of the schema is something else in the file.
    """
    metadata, root = footer_schema(tail, location) if isinstance(tail, bytes) else tail
    if not any(map(_has_ids, root.children)):
        return None
    walk = _Walk(numbers, location)
    walk.columns_of(root, ())
    walk.note_strangers(root)
    if not walk.lacking:
        return None
    if walk.is_foreign:
        walk.part_from_others(root)
    made = with_field_ids(metadata, walk.given)
    return NumberedFooter(
        made + len(made).to_bytes(4, "little") + _MAGIC,
        len(metadata) + TAIL_LENGTH,
        tuple(dict.fromkeys(walk.lacking)),
        walk.is_foreign,
    )


def footer_schema(tail: bytes, location: str) -> FooterSchema:
    """The schema of a file; arguments and errors as of `number_fields`."""
    length = footer_length(tail, location)
    if length > len(tail):
        raise InvalidDeltaTableError(
            f"Cannot read {location} as a Parquet file: it is shorter than its footer"
        )
    metadata = tail[len(tail) - length : -TAIL_LENGTH]
    try:
        return FooterSchema(metadata, read_schema(metadata))
    except ThriftError:
        raise InvalidDeltaTableError(
            f"Cannot read {location} as a Parquet file: its footer is damaged"
        ) from None


def fields_of(node: SchemaNode, owner: Path = ()) -> Iterator[tuple[Path, SchemaNode]]:
    """Everything in a struct that can have an id, with its path, as a name mapping spells it."""
    for child in node.children:
        path = (*owner, child.name)
        yield path, child
        yield from _nested(child, path)


def _nested(node: SchemaNode, path: Path) -> Iterator[tuple[Path, SchemaNode]]:
    repeated = node.children[0] if len(node.children) == 1 and node.children[0].is_repeated else None
    if node.annotation is Annotation.NONE:
        yield from fields_of(node, path)
    elif node.annotation is Annotation.LIST and repeated is not None:
        is_element = _is_element(repeated, node.name)
        yield from _part(repeated if is_element else repeated.children[0], (*path, "element"))
    elif node.annotation is Annotation.MAP and repeated is not None and len(repeated.children) == 2:
        for part, child in zip(("key", "value"), repeated.children, strict=True):
            yield from _part(child, (*path, part))


def _part(node: SchemaNode, path: Path) -> Iterator[tuple[Path, SchemaNode]]:
    yield path, node
    yield from _nested(node, path)


def _has_ids(node: SchemaNode) -> bool:
    return node.field_id is not None or any(map(_has_ids, node.children))


class _Walk:
    """A walk through the schema of a file.

    Attributes:
        given: nodes that get an id.
        lacking: columns of the schema that lack ids in the file.
        is_foreign: whether columns of the schema have other ids in the file.
    """

    def __init__(self, numbers: RequiredFieldIds, location: str) -> None:
        self._numbers = numbers
        self._location = location
        self.given: list[tuple[SchemaNode, int]] = []
        self.lacking: list[str] = []
        self.is_foreign = False
        self._known: dict[int, tuple[SchemaNode, int]] = {}

    def columns_of(self, struct: SchemaNode, owner: Path) -> None:
        """Walks through the fields of a struct."""
        for node in struct.children:
            if self._numbers.by_id:
                path = self._numbers.paths.get(-1 if node.field_id is None else node.field_id)
            else:
                path = (*owner, node.name)
            if path is None or path not in self._numbers.ids:
                continue
            id = self._numbers.ids[path]
            self._known[_key(node)] = (node, id)
            if node.field_id is None:
                self._give(node, path, of=path)
            elif node.field_id != id and id in self._numbers.schema.fields_by_id:
                self.is_foreign = True
                self._give(node, path, of=path)
            if node.is_repeated:
                self._mismatch(path)
            else:
                self._inside(node, path)

    def _inside(self, node: SchemaNode, path: Path) -> None:
        """Walks through what is in a field."""
        type = self._type(path)
        if isinstance(type, PrimitiveType) or (type is None and not node.is_group):
            return
        if node.annotation is Annotation.LIST and isinstance(type, ListType | None):
            self._list(node, path)
        elif node.annotation is Annotation.MAP and isinstance(type, MapType | None):
            self._map(node, path)
        elif node.is_group and node.annotation is Annotation.NONE and isinstance(type, StructType | None):
            self.columns_of(node, path)
        else:
            self._mismatch(path)

    def _list(self, node: SchemaNode, path: Path) -> None:
        if len(node.children) != 1 or not node.children[0].is_repeated:
            self._mismatch(path)
            return
        repeated = node.children[0]
        element = repeated if _is_element(repeated, node.name) else repeated.children[0]
        self._part(element, (*path, "element"))

    def _map(self, node: SchemaNode, path: Path) -> None:
        entries = node.children[0] if len(node.children) == 1 else None
        if entries is None or not entries.is_repeated or len(entries.children) != 2:
            self._mismatch(path)
            return
        for part, child in zip(("key", "value"), entries.children, strict=True):
            self._part(child, (*path, part))

    def _part(self, node: SchemaNode, path: Path) -> None:
        id = self._numbers.ids.get(path)
        if id is None:
            return
        self._known[_key(node)] = (node, id)
        # another id is none that a reader looks for, as in files that were written under other rules
        if node.field_id != id:
            self._give(node, path, of=path[:-1])
        self._inside(node, path)

    def note_strangers(self, root: SchemaNode) -> None:
        """Looks for ids of columns that the table does not know."""
        if not self._numbers.is_own:
            return
        for node in _every_node(root):
            if node.field_id is not None and _key(node) not in self._known:
                self.is_foreign = True
                self.lacking.append(node.name)

    def part_from_others(self, root: SchemaNode) -> None:
        """Sees to it that nothing else in the file has an id that a column of any version has."""
        done = {_key(node) for node, _ in self.given}
        used = set(self._numbers.ids.values())
        free = (id for id in range(FIRST_HIDDEN_ID, 0, -1) if id not in used)
        for node in _every_node(root):
            if _key(node) in done or node.field_id is None:
                continue
            known = self._known.get(_key(node))
            if known is not None and known[1] != node.field_id:
                self.given.append(known)
            elif known is None and (self._numbers.is_own or node.field_id in used):
                self.given.append((node, next(free)))

    def _give(self, node: SchemaNode, path: Path, *, of: Path) -> None:
        id = self._numbers.ids[path]
        self.given.append((node, id))
        if id in self._numbers.schema.fields_by_id:
            self.lacking.append(self._name(of))

    def _type(self, path: Path) -> Type | None:
        return self._numbers.schema.find_type(self._numbers.ids[path])

    def _name(self, path: Path) -> str:
        id = self._numbers.ids.get(path, -1)
        return self._numbers.schema.names_by_id.get(id, ".".join(path))

    def _mismatch(self, path: Path) -> None:
        """Refuses a column that readers look for; of others it does not matter what they are."""
        type = self._type(path)
        if type is not None:
            raise UnsupportedDeltaTableError(
                f"Column {self._name(path)} is a {type} in the schema and something else in {self._location}"
            )


def _key(node: SchemaNode) -> int:
    return id(node)


def _every_node(node: SchemaNode) -> Iterator[SchemaNode]:
    for child in node.children:
        yield child
        yield from _every_node(child)


def _is_element(repeated: SchemaNode, list_name: str) -> bool:
    """Whether the repeated field of a list is the element itself, as older writers have it."""
    if not repeated.is_group or len(repeated.children) != 1:
        return True
    if repeated.name in ("array", f"{list_name}_tuple"):
        return True
    return repeated.annotation is not Annotation.NONE or repeated.children[0].is_repeated
