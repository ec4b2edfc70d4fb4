"""The part of a table that a request reads: its snapshots, schema, specs and bound filter. Can be pickled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from floecat.errors import BadRequestError, InvalidMetadataError, UnsupportedOperationError
from floecat.iceberg.manifests.lists import ManifestFile
from floecat.iceberg.metadata.snapshots import SnapshotSummary
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.schemas.partitioning import PartitionField
from floecat.iceberg.schemas.schema import Schema
from floecat.iceberg.schemas.types import PrimitiveType
from floecat.planning.files.manifest_files import SpecTypes
from floecat.planning.files.scans import ScanRequest
from floecat.planning.filters.binding import Columns, bind
from floecat.planning.filters.bound import Bound
from floecat.planning.filters.transforms import result_type
from floecat.storage.own_folders import OwnFolders

__all__ = ["ScanTarget", "resolve", "spec_types"]

_APPEND: Final = "append"
_LAST_UPDATED: Final = "_last_updated_sequence_number"


@dataclass(frozen=True, eq=False)
class ScanTarget:
    """A request, resolved.

    Attributes:
        table_uuid: of the table.
        snapshots: the one that is read, or those whose added files are read, newest first; none of an empty
            table.
        is_incremental: whether only files that these snapshots added are read.
        schema: of the names in the request.
        specs: by id.
        filter: the bound filter.
        stats_ids: columns whose metrics are in the plan.
        min_rows: as of the request.
        manifests: as of the request.
        unlike: the snapshot whose data manifests are not read.
        snapshot_id: the snapshot that is read, the last one of an incremental scan; None for an empty table.
        own: as of the request.
    """

    table_uuid: str
    snapshots: tuple[SnapshotSummary, ...]
    is_incremental: bool
    schema: Schema
    specs: Mapping[int, SpecTypes]
    filter: Bound
    stats_ids: frozenset[int]
    min_rows: int | None = None
    manifests: tuple[int, int] | None = None
    unlike: SnapshotSummary | None = None
    snapshot_id: int | None = None
    own: OwnFolders | None = None

    @property
    def named_files(self) -> list[str]:
        """The files that the metadata of the table names for the snapshots: lists, or manifests."""
        snapshots = self.snapshots if self.unlike is None else (*self.snapshots, self.unlike)
        return [
            path
            for each in snapshots
            for path in ([each.manifest_list] if each.manifest_list else each.manifests or ())
        ]

    @cached_property
    def _snapshot_ids(self) -> frozenset[int]:
        return frozenset(each.snapshot_id for each in self.snapshots)

    def may_read(self, manifest: ManifestFile) -> bool:
        """Whether a manifest of the snapshots may have files that are read."""
        added_by = manifest.added_snapshot_id
        return not self.is_incremental or added_by is None or added_by in self._snapshot_ids


def resolve(metadata: TableMetadata, request: ScanRequest) -> ScanTarget:
    """Resolves a request.

    Raises:
        BadRequestError: no such snapshot, both kinds of range, an unknown column, a negative number of rows,
            or a filter that cannot be bound.
        UnsupportedOperationError: it selects what plans cannot say of the rows.
    """
    _check_lineage(metadata, request)
    is_incremental = request.start_snapshot_id is not None or request.end_snapshot_id is not None
    snapshots = _appended(metadata, request) if is_incremental else _current(metadata, request)
    last = request.end_snapshot_id if is_incremental else (snapshots[0].snapshot_id if snapshots else None)
    schema = metadata.current_schema
    if request.use_snapshot_schema and last is not None:
        schema = _schema_of(metadata, last)
    if request.min_rows is not None and request.min_rows < 0:
        raise BadRequestError("Invalid min-rows-requested: must not be negative")
    # engines that want the snapshot's schema also name columns that the table has got since
    schemas = (schema,) if schema is metadata.current_schema else (schema, metadata.current_schema)
    named, *others = (Columns(each, case_sensitive=request.case_sensitive) for each in schemas)
    return ScanTarget(
        table_uuid=metadata.table_uuid,
        snapshots=snapshots,
        is_incremental=is_incremental,
        schema=schema,
        specs=spec_types(metadata),
        filter=bind(request.filter, named, *others),
        stats_ids=frozenset(named.find(name, "stats-fields", *others) for name in request.stats_fields),
        min_rows=request.min_rows,
        manifests=request.manifests,
        unlike=None if request.unlike is None else _snapshot(metadata, request.unlike),
        snapshot_id=last,
        own=request.own,
    )


def _check_lineage(metadata: TableMetadata, request: ScanRequest) -> None:
    """Refuses a column that the reader would fill with nulls, and that a writer would lose for good."""
    if metadata.has_row_lineage and _LAST_UPDATED in request.select:
        raise UnsupportedOperationError(
            f"A plan cannot tell {_LAST_UPDATED}: its files have no sequence numbers."
            " Set scan-planning-mode to client for tables of format version 3"
        )


def _current(metadata: TableMetadata, request: ScanRequest) -> tuple[SnapshotSummary, ...]:
    snapshot_id = request.snapshot_id
    if snapshot_id is None:
        snapshot_id = metadata.current_snapshot_id
    return () if snapshot_id is None else (_snapshot(metadata, snapshot_id),)


def _snapshot(metadata: TableMetadata, snapshot_id: int) -> SnapshotSummary:
    found = metadata.snapshot(snapshot_id)
    if found is None:
        raise BadRequestError(f"Cannot find snapshot with id {snapshot_id}")
    return found


def _appended(metadata: TableMetadata, request: ScanRequest) -> tuple[SnapshotSummary, ...]:
    start, end = request.start_snapshot_id, request.end_snapshot_id
    if request.snapshot_id is not None:
        raise BadRequestError("Cannot use snapshot-id together with start-snapshot-id or end-snapshot-id")
    if start is None or end is None:
        raise BadRequestError("Cannot use one of start-snapshot-id and end-snapshot-id without the other")
    if start == end:
        raise BadRequestError("Cannot use the same snapshot as start-snapshot-id and end-snapshot-id")
    found = []
    current: SnapshotSummary | None = _snapshot(metadata, end)
    seen: set[int] = set()
    while current is not None and current.snapshot_id not in seen:
        seen.add(current.snapshot_id)
        found.append(current)
        if current.parent_snapshot_id == start:
            return tuple(each for each in found if each.operation == _APPEND)
        parent = current.parent_snapshot_id
        current = None if parent is None else metadata.snapshot(parent)
    raise BadRequestError(
        f"Cannot plan: start-snapshot-id {start} is not an ancestor of end-snapshot-id {end}"
    )


def _schema_of(metadata: TableMetadata, snapshot_id: int) -> Schema:
    schema_id = _snapshot(metadata, snapshot_id).schema_id
    if schema_id is None:
        return metadata.current_schema
    for schema in metadata.schemas:
        if schema.schema_id == schema_id:
            return schema
    raise InvalidMetadataError(f"Cannot find schema {schema_id} of snapshot {snapshot_id}")


def spec_types(metadata: TableMetadata) -> dict[int, SpecTypes]:
    """The partition specs of a table by id, with the types of their fields."""
    # a dropped source column is found in an older schema
    schemas = (metadata.current_schema, *reversed(metadata.schemas))

    def type_of(field: PartitionField) -> PrimitiveType | None:
        if field.source_id is None:
            return None
        found = next(
            (type for each in schemas if (type := each.find_type(field.source_id)) is not None), None
        )
        return result_type(field.transform, found if isinstance(found, PrimitiveType) else None)

    return {
        spec.spec_id: SpecTypes(spec, tuple(type_of(field) for field in spec.fields))
        for spec in metadata.partition_specs
    }
