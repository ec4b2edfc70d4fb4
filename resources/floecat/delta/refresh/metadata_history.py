"""The history of a table's metadata: which versions readers would misread, and table properties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from floecat.delta.protocol.actions import Metadata
from floecat.delta.translation.column_ids import FieldIds, PhysicalPath
from floecat.delta.translation.name_mapping import name_mapping, resolved_schemas
from floecat.delta.translation.translated_schema import LeafColumn, TranslatedSchema, translate_schema
from floecat.errors import UnsupportedDeltaTableError

__all__ = ["History", "merged", "misread", "table_properties", "translatable", "within"]

_INEXACT = frozenset({"timestamp", "timestamptz", "string", "float", "double"})
"""Types whose bounds need not be values of the column: Delta truncates statistics and leaves NaN out."""

_EXACT_DIGITS = 15
"""Decimals of this many digits survive writers that treat them as doubles."""

_VECTORIZATION = "read.parquet.vectorization.enabled"

_CHANGE_TYPE_ID = 2_147_483_543
"""Reserved by the specification for `_change_type`, which writers of change data leave in data files."""

_ROW_TRACKING_IDS = {
    "delta.rowTracking.materializedRowIdColumnName": 2_147_483_500,
    "delta.rowTracking.materializedRowCommitVersionColumnName": 2_147_483_501,
}
"""Two of the reserved ids that the specification gives no meaning."""

History: TypeAlias = list[tuple[int, Metadata]]
"""Metadata, each with the version from which it is in force, oldest first."""


def translatable(history: History, ids: FieldIds) -> History:
    """The part of a history that Iceberg can express. Versions of the rest are refused when built."""
    found: History = []
    for version, metadata in history:
        try:
            translate_schema(metadata, ids)
        except UnsupportedDeltaTableError:
            continue
        found.append((version, metadata))
    return found


def within(history: History, versions: Sequence[int]) -> History:
    """The part of a history that is in force in any of the versions."""
    first = versions[0]
    before = [entry for entry in history if entry[0] <= first][-1:]
    return before + [entry for entry in history if entry[0] > first]


def merged(one: History, other: History) -> History:
    """Both histories as one, without metadata that is in force already."""
    found: History = []
    for version, metadata in sorted(one + other, key=lambda entry: entry[0]):
        if not found or found[-1][1] != metadata:
            found.append((version, metadata))
    return found


def misread(versions: Sequence[int], history: History, schemas: Sequence[TranslatedSchema]) -> Sequence[int]:
    """Versions that some readers would misread, and that are left out for that.

    - Files without field ids are read by name, and the name means another column now. A table has no such
      files if its columns were mapped from the start.
    - Spark with Iceberg 1.10 binds filters on partition columns of an old snapshot to the current schema,
      PyIceberg all filters. They find nothing if the column of that name has another id now. Delta gives
      other ids when a mapped table is replaced; filters of PyIceberg on other columns still miss those rows.
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


_KEPT_PREFIXES = ("delta.constraints.", "floecat.statistics.")
"""Properties that the catalog reads: CHECK constraints, and what is captured of the table."""


def table_properties(
    history: Sequence[Metadata],
    version: int,
    current: TranslatedSchema,
    schemas: Sequence[TranslatedSchema],
    ids: FieldIds,
    *,
    vectorized: bool = True,
) -> Mapping[str, str]:
    """The properties of a table.

    Args:
        history: metadata of the table, that of the newest version last.
        version: the newest version.
        current: its schema.
        schemas: all schemas that snapshots have, oldest first.
        ids: all columns that the table ever had, and what else its files hold.
        vectorized: whether Spark's vectorised reader may read the data files. The table's own property takes
            precedence.
    """
    metadata = history[-1]
    mapping = name_mapping(schemas, [*ids.paths, *ids.hidden_paths])
    properties = {
        "delta.version": str(version),
        "floecat.format": "delta",
        # files belong to Delta: no engine may delete them by Iceberg's metadata
        "gc.enabled": "false",
        "schema.name-mapping.default": _with_hidden_columns(mapping, history),
        # keeps engines that push aggregates down from using bounds as minima and maxima
        **{
            f"write.metadata.metrics.column.{leaf.logical_name}": "counts"
            for leaf in current.leaves
            if not leaf.partition and _has_inexact_bounds(leaf)
        },
    }
    properties |= {
        key: value for key, value in metadata.configuration.items() if key.startswith(_KEPT_PREFIXES)
    }
    own = metadata.configuration.get(_VECTORIZATION)
    if own is not None or not vectorized:
        properties[_VECTORIZATION] = "false" if own is None else own
    if metadata.description:
        properties["comment"] = metadata.description
    return properties


def _has_inexact_bounds(leaf: LeafColumn) -> bool:
    if leaf.type.name == "decimal":
        return int(leaf.type.parameters[0]) > _EXACT_DIGITS
    return leaf.type.name in _INEXACT


def _with_hidden_columns(mapping: str, history: Sequence[Metadata]) -> str:
    """Adds columns to the mapping that writers add to those of the schema, where the log names them."""
    fields: list[dict[str, Any]] = msgspec.json.decode(mapping)
    known = {name for field in fields for name in field["names"]}
    hidden = {_CHANGE_TYPE_ID: ["_change_type"]}
    for key, field_id in _ROW_TRACKING_IDS.items():
        hidden[field_id] = [one.configuration[key] for one in history if key in one.configuration]
    for field_id, names in hidden.items():
        new = [name for name in dict.fromkeys(names) if name not in known]
        known.update(new)
        fields += [{"field-id": field_id, "names": new}] if new else []
    return msgspec.json.encode(fields).decode()
