"""Whole check of a metadata document that the catalog did not write itself, as when a table is registered."""

from __future__ import annotations

from collections.abc import Collection

from floecat.errors import InvalidMetadataError
from floecat.iceberg.metadata import TableMetadata
from floecat.iceberg.refs import MAIN_BRANCH

__all__ = ["check_integrity"]

_LISTS = ("snapshot_log", "metadata_log", "statistics", "partition_statistics", "encryption_keys")


def check_integrity(metadata: TableMetadata) -> None:
    """Reads every part of a document and checks that the parts agree.

    Raises:
        InvalidMetadataError: a part cannot be read; a current or default id has nothing behind it or an id
            occurs twice; a reference points at no snapshot, or `main` at another than `current-snapshot-id`;
            a snapshot has a sequence number that the table has not reached.
    """
    _check_definitions(metadata)
    _check_snapshots(metadata)
    _check_refs(metadata)
    for part in _LISTS:
        getattr(metadata, part)


def _check_definitions(metadata: TableMetadata) -> None:
    schema_ids = [schema.schema_id for schema in metadata.schemas]
    spec_ids = [spec.spec_id for spec in metadata.partition_specs]
    order_ids = [order.order_id for order in metadata.sort_orders]
    _check_ids("schemas", schema_ids, "current-schema-id", metadata.current_schema_id)
    _check_ids("partition-specs", spec_ids, "default-spec-id", metadata.default_spec_id)
    _check_ids("sort-orders", order_ids, "default-sort-order-id", metadata.default_sort_order_id)


def _check_ids(name: str, ids: Collection[int], current_name: str, current: int) -> None:
    if len(set(ids)) != len(ids):
        raise InvalidMetadataError(f"Invalid table metadata: an id occurs more than once in {name}")
    if current not in ids:
        raise InvalidMetadataError(f"Cannot find {current_name}={current} in {name}")


def _check_snapshots(metadata: TableMetadata) -> None:
    last = metadata.last_sequence_number
    for snapshot in metadata.snapshots:
        if snapshot.sequence_number > last:
            raise InvalidMetadataError(
                f"Invalid snapshot with sequence number {snapshot.sequence_number}"
                f" greater than last sequence number {last}"
            )
    current = metadata.current_snapshot_id
    if current is not None and metadata.snapshot(current) is None:
        raise InvalidMetadataError("Invalid table metadata: Cannot find current version")


def _check_refs(metadata: TableMetadata) -> None:
    for name, ref in metadata.refs.items():
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
