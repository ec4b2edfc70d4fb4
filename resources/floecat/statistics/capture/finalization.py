"""The end of a capture: what is stored of all live files becomes the statistics of the snapshot, at once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

import msgspec

from floecat.errors import FileMissingError, FloecatError, InvalidMetadataError, UnavailableError
from floecat.iceberg.schemas.schema import Schema
from floecat.jobs.running import JobCancelledError, RunningJob
from floecat.statistics.capture import counting
from floecat.statistics.capture.coverage import PROBLEM, CaptureCoverage, coverage_of
from floecat.statistics.capture.expressions import ENGINE_KIND
from floecat.statistics.capture.groups import FileProblem, GroupResult, encode_columns, has_columns
from floecat.statistics.capture.live_files import LiveFile, live_files
from floecat.statistics.capture.sidecars import (
    FilesSummary,
    Sidecar,
    read_files,
    read_summary,
    write_sidecar,
)
from floecat.statistics.capture.tables import CapturedTable, discard_files
from floecat.statistics.files.summaries import CountedColumns
from floecat.statistics.records import StatisticsRecord
from floecat.statistics.target_statistics import record_row
from floecat.store import job_claims
from floecat.store.database.engine import Connection
from floecat.store.database.errors import ForeignKeyError
from floecat.store.leases import LeaseLostError
from floecat.store.statistics import captures
from floecat.store.statistics import files as file_rows
from floecat.store.statistics.captures import CaptureRow
from floecat.store.statistics.files import SidecarRow
from floecat.store.statistics.snapshot_records import CONSTRAINTS, TARGETS

if TYPE_CHECKING:
    from floecat.entries.open_entries import EntryParts
    from floecat.planning.plans.task_chunks import ChunkedPlanner
    from floecat.settings import StatisticsSettings

__all__ = ["Finalization", "Found"]

_MANY_SIDECARS: Final = 8
"""With more, the merged columns of a snapshot are kept, so that the next one need not merge them again."""

_NAMED_FILES: Final = 5
_DAY_MS: Final = 86_400_000

_log = logging.getLogger(__name__)


class Found(NamedTuple):
    """What a capture has read itself, to be submitted as it is finalized."""

    result: GroupResult = GroupResult({})
    submit: Callable[[Connection], bool] = lambda _: False
    problems: Sequence[FileProblem] = ()


class _Before(NamedTuple):
    """A captured snapshot whose files are all live in another one."""

    summary: FilesSummary
    sidecar: Sidecar
    files: set[str]


class Finalization:
    """Finalizes captures. Safe to share between threads."""

    def __init__(self, parts: EntryParts, planner: ChunkedPlanner, settings: StatisticsSettings) -> None:
        self._store = parts.store
        self._clock = parts.clock
        self._planner = planner
        self._retention_ms = settings.sidecar_retention.ms

    def known(
        self, table: CapturedTable, columns: CountedColumns, *, only_by: UUID | None
    ) -> dict[str, SidecarRow]:
        """The sidecars of files whose statistics are stored, by file key.

        Args:
            table: the table.
            columns: the wanted ones.
            only_by: only what was submitted for this capture.
        """
        with self._store.read() as conn:
            by_key = file_rows.sidecars_of(conn, table.row.id)
            rows = file_rows.list_sidecars(conn, table.row.id) if by_key else []
        usable = {
            row.path: row
            for row in rows
            if (only_by is None or row.result_id.startswith(str(only_by)))
            and has_columns(row.columns, columns, table.metadata.current_schema)
        }
        return {key: usable[path] for key, path in by_key.items() if path in usable}

    def finalize(
        self,
        job: RunningJob,
        table: CapturedTable,
        snapshot_id: int,
        columns: CountedColumns,
        live: Sequence[LiveFile],
        known: Mapping[str, SidecarRow],
        found: Found,
        *,
        reuse: bool = True,
    ) -> FilesSummary:
        """Makes the statistics of a snapshot visible, all in one transaction.

        Args:
            job: the capture.
            table: its table.
            snapshot_id: its snapshot.
            columns: what is captured.
            live: the data files of the snapshot.
            known: sidecars by file key.
            found: what is not in a sidecar yet.
            reuse: whether the merged columns of the parent snapshot may be used.

        Returns:
            All files together.

        Raises:
            FloecatError: nothing could be captured, or storage fails.
            LeaseLostError: another worker has the capture.
            JobCancelledError: it was cancelled, or the table dropped.
        """
        fresh = found.result.summaries
        keys = [each.key for each in live if each.key in known or each.key in fresh]
        if live and not keys:
            raise FloecatError(found.problems[0].reason if found.problems else "No data file was captured")
        used = {known[key].path: known[key] for key in keys if key in known}
        merged, before = self.merge(table, snapshot_id, columns, live, known, found, reuse=reuse)
        kept = None
        if len(used) + bool(fresh) > _MANY_SIDECARS:
            # not the name of the sidecar of what this capture has read itself
            name = f"{job.row.id}-{job.row.lease_epoch}-merged.stats"
            kept = write_sidecar(table.storage, f"{table.folder}/{name}", merged)
        coverage = CaptureCoverage(
            len(live), len(keys), merged.row_count, merged.size_bytes, len(fresh), kept
        )
        problem = job.progress[PROBLEM] = _problem(len(live) - len(keys), found.problems)
        records = counting.records(
            merged, table.schema_of(snapshot_id), self._clock.now_ms(), is_partial=problem is not None
        )
        now_ms = self._clock.now_ms()
        stale = [path for path, row in used.items() if row.used_at_ms < now_ms - _DAY_MS]
        row = CaptureRow(
            snapshot_id=snapshot_id,
            status="finalized",
            job_id=job.row.id,
            columns=encode_columns(columns, table.metadata.last_column_id),
            coverage=msgspec.json.encode(coverage).decode(),
            problem=problem,
            requested_at_ms=job.row.created_at_ms,
            finalized_at_ms=now_ms,
        )
        replaced = before if kept is not None else None
        retired = self._publish(job, table, row, records, found, stale, kept, replaced)
        job.progress["done"] = len(keys)
        if retired:  # what cannot be deleted goes with the table
            table.storage.delete_many(retired)
        return merged

    def forget_expired(self, table: CapturedTable) -> None:
        """Deletes what was captured of snapshots that the table has no more."""
        self._store.run(lambda conn: _delete_expired(conn, table.row.id))

    def _publish(
        self,
        job: RunningJob,
        table: CapturedTable,
        row: CaptureRow,
        records: Sequence[StatisticsRecord],
        found: Found,
        stale: Sequence[str],
        kept: Sidecar | None,
        replaced: Sidecar | None,
    ) -> list[str]:
        """Publishes, and returns sidecars that no capture needs, or has needed for long."""
        entry_id, now_ms = table.row.id, row.finalized_at_ms or 0
        rows = [record_row(row.snapshot_id, record, now_ms) for record in records]

        def publish(conn: Connection) -> list[str]:
            if not job_claims.is_held(conn, job.lease):
                raise LeaseLostError
            found.submit(conn)
            if kept is not None:
                file_rows.put(conn, entry_id, _merged_row(kept, row.columns, now_ms), ())
            if stale:
                file_rows.touch(conn, entry_id, stale, now_ms)
            if replaced is not None:
                file_rows.touch(conn, entry_id, [replaced.path], 0)
            before = captures.get(conn, entry_id, row.snapshot_id)
            for kind in ("table", "column-", f"expression-{ENGINE_KIND}-"):
                TARGETS.delete_kind(conn, entry_id, row.snapshot_id, kind)
            TARGETS.put(conn, entry_id, rows)
            captures.finalize(
                conn,
                entry_id,
                row
                if before is None
                else msgspec.structs.replace(
                    row,
                    generation=before.generation + 1,
                    requested_at_ms=before.requested_at_ms,
                    statistics_file=before.statistics_file,
                    published_at_ms=before.published_at_ms,
                ),
            )
            _delete_expired(conn, entry_id)
            return file_rows.retire(conn, entry_id, now_ms - self._retention_ms)

        try:
            return self._store.run(publish)
        except ForeignKeyError:
            discard_files(table)
            raise JobCancelledError from None  # the table was dropped

    # -- merging --------------------------------------------------------------------------------------------

    def merge(
        self,
        table: CapturedTable,
        snapshot_id: int,
        columns: CountedColumns,
        live: Sequence[LiveFile],
        known: Mapping[str, SidecarRow],
        found: Found,
        *,
        reuse: bool = True,
    ) -> tuple[FilesSummary, Sidecar | None]:
        """All files that are known or found together, and the merged columns of the parent that are in it.

        Raises:
            FloecatError: a sidecar cannot be read, or storage fails.
        """
        sizes = {each.key: each.file.size_bytes for each in live}
        keys, schema = sizes.keys(), table.schema_of(snapshot_id)
        parts: list[FilesSummary] = []
        wanted = [key for key in keys if key in known]
        used: Sidecar | None = None
        if reuse and len({known[key].path for key in wanted}) > _MANY_SIDECARS:
            before = self._before(table, snapshot_id, columns, keys)
            # files that were read again, as their sidecar was lost, must not count twice
            if before is not None and before.files.isdisjoint(found.result.summaries):
                used = before.sidecar
                parts.append(before.summary)
                wanted = [key for key in wanted if key not in before.files]
        if found.result.summaries:
            parts.append(counting.of_files(found.result.summaries, sizes, schema))
        parts += self._stored(table, wanted, known, sizes, schema)
        return counting.of_parts(parts, columns, schema), used

    def _stored(
        self,
        table: CapturedTable,
        keys: Sequence[str],
        known: Mapping[str, SidecarRow],
        sizes: Mapping[str, int],
        schema: Schema,
    ) -> Iterator[FilesSummary]:
        by_path: dict[str, list[str]] = {}
        for key in keys:
            by_path.setdefault(known[key].path, []).append(key)
        lost: list[str] = []
        for path, of_sidecar in by_path.items():
            row = known[of_sidecar[0]]
            sidecar = Sidecar(path, row.size_bytes)
            try:
                if len(of_sidecar) == row.files:
                    yield read_summary(table.storage, sidecar)
                else:
                    yield counting.of_files(read_files(table.storage, sidecar, of_sidecar), sizes, schema)
            except (FileMissingError, InvalidMetadataError):
                lost.append(path)
        if lost:
            # the next attempt reads their data files again
            self._store.run(partial(file_rows.forget, entry_id=table.row.id, paths=lost))
            raise UnavailableError(f"Statistics of data files are lost: {len(lost)} sidecars, as {lost[0]}")

    def _before(
        self, table: CapturedTable, snapshot_id: int, columns: CountedColumns, keys: Collection[str]
    ) -> _Before | None:
        """The parent snapshot, if all of them are live here and its columns were kept."""
        with self._store.read() as conn:
            row = captures.finalized_below(conn, table.row.id, snapshot_id)
        coverage = None if row is None else coverage_of(row)
        if row is None or coverage is None or coverage.merged is None:
            return None
        if not has_columns(row.columns, columns, table.metadata.current_schema):
            return None
        try:
            planner = self._planner.planner()
            of_parent = live_files(planner, table.storage, table.metadata, row.snapshot_id)
            before = {each.key for each in of_parent}
            if not before <= set(keys):
                return None
            return _Before(read_summary(table.storage, coverage.merged), coverage.merged, before)
        except FloecatError as error:
            _log.info(
                "the capture of snapshot %s does without the one before: %s", snapshot_id, error.message
            )
            return None


def _merged_row(kept: Sidecar, columns: str, now_ms: int) -> SidecarRow:
    """The row by which a merged sidecar is retired; no data file is found by it."""
    return SidecarRow(
        path=kept.path,
        result_id=kept.path.rpartition("/")[2],
        columns=columns,
        files=0,
        size_bytes=kept.size_bytes,
        used_at_ms=now_ms,
    )


def _delete_expired(conn: Connection, entry_id: UUID) -> None:
    for snapshot_id in captures.delete_expired(conn, entry_id):
        # the rows of index artifacts stay: the purge of the table finds their files by them
        for records in (TARGETS, CONSTRAINTS):
            records.delete_kind(conn, entry_id, snapshot_id, "")


def _problem(missing: int, problems: Sequence[FileProblem]) -> str | None:
    if not missing:
        return None
    reasons = list(dict.fromkeys(each.reason for each in problems))[:_NAMED_FILES]
    return f"{missing} data files are missing in the statistics: {'; '.join(reasons) or 'they were not read'}"
