"""Reports of captured tables for people: the newest captured snapshot, beside what its manifests say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from floecat.events.table_description import snapshot_totals
from floecat.statistics.capture.reading.snapshot_coverage import coverage_of
from floecat.statistics.capture.reading.tables import CapturedTable, find_table
from floecat.statistics.records import ScalarStatistics, StatisticsRecord
from floecat.store.record_pages import fetch_records
from floecat.store.statistics import captures
from floecat.store.statistics.captures import CaptureRow
from floecat.store.statistics.snapshot_records import TARGETS

if TYPE_CHECKING:
    from floecat.entries.open_entries import EntryParts
    from floecat.planning.plans.task_chunks import ChunkedPlanner

__all__ = ["ColumnReport", "TableReport", "TableReports"]

_COLUMNS = 10_000


class ColumnReport(msgspec.Struct, frozen=True):
    """The statistics of a column; None is unknown."""

    name: str
    type: str
    nulls: int | None
    nans: int | None
    distinct: float | None
    """An estimate, unless there are few."""
    min: str | None
    max: str | None
    avg_width_bytes: int | None


class TableReport(msgspec.Struct, frozen=True, kw_only=True):
    """The newest captured snapshot of a table. Sizes in bytes, times in ms since the epoch."""

    snapshot_id: int
    committed_at_ms: int
    """As the writer of the snapshot says."""
    finalized_at_ms: int
    files: int
    """Live data files when it was captured."""
    captured: int
    """Number of these whose statistics are in."""
    rows: int
    """Rows of these that are not deleted."""
    size_bytes: int
    problem: str | None
    """Reason why the statistics are partial."""
    statistics_file: str | None
    """The Iceberg statistics file of the snapshot, if one was published."""
    columns: Sequence[ColumnReport]
    file_sizes: Sequence[int] | None
    """Sizes of the data files in the manifests; None if these were not read."""
    manifest_rows: int | None
    """Rows of the data files by the manifests, deleted ones included; None if these were not read."""
    summary_rows: int | None
    """The same by the summary of the snapshot; None if it does not say."""
    summary_files: int | None
    """Data files by the summary of the snapshot; None if it does not say."""

    @property
    def version(self) -> str:
        """Names the snapshot and the capture."""
        return _version(self.snapshot_id, self.finalized_at_ms)


class TableReports:
    """Makes reports. Safe to share between threads."""

    def __init__(self, parts: EntryParts, planner: ChunkedPlanner) -> None:
        self._parts = parts
        self._planner = planner

    def version(self, entry_id: UUID) -> str | None:
        """The version of the report that `of` would make; None if no snapshot is captured. Reads no files."""
        with self._parts.store.read() as conn:
            row = captures.newest_finalized(conn, entry_id)
        return None if row is None else _version(row.snapshot_id, row.finalized_at_ms or 0)

    def of(self, entry_id: UUID, *, most_files: int | None = None) -> TableReport | None:
        """The report of a table; None if it was dropped, or no snapshot that it has is captured.

        Args:
            most_files: the manifests of a table with more data files are not read; None for no bound.

        Raises:
            FileMissingError: a manifest is gone.
            InvalidMetadataError: a manifest is damaged.
            UnavailableError: storage or the store fails.
        """
        table = find_table(self._parts, entry_id)
        with self._parts.store.read() as conn:
            row = captures.newest_finalized(conn, entry_id)
        return None if table is None or row is None else self._report(table, row, most_files)

    def history(self, entry_id: UUID, snapshot_ids: Iterable[int]) -> Sequence[TableReport]:
        """Reports of some snapshots of a table but the newest captured one, in their order. Reads no files.

        Raises:
            UnavailableError: the store fails.
        """
        table = find_table(self._parts, entry_id)
        with self._parts.store.read() as conn:
            newest = captures.newest_finalized(conn, entry_id)
            rows = [captures.get(conn, entry_id, snapshot_id) for snapshot_id in snapshot_ids]
        if table is None or newest is None:
            return []
        reports = (
            self._report(table, row, most_files=-1)
            for row in rows
            if row is not None and row.finalized_at_ms is not None and row.snapshot_id != newest.snapshot_id
        )
        found = [report for report in reports if report is not None]
        return sorted(found, key=lambda report: report.committed_at_ms)

    def _report(self, table: CapturedTable, row: CaptureRow, most_files: int | None) -> TableReport | None:
        from floecat.statistics.capture.reading.files_with_deletes import live_files

        coverage, snapshot = coverage_of(row), table.metadata.snapshot(row.snapshot_id)
        if coverage is None or snapshot is None:
            return None
        live, entry_id = None, table.row.id
        if most_files is None or coverage.files <= most_files:
            planner = self._planner.planner()
            live = live_files(planner, table.storage, table.metadata, row.snapshot_id, table.own)
        totals = snapshot_totals(table.metadata, row.snapshot_id)
        of = (entry_id, row.snapshot_id, "column-", "")
        records = fetch_records(
            self._parts.store,
            lambda conn, count: TARGETS.sizes(conn, *of, count),
            lambda conn, count: TARGETS.page(conn, *of, count),
            _COLUMNS,
        ).rows
        found = (msgspec.json.decode(record.body, type=StatisticsRecord).scalar for record in records)
        return TableReport(
            snapshot_id=row.snapshot_id,
            committed_at_ms=snapshot.timestamp_ms,
            finalized_at_ms=row.finalized_at_ms or 0,
            files=coverage.files,
            captured=coverage.captured,
            rows=coverage.rows,
            size_bytes=coverage.size_bytes,
            problem=row.problem,
            statistics_file=row.statistics_file,
            columns=[_column(scalar) for scalar in found if scalar is not None],
            file_sizes=None if live is None else [each.file.size_bytes for each in live],
            manifest_rows=None if live is None else sum(each.file.record_count for each in live),
            summary_rows=totals.records,
            summary_files=totals.data_files,
        )


def _version(snapshot_id: int, finalized_at_ms: int) -> str:
    return f"{snapshot_id}-{finalized_at_ms}"


def _column(scalar: ScalarStatistics) -> ColumnReport:
    ndv = scalar.ndv
    distinct: float | None = None if ndv is None else ndv.exact
    if ndv is not None and ndv.approx is not None:
        distinct = ndv.approx.estimate
    return ColumnReport(
        scalar.display_name,
        scalar.logical_type,
        scalar.null_count,
        scalar.nan_count,
        distinct,
        scalar.min,
        scalar.max,
        scalar.avg_width_bytes,
    )
