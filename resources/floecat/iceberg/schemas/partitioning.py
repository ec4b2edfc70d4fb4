"""Partition specs: read from JSON, compared, and bound to a schema (table specification, "Partitioning")."""

from __future__ import annotations

from typing import Annotated

import msgspec

from floecat.errors import IllegalArgumentError
from floecat.iceberg.schemas.schema import Schema
from floecat.iceberg.schemas.transforms import IDENTITY, VOID, can_transform, normalize_transform, only_source
from floecat.iceberg.schemas.types import PrimitiveType, StructType, Type
from floecat.iceberg.values.encoded_json import Int32, RawJson, WithFields, decode_json, take_json

__all__ = [
    "FIRST_PARTITION_FIELD_ID",
    "NO_PARTITION_FIELD_ID",
    "PartitionField",
    "PartitionSpec",
    "check_fields_once",
    "check_historical_spec",
    "check_new_names",
    "check_partition_spec",
    "parse_partition_spec",
]

FIRST_PARTITION_FIELD_ID = 1000
"""The first partition field id."""

NO_PARTITION_FIELD_ID = FIRST_PARTITION_FIELD_ID - 1
"""`last-partition-id` of a table that never had a partition field."""


_NO_IDENTITY = frozenset({"variant", "geometry", "geography"})

_NESTED = PrimitiveType("struct")


