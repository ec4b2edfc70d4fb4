"""The name mapping of a table (Iceberg table specification, "Column Projection").

It gives field ids to the columns of data files that carry none. Such files were written before column mapping
was turned on, or never had it. They name their columns as the log does: by the physical names. Logical names
are not listed. No file has them in place of physical ones, and one may be the name of a dropped column that
older files still hold, whose values must not come back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from floecat.delta.translation.schema import TranslatedSchema
from floecat.iceberg.json_values import JsonObject, encode_json
from floecat.iceberg.types import ListType, MapType, StructType, Type

__all__ = ["name_mapping", "resolved_schemas"]


@dataclass
class _Entry:
    """A field in the mapping.

    Attributes:
        field_id: its id, None for the table itself.
        names: its own names, those of newer schemas first.
        parts: what is nested in it, by name. An entry may stand there under several names.
    """

    field_id: int | None = None
    names: list[str] = field(default_factory=list)
    parts: dict[str, _Entry] = field(default_factory=dict)


def name_mapping(schemas: Sequence[TranslatedSchema]) -> str:
    """JSON of the property `schema.name-mapping.default`.

    It lists the fields of all schemas, also those that are gone: older snapshots need them, and some readers
    refuse a file with a column that is not listed. What two schemas say differently, the newer one decides.

    Args:
        schemas: schemas of the table's versions, the newest last.
    """
    return encode_json(_json(_build(schemas))).decode()


def resolved_schemas(schemas: Sequence[TranslatedSchema]) -> tuple[bool, ...]:
    """Whether the mapping gives every column of each schema its id.

    It does not if the ids of a replaced table started anew and one name has two of them. Older snapshots
    would read wrong columns then, from files that carry no ids, and must not be offered.

    Args:
        schemas: schemas of the table's versions, the newest last.

    Returns:
        One answer for each schema. That for the newest one is always yes.
    """
    root = _build(schemas)
    return tuple(
        all(_find(root, path) == field_id for field_id, path in schema.physical_paths.items())
        for schema in schemas
    )


def _build(schemas: Sequence[TranslatedSchema]) -> _Entry:
    root = _Entry()
    places: dict[int, _Entry] = {}
    for schema in reversed(schemas):
        _add_parts(root, schema.schema.struct, schema, places)
    return root


def _add_parts(owner: _Entry, type: Type, schema: TranslatedSchema, places: dict[int, _Entry]) -> None:
    for field_id, part in _parts(type):
        name = schema.physical_paths[field_id][-1]
        known = owner.parts.get(name)
        if known is None:
            known = _place(owner, field_id, name, places)
        # A name or an id that a newer schema uses otherwise takes what is nested in it along.
        if known is not None and known.field_id == field_id:
            _add_parts(known, part, schema, places)


def _place(owner: _Entry, field_id: int, name: str, places: dict[int, _Entry]) -> _Entry | None:
    entry = places.get(field_id)
    if entry is None:
        entry = places[field_id] = _Entry(field_id)
    elif not any(part is entry for part in owner.parts.values()):
        # Readers refuse a mapping that has an id in two places.
        return None
    entry.names.append(name)
    owner.parts[name] = entry
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


def _json(owner: _Entry) -> list[JsonObject]:
    fields: list[JsonObject] = []
    for name, entry in owner.parts.items():
        if name != entry.names[0]:
            continue
        nested = _json(entry)
        fields.append(
            {"field-id": entry.field_id, "names": entry.names} | ({"fields": nested} if nested else {})
        )
    return fields
