"""Requests for scans, and plans: file scan tasks column by column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import msgspec
import pyarrow as pa

from floecat.iceberg.avro.string_columns import Int64s
from floecat.iceberg.file_metrics import ColumnMetrics
from floecat.iceberg.schemas.schema import Schema
from floecat.planning.filters.expressions import TRUE, Expression
from floecat.storage.own_folders import OwnFolders

__all__ = [
    "FILE_FIELDS",
    "ContentFiles",
    "FileTasks",
    "ScanCounters",
    "ScanPlan",
    "ScanRequest",
    "SetSlices",
]


class ScanRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a scan (REST specification, `PlanTableScanRequest`).

    Attributes:
        snapshot_id: of a scan of one snapshot; None for the current one.
        start_snapshot_id: of a scan of appended files: the snapshot before the first one, exclusive.
        end_snapshot_id: of such a scan: the last snapshot, inclusive.
        filter: which rows.
        case_sensitive: how names of columns are compared.
        use_snapshot_schema: whether names are first those of the snapshot's schema, then of the current one.
        select: full names of columns that are read, of any schema; no file is chosen by them.
        stats_fields: full names of columns whose metrics are in the plan.
        min_rows: the plan may end once its files surely hold so many matching rows.
        manifests: first and end of the data manifests that are read, by their place among those that may have
            matching files (`ScanPlan.files_by_manifest`); None for all.
        unlike: a snapshot; data manifests that it has too are not read. With `snapshot_id`.
        own: the entry that is read, whose files must not lie in folders of others; None for a table that is
            none.
    """

    snapshot_id: int | None = None
    start_snapshot_id: int | None = None
    end_snapshot_id: int | None = None
    filter: Expression = TRUE
    case_sensitive: bool = True
    use_snapshot_schema: bool = False
    select: tuple[str, ...] = ()
    stats_fields: tuple[str, ...] = ()
    min_rows: int | None = None
    manifests: tuple[int, int] | None = None
    unlike: int | None = None
    own: OwnFolders | None = None


FILE_FIELDS = (
    "content",
    "file_path",
    "file_format",
    "record_count",
    "file_size_in_bytes",
    "key_metadata",
    "split_offsets",
    "equality_ids",
    "sort_order_id",
    "first_row_id",
    "referenced_data_file",
    "content_offset",
    "content_size_in_bytes",
    "sequence_number",
)
"""Columns of `ContentFiles.table`, named and typed as `read_manifest` gives them; `file_format` as in the
manifest."""


@dataclass(frozen=True, eq=False)
class ContentFiles:
    """Files of one partition spec.

    Attributes:
        spec_id: of all files.
        table: a column for each of `FILE_FIELDS`.
        partitions: partition values: a field for each field of the spec, in its order.
        metrics: of the columns that `stats_fields` names, without those that no file has metrics of.
    """

    spec_id: int
    table: pa.Table
    partitions: pa.StructArray
    metrics: tuple[ColumnMetrics, ...] = ()

    def __len__(self) -> int:
        return len(self.table)

    def slice(self, begin: int, size: int) -> ContentFiles:
        """Some of the files, one after the other."""
        metrics = tuple(each.slice(begin, size) for each in self.metrics)
        return ContentFiles(
            self.spec_id, self.table.slice(begin, size), self.partitions.slice(begin, size), metrics
        )


class SetSlices(NamedTuple):
    """The values of a sorted set between the bounds of each file: the first, and the end."""

    begins: Int64s
    ends: Int64s


@dataclass(frozen=True, eq=False)
class FileTasks:
    """Some file scan tasks, in order.

    Attributes:
        files: their data files.
        deletes: for each file the delete files that apply to it, as positions in `ScanPlan.deletes`: a list
            array of int32. None if no file has any.
        residuals: for each file what is left of the filter, as a position in `ScanPlan.residuals`: int32.
        slices: of large sets in the residuals, by the place of their predicate: other values of the set match
            no row of the file.
    """

    files: ContentFiles
    deletes: pa.ListArray | None
    residuals: pa.Int32Array
    slices: Mapping[str, SetSlices] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.files)


@dataclass
class ScanCounters:
    """The number of manifests and files that planning looked at, and that each stage left.

    Attributes:
        data_manifests: of the snapshot.
        data_manifests_matched: those that the summaries of the manifest list do not rule out.
        delete_manifests: of the snapshot.
        delete_manifests_matched: as above.
        files: live entries of matched data manifests.
        files_by_partition: those that their partition does not rule out.
        files_matched: those that metrics do not rule out either; they are in the plan.
        delete_files: live entries of matched delete manifests that partitions do not rule out.
        rows: of the files in the plan, deleted ones included.
        size_bytes: of the files in the plan.
        manifest_bytes: of matched manifests, as stored.
        manifests_decoded: manifests that were not in memory.
        elapsed_ms: from the begin of planning to its last task.
        first_task_ms: until the first task; None without one.
    """

    data_manifests: int = 0
    data_manifests_matched: int = 0
    delete_manifests: int = 0
    delete_manifests_matched: int = 0
    files: int = 0
    files_by_partition: int = 0
    files_matched: int = 0
    delete_files: int = 0
    rows: int = 0
    size_bytes: int = 0
    manifest_bytes: int = 0
    manifests_decoded: int = 0
    elapsed_ms: float = 0.0
    first_task_ms: float | None = None


class FoundDelete(NamedTuple):
    """A delete file: the files of its spec, and its row there."""

    files: ContentFiles
    row: int


@dataclass(eq=False)
class ScanPlan:
    """A plan that is being made: `tasks` yields while later manifests are still read.

    Attributes:
        snapshot_id: the snapshot that is read, the last one of an incremental scan; None for an empty table.
        schema: names and types of the filter, of `select` and of `stats_fields`.
        batches: yields the tasks. May raise what reading files raises; the plan is incomplete then.
        deletes: delete files that may apply, by partition spec. Complete before the first task.
        residuals: distinct residuals; complete for the tasks that were yielded. Names are those of `schema`,
            values as in the request.
        whole: the filter as a residual of files of which nothing is known.
        counters: complete after the last task.
        files_by_manifest: live files of each data manifest that may have matching ones, as the manifest list
            counts them; None where it does not. Always in the same order.
        has_other_deletes: whether a delete manifest is not among those of `ScanRequest.unlike`.
    """

    snapshot_id: int | None
    schema: Schema
    batches: Iterator[FileTasks]
    deletes: Sequence[ContentFiles] = ()
    residuals: list[Expression] = field(default_factory=list)
    whole: Expression = TRUE
    counters: ScanCounters = field(default_factory=ScanCounters)
    files_by_manifest: Sequence[int | None] = ()
    has_other_deletes: bool = False

    def __iter__(self) -> Iterator[FileTasks]:
        return self.batches

    def delete(self, position: int) -> FoundDelete:
        """The delete file at a position of `FileTasks.deletes`: positions count through `deletes`."""
        for files in self.deletes:
            if position < len(files):
                return FoundDelete(files, position)
            position -= len(files)
        raise IndexError(position)


class Stop(Protocol):
    """Asked between manifests: whether planning is to end early, with `PlanStoppedError`."""

    def __call__(self) -> bool:
        """True to end."""
        ...