class PartitionField(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """A field of a partition spec.

    Attributes:
        source_id: the source column; None if `source_ids` names several (format version 3).
        field_id: None only in a spec that a client sends, and in old v1 files.
    """

    name: str
    transform: str
    source_id: Int32 | None = None
    field_id: Int32 | None = None
    source_ids: tuple[Int32, ...] | None = None

    @property
    def sources(self) -> tuple[int, ...]:
        """Ids of all source columns."""
        if self.source_id is not None:
            return (self.source_id,)
        return self.source_ids or ()


class PartitionSpec(msgspec.Struct, frozen=True, rename="kebab"):
    """The partitioning of a table's rows."""

    spec_id: Int32 = 0
    fields: Annotated[tuple[PartitionField, ...], msgspec.Meta(max_length=10_000)] = ()

    @property
    def last_field_id(self) -> int:
        """The highest field id, 999 without fields."""
        return max((field.field_id or 0 for field in self.fields), default=NO_PARTITION_FIELD_ID)

    @property
    def has_sequential_ids(self) -> bool:
        """Whether field ids count from 1000 without gaps, as format version 1 requires."""
        expected = range(FIRST_PARTITION_FIELD_ID, FIRST_PARTITION_FIELD_ID + len(self.fields))
        return all(field.field_id == wanted for field, wanted in zip(self.fields, expected, strict=True))

    def with_single_sources(self) -> PartitionSpec:
        """The spec in the form that is written: each field names its one column in `source-id`.

        Raises:
            IllegalArgumentError: a field has several.
        """
        return PartitionSpec(self.spec_id, tuple(_with_single_source(field) for field in self.fields))

    @property
    def content(self) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
        """A key that is equal for specs with the same fields in the same order, whatever their ids."""
        return tuple((field.name, field.transform, field.sources) for field in self.fields)


def parse_partition_spec(raw: RawJson) -> PartitionSpec:
    """Reads a spec; transforms are normalised.

    Raises:
        IllegalArgumentError: not a spec, or only some fields have ids.
    """
    sent = take_json(raw, "partition spec")
    decode_json(sent, WithFields, "partition spec")
    spec = decode_json(sent, PartitionSpec, "partition spec")
    missing = sum(field.field_id is None for field in spec.fields)
    if missing not in (0, len(spec.fields)):
        raise IllegalArgumentError(
            f"Cannot parse spec with missing field IDs: {missing} missing of {len(spec.fields)} fields."
        )
    return PartitionSpec(spec.spec_id, tuple(_normalize(field) for field in spec.fields))


def _normalize(field: PartitionField) -> PartitionField:
    if field.source_id is None and not field.source_ids:
        raise IllegalArgumentError(f"Cannot parse missing int: source-id of partition field {field.name}")
    return msgspec.structs.replace(field, transform=normalize_transform(field.transform))


def _with_single_source(field: PartitionField) -> PartitionField:
    if field.source_ids is None:
        return field
    source_id = only_source(field.source_id, field.source_ids, f"partition field {field.name}")
    return msgspec.structs.replace(field, source_id=source_id, source_ids=None)


def check_partition_spec(spec: PartitionSpec, schema: Schema) -> None:
    """Refuses a spec that cannot partition rows of a schema.

    Raises:
        IllegalArgumentError: a source column is missing, is not primitive, or is in a list or map; or the
            transform does not accept its type.
    """
    for field in spec.fields:
        # a dropped column of a v1 table leaves a void field without a source
        if field.transform != VOID:
            for source_id in field.sources:
                _check_source(field, source_id, schema)


def check_new_names(spec: PartitionSpec, schema: Schema) -> None:
    """Refuses invalid names in a new spec.

    Raises:
        IllegalArgumentError: a name is empty, used twice, or that of a column, unless the field is the
            identity of that very column.
    """
    check_fields_once(spec)
    for field in spec.fields:
        if field.name in schema.ids_by_name and field.transform not in (IDENTITY, VOID):
            raise IllegalArgumentError(
                f"Cannot create partition from name that exists in schema: {field.name}"
            )
    _check_column_names(spec, schema)


def check_fields_once(spec: PartitionSpec) -> None:
    """Refuses names and ids that readers refuse in every spec.

    Raises:
        IllegalArgumentError: a name is empty; a name or an id is used twice.
    """
    ids = [field.field_id for field in spec.fields if field.field_id is not None]
    if len(set(ids)) != len(ids):
        raise IllegalArgumentError("Cannot use partition field id more than once")
    names: set[str] = set()
    for field in spec.fields:
        if not field.name:
            raise IllegalArgumentError("Cannot use empty partition name")
        if field.name in names:
            raise IllegalArgumentError(f"Cannot use partition name more than once: {field.name}")
        names.add(field.name)


def check_historical_spec(spec: PartitionSpec, schema: Schema) -> None:
    """Refuses a schema with which readers cannot load a former spec.

    Missing columns do not matter. A column must not have a new type that the transform does not accept, as
    when a table is replaced; and no other column may have the name of a field.

    Raises:
        IllegalArgumentError: see above.
    """
    _check_column_names(spec, schema)
    for field in spec.fields:
        for source_id in field.sources:
            source = schema.find_type(source_id)
            if source is not None and not _loads(field.transform, source):
                raise IllegalArgumentError(
                    f"Invalid source type {source} for transform: {field.transform}"
                    f" (partition spec {spec.spec_id} uses the column; remove the spec first)"
                )


def _loads(transform: str, source: Type) -> bool:
    if transform in (IDENTITY, VOID):
        return transform == VOID or not isinstance(source, PrimitiveType) or source.name not in _NO_IDENTITY
    # No transform of values takes nested types; an unknown transform takes all.
    return can_transform(transform, source if isinstance(source, PrimitiveType) else _NESTED)


def _check_column_names(spec: PartitionSpec, schema: Schema) -> None:
    """Refuses a schema with a column that is named like a partition field of another column.

    Readers of the reference implementation cannot load a table with such a pair, be the spec historical or
    not.

    Raises:
        IllegalArgumentError: see above.
    """
    for field in spec.fields:
        column_id = schema.ids_by_name.get(field.name)
        if column_id is None or column_id in field.sources:
            continue
        if any(source_id in schema.fields_by_id for source_id in field.sources):
            raise IllegalArgumentError(
                f"Cannot create identity partition sourced from different field in schema: {field.name}"
            )


def _check_source(field: PartitionField, source_id: int, schema: Schema) -> None:
    source = schema.find_type(source_id)
    if source is None:
        raise IllegalArgumentError(
            f"Cannot find source column for partition field: {field.name} (source id {source_id})"
        )
    if not isinstance(source, PrimitiveType) or not source.is_primitive:
        raise IllegalArgumentError(f"Cannot partition by non-primitive source field: {source}")
    if not can_transform(field.transform, source):
        raise IllegalArgumentError(f"Invalid source type {source} for transform: {field.transform}")
    parent_id = schema.parents.get(source_id)
    while parent_id is not None:
        parent = schema.fields_by_id[parent_id]
        if not isinstance(parent.type, StructType):
            raise IllegalArgumentError(f"Invalid partition field parent: {parent.type}")
        parent_id = schema.parents.get(parent_id)
