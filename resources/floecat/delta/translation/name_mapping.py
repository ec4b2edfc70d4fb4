"""The name mapping of a table (Iceberg table specification, "Column Projection").

It gives field ids to the columns of data files that carry none. Such files were written before column mapping
was turned on, or without it. They name their columns as the log does: by physical names. Logical names are
not listed. No file has them in place of physical ones, and one may be the name of a dropped column that older
files still hold, whose values must not come back.

Delta takes the values of partition columns from the log, whatever data files hold under their names, and
skips what files hold beside its columns. Readers of Iceberg use the partition value only if the file has no
column of that id; PyIceberg requires every name of a file in the mapping, and DuckDB fails on a missing one.
So such names are listed too, under ids that no column has: they count down from `FIRST_HIDDEN_ID`, while ids
of columns count up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from floecat.delta.translation.column_ids import PhysicalPath
from floecat.delta.translation.translated_schema import TranslatedSchema
from floecat.iceberg.parquet.field_ids import FIRST_HIDDEN_ID
from floecat.iceberg.schemas.types import ListType, MapType, StructType, Type
from floecat.iceberg.values.encoded_json import JsonObject, encode_json

__all__ = ["name_mapping", "resolved_schemas"]


@dataclass
class _Entry:
    """A field in the mapping.

    Attributes:
        field_id: its id, None for the table itself and for paths that are not columns.
        names: its own names, those of newer schemas first.
        parts: nested entries by name. An entry may have several names.
    """

    field_id: int | None = None
    names: list[str] = field(default_factory=list)
    parts: dict[str, _Entry] = field(default_factory=dict)
    _folded: dict[str, _Entry] = field(default_factory=dict)

    def put(self, name: str, part: _Entry) -> None:
        """Adds a nested entry under one more name."""
        part.names.append(name)
        self.parts[name] = part
        self._folded.setdefault(name.casefold(), part)

    def find(self, name: str) -> _Entry | None:
        """The nested entry with a name; without an exact match, regardless of case."""
        return self.parts.get(name) or self._folded.get(name.casefold())


def name_mapping(schemas: Sequence[TranslatedSchema], hidden: Sequence[PhysicalPath] = ()) -> str:
    """JSON of the property `schema.name-mapping.default`.

    It lists the fields of all schemas, including dropped ones: older snapshots need them, and some readers
    refuse a file with a column that is not listed. Where two schemas differ, the newer one decides.

    Args:
        schemas: schemas of the table's versions, the newest last.
        hidden: paths that files may hold besides columns of the schemas. A name that differs from that of a
            column only by case is the column, as in Delta.
    """
    root = _build(schemas)
    partitions = [(column.physical_name,) for schema in schemas for column in schema.partition_fields]
    for path in (*partitions, *hidden):
        _hide(root, path)
    used = {id for schema in schemas for id in schema.schema.fields_by_id}
    free = (id for id in range(FIRST_HIDDEN_ID, 0, -1) if id not in used)
    return encode_json(_json(root, free)).decode()


def resolved_schemas(schemas: Sequence[TranslatedSchema]) -> tuple[bool, ...]:
    """Whether the mapping gives every column of each schema its id, except partition columns.

    It does not if a replaced table restarted its ids and one name has two of them. Older snapshots would then
    read wrong columns from files that carry no ids, and must not be offered.

    Args:
        schemas: schemas of the table's versions, the newest last.

    Returns:
        One answer per schema; True for the newest.
    """
    root = _build(schemas)
    return tuple(
        all(
            field_id in sources or _find(root, path) == field_id
            for field_id, path in schema.physical_paths.items()
        )
        for schema, sources in zip(schemas, map(_partition_sources, schemas), strict=True)
    )


def _build(schemas: Sequence[TranslatedSchema]) -> _Entry:
    root = _Entry()
    places: dict[int, _Entry] = {}
    for schema in reversed(schemas):
        _add_parts(root, schema.schema.struct, schema, places, _partition_sources(schema))
    return root


def _partition_sources(schema: TranslatedSchema) -> set[int]:
    return {column.source_id for column in schema.partition_fields}


def _add_parts(
    owner: _Entry,
    type: Type,
    schema: TranslatedSchema,
    places: dict[int, _Entry],
    in_the_log: Collection[int] = (),
) -> None:
    for field_id, part in _parts(type):
        if field_id in in_the_log:
            continue
        name = schema.physical_paths[field_id][-1]
        known = owner.parts.get(name)
        if known is None:
            known = _place(owner, field_id, name, places)
        # If a newer schema uses the name or the id differently, nested fields are skipped with it.
        if known is not None and known.field_id == field_id:
            _add_parts(known, part, schema, places)


def _place(owner: _Entry, field_id: int, name: str, places: dict[int, _Entry]) -> _Entry | None:
    entry = places.get(field_id)
    if entry is None:
        entry = places[field_id] = _Entry(field_id)
    elif not any(part is entry for part in owner.parts.values()):
        # Readers refuse a mapping that has an id in two places.
        return None
    owner.put(name, entry)
    return entry


def _parts(type: Type) -> list[tuple[int, Type]]:
    match type:
        case StructType():
            return [(part.id, part.type) for part in type.fields]
        case ListType():
            return [(type.element_id, type.element)]
        case MapType():
            return [(type.key_id, type.key), (type.value_id, type.value)]
        case _:
            return []


def _find(root: _Entry, path: Sequence[str]) -> int | None:
    entry = root
    for name in path:
        found = entry.parts.get(name)
        if found is None:
            return None
        entry = found
    return entry.field_id


def _hide(root: _Entry, path: PhysicalPath) -> None:
    entry = root
    for name in path:
        part = entry.find(name) or _Entry()
        if name not in entry.parts:
            entry.put(name, part)
        entry = part


def _json(owner: _Entry, free: Iterator[int]) -> list[JsonObject]:
    fields: list[JsonObject] = []
    for name, entry in owner.parts.items():
        if name != entry.names[0]:
            continue
        field_id = next(free) if entry.field_id is None else entry.field_id
        nested = _json(entry, free)
        fields.append({"field-id": field_id, "names": entry.names} | ({"fields": nested} if nested else {}))
    return fields
