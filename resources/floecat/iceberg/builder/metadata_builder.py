"""New table metadata, and table metadata with updates applied.

The rules are those of the table specification and of the REST specification's `TableUpdate`; where they are
silent, those of the reference implementation. Given the time, everything here is deterministic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

import msgspec

from floecat.errors import IllegalArgumentError
from floecat.iceberg.builder.table_builder import AppliedUpdates, TableMetadataBuilder
from floecat.iceberg.metadata.properties import (
    DEFAULT_FORMAT_VERSION,
    check_new_table_properties,
    persisted_properties,
    requested_format_version,
)
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.schemas.partitioning import FIRST_PARTITION_FIELD_ID, PartitionSpec, parse_partition_spec
from floecat.iceberg.schemas.schema import assign_fresh_ids
from floecat.iceberg.schemas.sorting import UNSORTED, SortOrder, parse_sort_order
from floecat.iceberg.updates import TableUpdate, UpgradeFormatVersion
from floecat.iceberg.values.encoded_json import RawJson, is_null

__all__ = ["AppliedUpdates", "apply_updates", "new_table_metadata"]


def apply_updates(
    base: TableMetadata | None,
    updates: Sequence[TableUpdate],
    *,
    now_ms: int,
    base_metadata_location: str | None,
    table_uuid: str | None = None,
) -> AppliedUpdates:
    """Applies updates in order.

    Args:
        base: the newest document; None if the updates create the table.
        updates: what to change.
        now_ms: the time; `last-updated-ms` is never below that of the base.
        base_metadata_location: the file that holds the base, for `metadata-log`.
        table_uuid: UUID of a new table if the updates have none.

    Raises:
        IllegalArgumentError: an update breaks a rule of the specification.
        CommitFailedError: a snapshot was based on older metadata; the client can refresh and retry.
    """
    version = _initial_format_version(updates) if base is None else base.format_version
    builder = TableMetadataBuilder(base, now_ms=now_ms, format_version=version)
    for update in updates:
        builder.apply(update)
    return builder.build(base_metadata_location, table_uuid)


def _initial_format_version(updates: Sequence[TableUpdate]) -> int:
    for update in updates:
        if isinstance(update, UpgradeFormatVersion):
            return update.format_version
    return DEFAULT_FORMAT_VERSION


def new_table_metadata(
    *,
    schema: RawJson,
    partition_spec: RawJson | None,
    sort_order: RawJson | None,
    location: str,
    properties: Mapping[str, str],
    table_uuid: str,
    now_ms: int,
) -> TableMetadata:
    """The first metadata of a table that a client describes.

    All ids are assigned: columns from 1, level by level; schema and spec 0; partition fields from 1000; the
    sort order 1, or 0 if unsorted. The property `format-version` decides the version and is not stored.

    Args:
        schema: the columns.
        partition_spec: refers to the columns by the ids in `schema`; None or null for an unpartitioned table.
        sort_order: refers to the columns in the same way; None or null for an unsorted table.
        location: of the table.
        properties: table properties.
        table_uuid: UUID of the table.

    Raises:
        IllegalArgumentError: a part breaks a rule of the specification, or the format version is not
            supported.
    """
    requested = requested_format_version(properties)
    version = DEFAULT_FORMAT_VERSION if requested is None else requested
    fresh = assign_fresh_ids(schema, count(1).__next__)
    check_new_table_properties(properties, fresh.schema, version)
    builder = TableMetadataBuilder(None, now_ms=now_ms, format_version=version)
    spec = _fresh_spec(partition_spec, fresh.old_to_new)
    builder.define(location, fresh.schema, spec, _fresh_order(sort_order, fresh.old_to_new))
    builder.set_properties(persisted_properties(properties))
    return builder.build(None, table_uuid).metadata


def _fresh_spec(raw: RawJson | None, old_to_new: Mapping[int, int]) -> PartitionSpec:
    if raw is None or is_null(raw):
        return PartitionSpec()
    fields = []
    sent = parse_partition_spec(raw).with_single_sources()
    for field_id, field in enumerate(sent.fields, FIRST_PARTITION_FIELD_ID):
        source_id = _fresh_source(field.sources, old_to_new, f"partition field: {field.name}")
        fields.append(msgspec.structs.replace(field, field_id=field_id, source_id=source_id))
    return PartitionSpec(0, tuple(fields))


def _fresh_order(raw: RawJson | None, old_to_new: Mapping[int, int]) -> SortOrder:
    if raw is None or is_null(raw):
        return UNSORTED
    fields = [
        msgspec.structs.replace(field, source_id=_fresh_source(field.sources, old_to_new, "sort field"))
        for field in parse_sort_order(raw).with_single_sources().fields
    ]
    return SortOrder(0, tuple(fields))


def _fresh_source(sources: tuple[int, ...], old_to_new: Mapping[int, int], what: str) -> int:
    (source_id,) = sources
    if source_id not in old_to_new:
        raise IllegalArgumentError(f"Cannot find source column for {what} (source id {source_id})")
    return old_to_new[source_id]
