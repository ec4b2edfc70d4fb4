"""Schemas of Delta tables as schemas of Iceberg tables."""

from __future__ import annotations

from dataclasses import dataclass

from floecat.iceberg.schema import Schema
from floecat.iceberg.types import PrimitiveType

__all__ = ["LeafColumn", "PartitionColumn", "TranslatedSchema"]


@dataclass(frozen=True)
class LeafColumn:
    """A primitive column that lies in no list and in no map, thus one that statistics can describe.

    Attributes:
        field_id: id of the Iceberg field.
        physical_path: physical names from the root through structs, as statistics and data files spell them.
        logical_name: dotted name as readers see it, e.g. `address.city`.
        type: the Iceberg type.
        delta_type: the Delta type, e.g. `short` or `decimal(9,2)`.
        partition: whether the table is partitioned by the column.
    """

    field_id: int
    physical_path: tuple[str, ...]
    logical_name: str
    type: PrimitiveType
    delta_type: str
    partition: bool


@dataclass(frozen=True)
class PartitionColumn:
    """A partition column of the Delta table, an identity field of the partition spec.

    Attributes:
        field_id: id of the partition field, 1000 or more.
        source_id: id of the Iceberg field it is derived from.
        name: name of the partition field: the logical name of the column.
        physical_name: the name that `partitionValues` in the log use.
        type: the Iceberg type.
        delta_type: the Delta type, e.g. `short`.
    """

    field_id: int
    source_id: int
    name: str
    physical_name: str
    type: PrimitiveType
    delta_type: str


@dataclass(frozen=True)
class TranslatedSchema:
    """What readers of Iceberg see of the metadata of a Delta table.

    Attributes:
        schema: the Iceberg schema, its schema id is 0.
        leaves: all primitive columns outside of lists and maps, in order of the schema.
        partition_fields: fields of the partition spec, in order of the partition columns.
        format_version: the lowest format version that has all of the types: 2, or 3.
        mapping_mode: `none`, `name` or `id`: how data files name their columns.
    """

    schema: Schema
    leaves: tuple[LeafColumn, ...]
    partition_fields: tuple[PartitionColumn, ...]
    format_version: int
    mapping_mode: str
