"""Table properties that readers of a translated table need, or should see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from floecat.delta.protocol.actions import Metadata
from floecat.delta.translation.column_ids import FieldIds
from floecat.delta.translation.name_mapping import name_mapping
from floecat.delta.translation.schema import LeafColumn, TranslatedSchema

__all__ = ["table_properties"]

_INEXACT = frozenset({"timestamp", "timestamptz", "string", "float", "double"})
"""Types whose bounds need not be values of the column: Delta cuts their statistics, and leaves NaN out."""
_EXACT_DIGITS = 15
"""Digits of decimals that survive a writer who takes them for doubles."""

_VECTORIZATION = "read.parquet.vectorization.enabled"

_CHANGE_TYPE_ID = 2_147_483_543
"""The specification reserves it for `_change_type`, which writers of change data leave in data files."""
_ROW_TRACKING_IDS = {
    "delta.rowTracking.materializedRowIdColumnName": 2_147_483_500,
    "delta.rowTracking.materializedRowCommitVersionColumnName": 2_147_483_501,
}
"""Of the ids that the specification reserves, two that it gives no meaning."""


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
        vectorized: whether Spark's vectorised reader may read the data files. What the table's own properties
            say of it comes first.
    """
    metadata = history[-1]
    mapping = name_mapping(schemas, [*ids.paths, *ids.hidden_paths])
    properties = {
        "delta.version": str(version),
        "floecat.format": "delta",
        # files belong to Delta: no engine may delete them by what Iceberg's metadata says
        "gc.enabled": "false",
        "schema.name-mapping.default": _with_hidden_columns(mapping, history),
        # tells engines that push aggregates down not to take bounds for minima and maxima
        **{
            f"write.metadata.metrics.column.{leaf.logical_name}": "counts"
            for leaf in current.leaves
            if not leaf.partition and _has_inexact_bounds(leaf)
        },
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
    """Adds columns that writers add to those of the schema, as far as the log names them."""
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
