"""Table properties that readers of a translated table need, or should see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from floecat.delta.actions import Metadata
from floecat.delta.translation.name_mapping import name_mapping
from floecat.delta.translation.schema import TranslatedSchema

__all__ = ["table_properties"]

_INEXACT = frozenset({"timestamp", "timestamptz", "string", "binary"})
"""Types whose bounds need not be values of the column: Delta cuts their statistics."""


def table_properties(
    metadata: Metadata, version: int, current: TranslatedSchema, schemas: Sequence[TranslatedSchema]
) -> Mapping[str, str]:
    """The properties of a table.

    Args:
        metadata: in force at the newest version.
        version: the newest version.
        current: its schema.
        schemas: all schemas that snapshots have, oldest first.
    """
    properties = {
        "delta.version": str(version),
        "floecat.format": "delta",
        # files belong to Delta: no engine may delete them by what Iceberg's metadata says
        "gc.enabled": "false",
        "schema.name-mapping.default": name_mapping(schemas),
        # tells engines that push aggregates down not to take bounds for minima and maxima
        **{
            f"write.metadata.metrics.column.{leaf.logical_name}": "counts"
            for leaf in current.leaves
            if leaf.type.name in _INEXACT and not leaf.partition
        },
    }
    if metadata.description:
        properties["comment"] = metadata.description
    return properties
