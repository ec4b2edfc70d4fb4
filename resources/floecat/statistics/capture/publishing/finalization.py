"""The end of a capture: what is stored of all live files becomes the statistics of the snapshot, at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from floecat.errors import UnavailableError
from floecat.jobs.running_job import RunningJob
from floecat.statistics.capture.publishing.expiry import delete_expired
from floecat.statistics.capture.reading import counting
from floecat.statistics.capture.reading.captured_files import SnapshotFiles
from floecat.statistics.capture.reading.expressions import ENGINE_KIND
from floecat.statistics.capture.reading.file_groups import (
    FileProblem,
    WrittenGroup,
    encode_columns,
    nothing_captured,
)
from floecat.statistics.capture.reading.merging import SidecarPart, merge
from floecat.statistics.capture.reading.processes import RunWork
from floecat.statistics.capture.reading.sidecars import FilesSummary, Sidecar, write_sidecar
from floecat.statistics.capture.reading.snapshot_coverage import PROBLEM, CaptureCoverage
from floecat.statistics.capture.reading.tables import CapturedSnapshot, CapturedTable, submit
from floecat.statistics.records import StatisticsRecord
from floecat.statistics.target_statistics import record_row
from floecat.store.database.engine import Connection
from floecat.store.statistics import captures
from floecat.store.statistics import files as file_rows
from floecat.store.statistics.captures import CaptureRow
from floecat.store.statistics.files import FILES_AT_ONCE, SidecarRow
from floecat.store.statistics.snapshot_records import TARGETS

if TYPE_CHECKING:
    from floecat.entries.open_entries import EntryParts
    from floecat.settings import StatisticsSettings

__all__ = ["Finalization", "Found"]

_MANY_SIDECARS: Final = 8
"""Most sidecars of a snapshot whose merged columns are not kept for the next one."""

_NAMED_FILES: Final = 5


class Found(NamedTuple):
    """The files that a capture has read itself, to be submitted as it is finalized."""

    written: WrittenGroup = WrittenGroup()
    submit: Callable[[Connection], bool] = lambda _: False
    problems: Sequence[FileProblem] = ()


class _Changes(NamedTuple):
    """The changes to sidecars as a capture is finalized."""

    kept: Sidecar | None = None
    """New one with the merged columns of the snapshot."""
    needed: Sequence[str] = ()
    """Sidecars that are needed again after a while."""
    unused: Sequence[str] = ()
    """Sidecars that the current snapshot does without."""
    replaced: Sequence[str] = ()
    """Sidecars that nothing needs any more."""


class Finalization:
    """Finalizes captures. Safe to share between threads."""

    def __init__(self, parts: EntryParts, settings: StatisticsSettings, run: RunWork) -> None:
        self._store = parts.store
        self._clock = parts.clock
        self._run = run
        self._retention_ms = settings.sidecar_retention.ms

    def finalize(
        self, job: RunningJob, snapshot: CapturedSnapshot, files: SnapshotFiles, found: Found
    ) -> FilesSummary:
        """Makes the statistics of a snapshot visible, all in one transaction.

        Args:
            job: the capture.
            files: of the snapshot.
            found: what is not in a sidecar yet.

        Returns:
            All files together.

        Raises:
            FloecatError: nothing could be captured, or storage fails.
            LeaseLostError: another worker has the capture.
            JobCancelledError: it was cancelled, or the table dropped.
        """
        fresh = len(found.written.keys)
        captured = files.stored + fresh
        if files.files and not captured:
            raise nothing_captured(found.problems, files.files)
        merged = self.merge(job, snapshot, files, found)
        changes = self._changes(job, snapshot, files, merged, fresh)
        kept = changes.kept
        if kept is None and files.base is not None:
            kept = files.base.sidecar
        read = max(0, captured - job.progress["stored"])
        coverage = CaptureCoverage(files.files, captured, merged.row_count, merged.size_bytes, read, kept)
        problem = job.progress[PROBLEM] = _problem(files.files - captured, found.problems)
        now_ms = self._clock.now_ms()
        records = counting.records(merged, snapshot.schema, now_ms, is_partial=problem is not None)
        table = snapshot.table
        row = CaptureRow(
            snapshot_id=snapshot.id,
            status="finalized",
            job_id=job.row.id,
            columns=encode_columns(snapshot.columns, table.metadata.last_column_id),
            coverage=msgspec.json.encode(coverage).decode(),
            problem=problem,
            requested_at_ms=job.row.created_at_ms,
            finalized_at_ms=now_ms,
        )
        retired = self._publish(job, table, row, records, found, changes)
        self.forget_expired(table)
        job.progress["done"] = captured
        if retired:  # what cannot be deleted goes with the table
            table.storage.delete_many(retired)
        return merged

    def _changes(
        self,
        job: RunningJob,
        snapshot: CapturedSnapshot,
        files: SnapshotFiles,
        merged: FilesSummary,
        fresh: int,
    ) -> _Changes:
        base, used, table = files.base, files.used, snapshot.table
        kept = None
        # beside a base, everything is new to its merged columns
        if len(used) + bool(fresh) > (_MANY_SIDECARS if base is None else 0):
            # not the name of the sidecar of what this capture has read itself
            name = f"{job.row.id}-{job.row.lease_epoch}-merged.stats"
            kept = write_sidecar(table.storage, f"{table.folder}/{name}", merged)
        return _Changes(
            kept,
            needed=[path for path, each in used.items() if each.row.unused_since_ms is not None],
            # beside a base nothing that was needed is left out
            unused=list(self._unused(snapshot, used)) if base is None else (),
            replaced=[base.sidecar.path] if base is not None and kept is not None else (),
        )

    def _unused(self, snapshot: CapturedSnapshot, used: Collection[str]) -> Iterator[str]:
        """Sidecars that the current snapshot does without."""
        table, after = snapshot.table, ""
        while snapshot.id == table.metadata.current_snapshot_id:
            with self._store.read() as conn:
                page = file_rows.needed(conn, table.row.id, after, FILES_AT_ONCE)
            yield from (path for path in page if path not in used)
            if len(page) < FILES_AT_ONCE:
                return
            after = page[-1]

    def forget_expired(self, table: CapturedTable) -> None:
        """Deletes what is known of snapshots that the table has no more."""
        delete_expired(self._store, table.row.id, self._clock.now_ms())

    def _publish(
        self,
        job: RunningJob,
        table: CapturedTable,
        row: CaptureRow,
        records: Sequence[StatisticsRecord],
        found: Found,
        changes: _Changes,
    ) -> list[str]:
        """Publishes, and returns sidecars that no capture needs, or has needed for long."""
        entry_id, now_ms = table.row.id, row.finalized_at_ms or 0
        rows = [record_row(row.snapshot_id, record, now_ms) for record in records]

        def publish(conn: Connection) -> list[str]:
            found.submit(conn)
            if changes.kept is not None:
                file_rows.put(conn, entry_id, _merged_row(changes.kept, row.columns), ())
            file_rows.mark(conn, entry_id, changes.needed, None)
            file_rows.mark(conn, entry_id, changes.unused, now_ms)
            file_rows.forget(conn, entry_id, changes.replaced)
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
            return [
                *changes.replaced,
                *file_rows.retire(conn, entry_id, now_ms - self._retention_ms),
            ]

        return submit(job, table, publish)

    def merge(
        self, job: RunningJob, snapshot: CapturedSnapshot, files: SnapshotFiles, found: Found
    ) -> FilesSummary:
        """Merges all files that are stored or found. Checks meanwhile whether the job may go on.

        Raises:
            FloecatError: a sidecar cannot be read, or storage fails.
        """
        parts = [
            SidecarPart(
                Sidecar(path, used.row.size_bytes),
                None if used.is_whole else bytes(used.hashes),
                used.size_bytes,
            )
            for path, used in files.used.items()
        ]
        others = [each for each in (files.base and files.base.summary, found.written.merged) if each]
        table = snapshot.table
        merged = self._run(
            partial(merge, table.storage, parts, others, snapshot.columns, snapshot.schema),
            lambda _: job.check(),
            is_small=len(parts) <= _MANY_SIDECARS,
        )
        if merged.lost:
            # the next attempt reads their data files again
            self._store.run(partial(file_rows.forget, entry_id=table.row.id, paths=merged.lost))
            raise UnavailableError(
                f"Statistics of data files are lost: {len(merged.lost)} sidecars, as {merged.lost[0]}"
            )
        return merged.summary


def _merged_row(kept: Sidecar, columns: str) -> SidecarRow:
    """The row by which a merged sidecar is retired; no data file is found by it."""
    return SidecarRow(kept.path, kept.path.rpartition("/")[2], columns, files=0, size_bytes=kept.size_bytes)


def _problem(missing: int, problems: Sequence[FileProblem]) -> str | None:
    if not missing:
        return None
    reasons = list(dict.fromkeys(each.reason for each in problems))[:_NAMED_FILES]
    what = "1 data file is" if missing == 1 else f"{missing} data files are"
    return f"{what} missing in the statistics: {'; '.join(reasons) or 'not read'}"
