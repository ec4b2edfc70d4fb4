"""Permanent ids for the columns of a Delta table.

With column mapping, Delta numbers the columns, and data files carry those ids: they take precedence. Other
columns, and list elements and map entries of most tables, get own ids by their physical path. When mapping is
turned on later, Delta numbers the fields of structs from 1 on, each before those nested in it. Own ids follow
the same order, so that both agree; list elements, map keys and values count from `FIRST_HIGH_ID` and do not
collide with that numbering.

A column that the table is partitioned by has its values in the log, and a data file may hold other ones under
the same name. Once such a file is found, the two have separate ids: the partition column has an id that no
file has. Until then they share one, so that versions from before a change of partitioning read correctly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

from floecat.delta.protocol.delta_schema import (
    DeltaArray,
    DeltaMap,
    DeltaStruct,
    DeltaType,
    find_columns,
    mapping_mode,
    parse_delta_schema,
    physical_name,
)
from floecat.errors import InvalidDeltaTableError, InvalidMetadataError

if TYPE_CHECKING:
    from floecat.delta.protocol.actions import Metadata

__all__ = ["FIRST_HIGH_ID", "MOST_HIDDEN", "FieldIds", "PhysicalPath", "Slot", "assign_history", "slots_of"]

FIRST_HIGH_ID = 1_000_000
"""First own id that cannot collide with Delta's ids, which count from 1."""

MOST_HIDDEN = 2000
"""Most paths that are not columns; each takes about 50 bytes of the table's metadata."""
_LONGEST_HIDDEN = 1000

_FIRST_PARTITION_ID = 1000
_PARTITION = ",null]"
"""Suffix of the keys of partition columns."""

PhysicalPath: TypeAlias = tuple[str, ...]
"""Physical names from the root; list elements, map keys and values are `element`, `key` and `value`."""


class Slot(NamedTuple):
    """A part of a schema that needs an id.

    Attributes:
        path: its physical path.
        dictated: id that column mapping gave it.
        named: whether it is a field of a struct, rather than a list element, map key or map value.
        partition: whether the table is partitioned by it.
    """

    path: PhysicalPath
    dictated: int | None
    named: bool
    partition: bool = False


