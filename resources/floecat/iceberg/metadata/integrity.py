"""Whole check of a metadata document that the catalog did not write itself, as when a table is registered."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from uuid import UUID

from floecat.errors import IllegalArgumentError, InvalidMetadataError
from floecat.iceberg.metadata.assigned_ids import HIGHEST_COLUMN_ID, counters
from floecat.iceberg.metadata.metadata_logs import CLOCK_SKEW_MS, MetadataLogEntry, SnapshotLogEntry
from floecat.iceberg.metadata.readability import check_readable
from floecat.iceberg.metadata.refs import MAIN_BRANCH, check_ref
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.schemas.new_columns import check_new_columns
from floecat.iceberg.schemas.partitioning import (
    check_fields_once,
    check_historical_spec,
    check_partition_spec,
)
from floecat.iceberg.schemas.sorting import check_sort_order
from floecat.iceberg.values.json_arrays import fragment_bytes
from floecat.iceberg.values.json_values import decode_json, encode_json

__all__ = ["check_integrity"]

_LISTS = ("snapshot_log", "metadata_log", "statistics", "partition_statistics", "encryption_keys")


def check_integrity(metadata: TableMetadata) -> None:
    """Reads every part of a document and checks that the parts agree.

    Raises:
        InvalidMetadataError: a part cannot be read, by the catalog or by clients; a current or default id has
            nothing behind it or an id occurs twice; a spec or order does not fit the current schema; a
            reference breaks the rules for its type or points at no snapshot, or `main` at another than
            `current-snapshot-id`; a number that new ids are taken from is below one in use; a log goes back
            in time.
    """
    for part in _LISTS:
        getattr(metadata, part)
    _check_uuid(metadata)
    _check_definitions(metadata)
    _check_snapshots(metadata)
    _check_refs(metadata)
    _check_keys(metadata)
    _check_counters(metadata)
    _check_log("snapshot-log", metadata.snapshot_log, metadata.last_updated_ms)
    _check_log("metadata-log", metadata.metadata_log, metadata.last_updated_ms)
    try:
        _check_fit(metadata)
        check_readable(metadata)
    except IllegalArgumentError as error:
        raise InvalidMetadataError(f"Invalid table metadata: {error.message}") from None


def _check_uuid(metadata: TableMetadata) -> None:
    # an empty one counts as missing where the document is read
    written = metadata.fields.get("table-uuid", (encode_json(metadata.table_uuid),))
    try:
        UUID(decode_json(fragment_bytes(written), str, "table-uuid"))
    except ValueError:
        raise InvalidMetadataError("Invalid table metadata: table-uuid is not a UUID") from None


def _check_definitions(metadata: TableMetadata) -> None:
    schema_ids = [schema.schema_id for schema in metadata.schemas]
    spec_ids = [spec.spec_id for spec in metadata.partition_specs]
    order_ids = [order.order_id for order in metadata.sort_orders]
    _check_ids("schemas", schema_ids, "current-schema-id", metadata.current_schema_id)
    _check_ids("partition-specs", spec_ids, "default-spec-id", metadata.default_spec_id)
    _check_ids("sort-orders", order_ids, "default-sort-order-id", metadata.default_sort_order_id)


def _check_fit(metadata: TableMetadata) -> None:
    current = metadata.current_schema
    for schema in metadata.schemas:
        schema.check_format_version(metadata.format_version)
        check_new_columns(schema, None)
        if schema.highest_field_id > HIGHEST_COLUMN_ID:
            raise IllegalArgumentError(
                f"field id {schema.highest_field_id} of schema {schema.schema_id} is reserved"
                f" (ids of columns end at {HIGHEST_COLUMN_ID})"
            )
    for spec in metadata.partition_specs:
        check_fields_once(spec)
        check_historical_spec(spec, current)
        if spec.spec_id == metadata.default_spec_id:
            check_partition_spec(spec, current)
    for order in metadata.sort_orders:
        if order.is_unsorted != (order.order_id == 0):
            raise IllegalArgumentError("Sort order ID 0 is reserved for unsorted order, which must have it")
        if order.order_id == metadata.default_sort_order_id:
            check_sort_order(order, current)


def _check_ids(name: str, ids: Collection[int], current_name: str, current: int) -> None:
    if len(set(ids)) != len(ids):
        raise InvalidMetadataError(f"Invalid table metadata: an id occurs more than once in {name}")
    if current not in ids:
        raise InvalidMetadataError(f"Cannot find {current_name}={current} in {name}")


def _check_snapshots(metadata: TableMetadata) -> None:
    for snapshot in metadata.snapshots:
        if metadata.format_version == 1 and snapshot.sequence_number != 0:
            raise InvalidMetadataError(
                f"Invalid snapshot {snapshot.snapshot_id}: its sequence number must be 0 in v1"
            )
    current = metadata.current_snapshot_id
    if current is not None and metadata.snapshot(current) is None:
        raise InvalidMetadataError("Invalid table metadata: Cannot find current version")


def _check_counters(metadata: TableMetadata) -> None:
    for name, value, in_use in counters(metadata):
        if value < in_use:
            raise InvalidMetadataError(
                f"Invalid table metadata: {name} is {value}, and {in_use} is in use already"
            )


def _check_keys(metadata: TableMetadata) -> None:
    key_ids = [key.key_id for key in metadata.encryption_keys]
    if len(set(key_ids)) != len(key_ids):
        raise InvalidMetadataError("Invalid table metadata: an id occurs more than once in encryption-keys")


def _check_log(
    name: str, log: Sequence[SnapshotLogEntry] | Sequence[MetadataLogEntry], last_updated_ms: int
) -> None:
    times = [entry.timestamp_ms for entry in log]
    if any(later - earlier < -CLOCK_SKEW_MS for earlier, later in pairwise(times)):
        raise InvalidMetadataError(f"Invalid table metadata: {name} is not sorted by time")
    if times and last_updated_ms - times[-1] < -CLOCK_SKEW_MS:
        raise InvalidMetadataError(
            f"Invalid update timestamp {last_updated_ms}: before last {name} entry at {times[-1]}"
        )


def _check_refs(metadata: TableMetadata) -> None:
    for name, ref in metadata.refs.items():
        try:
            check_ref(name, ref)
        except IllegalArgumentError as error:
            raise InvalidMetadataError(f"Invalid table metadata: {error.message}") from None
        if metadata.snapshot(ref.snapshot_id) is None:
            raise InvalidMetadataError(
                f"Snapshot for reference {name} does not exist in the existing snapshots list"
            )
    main = metadata.refs.get(MAIN_BRANCH)
    if main is None:
        return
    if metadata.current_snapshot_id is None:
        raise InvalidMetadataError("Current snapshot is not set, but main branch exists")
    if main.snapshot_id != metadata.current_snapshot_id:
        raise InvalidMetadataError(
            f"Current snapshot ID does not match main branch"
            f" ({metadata.current_snapshot_id} != {main.snapshot_id})"
        )
