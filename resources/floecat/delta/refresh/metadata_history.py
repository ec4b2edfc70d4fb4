"""Which metadata is in force in which versions, and what that means for reading them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from floecat.delta.protocol.actions import Metadata
from floecat.delta.translation.column_ids import FieldIds, PhysicalPath
from floecat.delta.translation.name_mapping import resolved_schemas
from floecat.delta.translation.schema import TranslatedSchema, translate_schema
from floecat.errors import UnsupportedDeltaTableError

__all__ = ["History", "merged", "misread", "translatable", "within"]

History: TypeAlias = list[tuple[int, Metadata]]
"""Metadata, each with the version from which it is in force, oldest first."""


def translatable(history: History, ids: FieldIds) -> History:
    """The part of a history that Iceberg can express. Versions of the rest are refused when they are made."""
    found: History = []
    for version, metadata in history:
        try:
            translate_schema(metadata, ids)
        except UnsupportedDeltaTableError:
            continue
        found.append((version, metadata))
    return found


def within(history: History, versions: Sequence[int]) -> History:
    """The part of a history that is in force in some of the versions."""
    first = versions[0]
    before = [entry for entry in history if entry[0] <= first][-1:]
    return before + [entry for entry in history if entry[0] > first]


def merged(one: History, other: History) -> History:
    """Both histories as one, without repetitions of what is in force already."""
    found: History = []
    for version, metadata in sorted(one + other, key=lambda entry: entry[0]):
        if not found or found[-1][1] != metadata:
            found.append((version, metadata))
    return found


def misread(versions: Sequence[int], history: History, schemas: Sequence[TranslatedSchema]) -> Sequence[int]:
    """Versions that some readers would read wrong, and so are not offered.

    - Readers take columns of files without field ids by name, and the name means another column by now. A
      table has no such files if its columns were mapped from the start.
    - Spark with Iceberg 1.10 binds filters on partition columns of an old snapshot to the current schema,
      PyIceberg all filters, and they find nothing if the column of that name has another id by now. Delta
      itself gives other ids when a mapped table is replaced; that a filter of PyIceberg misses these remains.
    """
    resolved = resolved_schemas(schemas)
    current = schemas[-1].schema.ids_by_name
    current_partitions: dict[PhysicalPath, int] = {
        (each.physical_name,): each.source_id for each in schemas[-1].partition_fields
    }
    found: list[int] = []
    carries_ids = history[0][0] == 0
    for position, (first, _) in enumerate(history):
        schema = schemas[position]
        carries_ids = carries_ids and schema.mapping_mode != "none"
        repartitioned = any(
            current.get(column.name, column.source_id) != column.source_id
            for column in schema.partition_fields
        ) or any(current_partitions.get(path, id) != id for id, path in schema.physical_paths.items())
        last = history[position + 1][0] if position + 1 < len(history) else None
        if repartitioned or not (resolved[position] or carries_ids):
            found += [one for one in versions if one >= first and (last is None or one < last)]
    return found