class FieldIds(msgspec.Struct):
    """The ids of the columns of one table, kept in the store. An id is never reused.

    Attributes:
        own: own ids by physical path, as JSON text of a list. It ends with null for a partition column.
        mapped: ids of column mapping by physical path. If a replaced table gave a path another id, the first
            one is kept; files with the other id carry it.
        last_id: highest id below `FIRST_HIGH_ID` that was ever used.
        last_high_id: highest id that was ever used, from `FIRST_HIGH_ID` on.
        partition_ids: ids of partition fields by source.
        generation: counts changes of ids that may have been published. Metadata of a lower generation must
            be rebuilt for all its snapshots.
        separate: ids of partition columns that data files hold, by physical name. No file has these ids.
        hidden: paths that were found in data files and are not columns, as JSON text of a list.
    """

    own: dict[str, int] = {}
    mapped: dict[str, int] = {}
    last_id: int = 0
    last_high_id: int = FIRST_HIGH_ID - 1
    partition_ids: dict[str, int] = {}
    generation: int = 0
    separate: dict[str, int] = {}
    hidden: list[str] = []

    @property
    def paths(self) -> dict[PhysicalPath, int]:
        """Ids of all columns that data files may hold, by path."""
        known = {key: id for key, id in self.own.items() if not key.endswith(_PARTITION)} | self.mapped
        return {_path(key): id for key, id in known.items()}

    @property
    def hidden_paths(self) -> list[PhysicalPath]:
        """`hidden`, decoded."""
        return [_path(key) for key in self.hidden]

    def encode(self) -> bytes:
        """JSON, as the store keeps it."""
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> FieldIds:
        """Reads what `encode` wrote.

        Raises:
            InvalidMetadataError: it is malformed.
        """
        try:
            return msgspec.json.decode(data, type=cls)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise InvalidMetadataError(f"Cannot read the field ids of a Delta table: {error}") from None

    def dictate(self, slots: Iterable[Slot]) -> None:
        """Adopts the ids that column mapping gave, whatever column had them before.

        `generation` rises if an own id had to change.
        """
        owners: dict[int, list[str]] = {}
        for owner, held in self.own.items():
            owners.setdefault(held, []).append(owner)
        for slot in slots:
            key, id = _key(slot.path), slot.dictated
            if id is None:
                continue
            roles = (_own_key(slot), _own_key(slot._replace(partition=not slot.partition)))
            self._reserve(id)
            others = [one for one in owners.pop(id, []) if one not in roles and self.own.get(one) == id]
            if others:
                self.own |= dict.fromkeys(others, self._next_high_id())
                self.generation += 1
            for name in [name for name, held in self.separate.items() if held == id]:
                self.separate[name] = self._next_high_id()
                self.generation += 1
            if key not in self.mapped:
                former = {self.own.pop(role, id) for role in roles}
                self.generation += former != {id}
                self.mapped[key] = id

    def hide(self, paths: Iterable[PhysicalPath]) -> None:
        """Adds paths that data files hold besides columns; the first `MOST_HIDDEN` are kept."""
        new = (key for key in map(_key, paths) if len(key) <= _LONGEST_HIDDEN)
        self.hidden = list(dict.fromkeys([*self.hidden, *new]))[:MOST_HIDDEN]

    def set_apart(self, names: Iterable[str]) -> None:
        """Gives partition columns, by physical name, ids that no data file has.

        `generation` rises if the published id may be in files, or may be that of an ordinary column.
        """
        for name in names:
            if name in self.separate:
                continue
            key = _key((name,))
            published = self.own.get(key[:-1] + _PARTITION)
            if published is None or key in self.own or key in self.mapped:
                published = self._next_high_id()
                self.generation += 1
            self.separate[name] = published

    def assign(self, slots: Sequence[Slot], *, low: bool = True) -> dict[PhysicalPath, int]:
        """Gives every slot of one schema a distinct id.

        Args:
            slots: all slots of the schema, in order.
            low: whether new own ids of fields follow Delta's numbering; not for dropped columns, which Delta
                does not count.

        Raises:
            InvalidDeltaTableError: column mapping gave an id or a physical name twice.
        """
        assigned = _dictated(slots)
        self.dictate(slots)
        taken = set(assigned.values())
        assigned |= {
            slot.path: self.separate[slot.path[0]]
            for slot in slots
            if slot.partition and slot.path[0] in self.separate
        }
        for slot in slots:
            known = None if slot.path in assigned else self._known(slot, taken)
            if known is not None:
                assigned[slot.path] = known
                taken.add(known)
                if _key(slot.path) not in self.mapped:
                    self.own[_own_key(slot)] = known
        for slot in slots:
            if slot.path not in assigned:
                fresh = self._next_low_id() if low and slot.named else self._next_high_id()
                assigned[slot.path] = self.own[_own_key(slot)] = fresh
        return assigned

    def partition_id(self, source: str) -> int:
        """Id of the partition field with the given source."""
        return self.partition_ids.setdefault(source, _FIRST_PARTITION_ID + len(self.partition_ids))

    def _reserve(self, used: int) -> None:
        if used >= FIRST_HIGH_ID:
            self.last_high_id = max(self.last_high_id, used)
        else:
            self.last_id = max(self.last_id, used)

    def _known(self, slot: Slot, taken: set[int]) -> int | None:
        roles = (
            [slot] if slot.path[0] in self.separate else [slot, slot._replace(partition=not slot.partition)]
        )
        for id in (self.mapped.get(_key(slot.path)), *(self.own.get(_own_key(role)) for role in roles)):
            # If a replaced table restarted its ids, two paths of an older schema may have the same id.
            if id is not None and id not in taken:
                return id
        return None

    def _next_low_id(self) -> int:
        if self.last_id + 1 >= FIRST_HIGH_ID:
            return self._next_high_id()
        self.last_id += 1
        return self.last_id

    def _next_high_id(self) -> int:
        self.last_high_id += 1
        return self.last_high_id


