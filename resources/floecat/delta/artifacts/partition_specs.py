"""Partition specs of a table: one for each way in which versions were partitioned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from floecat.delta.translation.partition_names import partition_names
from floecat.delta.translation.schema import TranslatedSchema
from floecat.iceberg.schemas.partitioning import PartitionField
from floecat.iceberg.schemas.transforms import IDENTITY

__all__ = ["partition_fields", "spec_names"]


def spec_names(schemas: Sequence[TranslatedSchema], published: Mapping[int, str]) -> Mapping[int, str]:
    """Names of partition fields, by their ids.

    A name that was published stays, whatever its column is called now, unless a schema has another column of
    that name by now: Iceberg's Java library opens no such table.

    Args:
        schemas: of all versions, oldest first.
        published: names in specs that readers have seen.
    """
    names = dict(partition_names(schemas))
    sources = {column.field_id: column.source_id for schema in schemas for column in schema.partition_fields}
    for field_id, name in published.items():
        taken_by = {schema.schema.ids_by_name.get(name) for schema in schemas} - {None}
        if field_id not in names or taken_by <= {sources[field_id]}:
            names[field_id] = name
    return names


def partition_fields(schema: TranslatedSchema, names: Mapping[int, str]) -> tuple[PartitionField, ...]:
    """The partition spec of a schema: each partition column as it is.

    Args:
        schema: with its partition columns.
        names: of partition fields, by id; those that are missing are called like their columns.
    """
    return tuple(
        PartitionField(
            names.get(column.field_id, column.name),
            IDENTITY,
            source_id=column.source_id,
            field_id=column.field_id,
        )
        for column in schema.partition_fields
    )