def assign_history(history: Sequence[Metadata], ids: FieldIds) -> bool:
    """Gives ids to the columns of all known versions at once, so that column mapping changes none later.

    Ids of column mapping come first, those of newer versions before those of older ones. Own ids of the
    newest schema follow the order in which Delta would number it; dropped columns do not collide with it.

    Args:
        history: all known metadata, the oldest first.
        ids: the ids of the table, changed in place.

    Returns:
        Whether an id that was assigned before has changed: published versions must be rebuilt.

    Raises:
        InvalidDeltaTableError: a schema is malformed.
        UnsupportedDeltaTableError: a mapping mode is unknown.
    """
    generation = ids.generation
    newest_first = [slots_of(metadata) for metadata in reversed(history)]
    for slots in newest_first:
        ids.dictate(slots)
    for position, slots in enumerate(newest_first):
        ids.assign(slots, low=position == 0 and mapping_mode(history[-1].configuration) == "none")
    return ids.generation != generation


def slots_of(metadata: Metadata) -> tuple[Slot, ...]:
    """Everything in the schema of a table that needs an id, each before what is nested in it.

    Raises:
        InvalidDeltaTableError: the schema is malformed; or column mapping is on, and a column has no physical
            name.
        UnsupportedDeltaTableError: the mapping mode is unknown.
    """
    struct = parse_delta_schema(metadata.schema_string)
    # If mapping is off, what it left in the schema is ignored.
    mapped = mapping_mode(metadata.configuration) != "none"
    columns = find_columns(struct, metadata.partition_columns)
    partitions = {(physical_name(column, column.name, mapped=mapped),) for column in columns if column}
    slots = _walk_struct(struct, (), "", mapped)
    return tuple(slot._replace(partition=True) if slot.path in partitions else slot for slot in slots)


def _walk_struct(struct: DeltaStruct, path: PhysicalPath, owner: str, mapped: bool) -> Iterator[Slot]:
    for field in struct.fields:
        full_name = f"{owner}.{field.name}" if owner else field.name
        name = physical_name(field, full_name, mapped=mapped)
        yield Slot((*path, name), field.column_id if mapped else None, named=True)
        nested_ids = field.nested_ids if mapped else {}
        yield from _walk_type(field.type, (*path, name), name, nested_ids, full_name, mapped)


def _walk_type(
    type: DeltaType,
    path: PhysicalPath,
    nested_key: str,
    nested_ids: Mapping[str, int],
    owner: str,
    mapped: bool,
) -> Iterator[Slot]:
    match type:
        case DeltaStruct():
            yield from _walk_struct(type, path, owner, mapped)
            return
        case DeltaArray():
            parts = {"element": type.element}
        case DeltaMap():
            parts = {"key": type.key, "value": type.value}
        case _:
            return
    for part, inner in parts.items():
        key = f"{nested_key}.{part}"
        yield Slot((*path, part), nested_ids.get(key), named=False)
        yield from _walk_type(inner, (*path, part), key, nested_ids, f"{owner}.{part}", mapped)


def _dictated(slots: Sequence[Slot]) -> dict[PhysicalPath, int]:
    paths: set[PhysicalPath] = set()
    owners: dict[int, PhysicalPath] = {}
    for slot in slots:
        if slot.path in paths:
            raise InvalidDeltaTableError(f"Two columns have the physical name {'.'.join(slot.path)}")
        paths.add(slot.path)
        if slot.dictated is None:
            continue
        if slot.dictated in owners:
            raise InvalidDeltaTableError(
                f"Columns {'.'.join(owners[slot.dictated])} and {'.'.join(slot.path)} have the same id"
                f" {slot.dictated}"
            )
        owners[slot.dictated] = slot.path
    return {path: id for id, path in owners.items()}


def _key(path: PhysicalPath) -> str:
    return msgspec.json.encode(path).decode()


def _own_key(slot: Slot) -> str:
    key = _key(slot.path)
    return key[:-1] + _PARTITION if slot.partition else key


def _path(key: str) -> PhysicalPath:
    return msgspec.json.decode(key, type=PhysicalPath)
