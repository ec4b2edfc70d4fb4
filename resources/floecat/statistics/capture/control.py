"""Captures as people and programs control them: as jobs, and capture now, backfill, captured snapshots."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

import msgspec

from floecat.auth.authorizer import Privilege
from floecat.entries.calls import Call, Page
from floecat.entries.names import missing_table
from floecat.errors import ConflictError, NoSuchTableError, UnavailableError
from floecat.identifiers.namespace import TableIdentifier
from floecat.jobs.operations import LONGEST_WAIT_MS, JobOperations, check_wait
from floecat.statistics.capture.capture_jobs import CaptureJobs
from floecat.statistics.capture.descriptions import CaptureInfo
from floecat.statistics.capture.reading.snapshot_coverage import CaptureCoverage, coverage_of
from floecat.statistics.capture.requests import CAPTURE, REQUEST, payload_of
from floecat.statistics.snapshots import Snapshots, TableSnapshot
from floecat.store import page_tokens
from floecat.store.database.engine import Store
from floecat.store.database.errors import ForeignKeyError
from floecat.store.jobs import jobs
from floecat.store.jobs.jobs import JobRow
from floecat.store.record_pages import fetch_records
from floecat.store.statistics import captures
from floecat.store.statistics.captures import CaptureRow

if TYPE_CHECKING:
    from floecat.clock import Clock
    from floecat.jobs.descriptions import JobInfo

__all__ = [
    "DEFAULT_WAIT_MS",
    "CaptureControl",
    "SnapshotCapture",
]

DEFAULT_WAIT_MS: Final = 10_000
_POLL_S: Final = 0.02
_STOP_S: Final = 2.0
_CAPTURES: Final = 10_000


class SnapshotCapture(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The capture of a snapshot. Times in ms since the epoch."""

    snapshot_id: int
    status: str
    """`pending` or `finalized`."""
    generation: int
    job_id: UUID | None
    coverage: CaptureCoverage | None
    problem: str | None
    """Reason why the statistics are partial."""
    statistics_file: str | None
    requested_at_ms: int
    finalized_at_ms: int | None
    published_at_ms: int | None


class CaptureControl(JobOperations[CaptureInfo]):
    """Jobs of captures, and what only these have. Safe to share between threads."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        snapshots: Snapshots,
        work: CaptureJobs,
        operations: JobOperations[JobInfo],
    ) -> None:
        super().__init__(store, clock, operations.known, only=[CAPTURE], noun="Capture")
        self._snapshots = snapshots
        self._work = work

    def capture(
        self,
        call: Call,
        identifier: TableIdentifier,
        snapshot: str | None = None,
        *,
        full: bool = False,
        wait_ms: int = DEFAULT_WAIT_MS,
        watch: Callable[[CaptureInfo], None] | None = None,
    ) -> CaptureInfo:
        """Captures a snapshot now, and waits for it.

        Args:
            snapshot: see `Snapshots.read`.
            full: whether files are read again whose statistics are stored.
            wait_ms: how long to wait, at most a minute. A capture that takes longer is cancelled, unless a
                commit or a backfill asked for it. 0 only asks for it.
            watch: called with the capture now and then while this waits.

        Raises:
            ForbiddenError: the principal may not read the table, or not manage jobs.
            NoSuchTableError: the table does not exist.
            NotFoundError: it has no such snapshot.
            BadRequestError: `wait_ms` is negative or longer than a minute.
            ConflictError: a capture of the snapshot is being cancelled.
            UnavailableError: the capture took longer.
        """
        check_wait(wait_ms)
        call.check((Privilege.MANAGE_JOBS, call.on_catalog()))
        found = self._snapshots.read(call, identifier, snapshot)
        job = self._request(call, identifier, found, full=full)
        if job.state == "cancelling":
            raise ConflictError(
                f"Capture {job.id} of this snapshot is being cancelled: ask again when it has ended"
            )
        if wait_ms:
            self._wait(job, wait_ms, watch)
        with self._store.read() as conn:
            return self.shown(jobs.get(conn, job.id) or job)

    def backfill(self, call: Call, identifier: TableIdentifier) -> Sequence[CaptureInfo]:
        """Asks for captures of snapshots of a table that were never captured, newest first, at most 1,000.

        Raises:
            ForbiddenError: the principal may not read the table, or not manage jobs.
            NoSuchTableError: the table does not exist.
        """
        call.check((Privilege.MANAGE_JOBS, call.on_catalog()))
        entry = self._snapshots.table(call, identifier)
        try:
            rows = self._work.requests.backfill(entry.row.id, call.principal.name)
        except NoSuchTableError:
            raise missing_table(identifier) from None  # dropped meanwhile
        return [self.describe(row) for row in rows]

    def snapshots(self, call: Call, identifier: TableIdentifier) -> Sequence[SnapshotCapture]:
        """The captures of the snapshots of a table, in order of their ids.

        Raises:
            ForbiddenError: the principal may not read the table.
            NoSuchTableError: the table does not exist.
        """
        entry = self._snapshots.table(call, identifier)
        with self._store.read() as conn:
            rows = captures.list_all(conn, entry.row.id, -1, _CAPTURES)
        return [_snapshot(row) for row in rows]

    def snapshot_page(
        self, call: Call, identifier: TableIdentifier, token: str | None, limit: int
    ) -> Page[SnapshotCapture]:
        """A page of `snapshots`, as large as one answer may be.

        Args:
            token: of the page before; None or empty for the first.
            limit: most snapshots.

        Raises:
            ForbiddenError, NoSuchTableError: as `snapshots`.
            BadRequestError: the token is of another listing.
            WorkingMemoryError: others held the memory all the time.
        """
        entry_id = self._snapshots.table(call, identifier).row.id
        scope = f"captured {entry_id}"
        after = page_tokens.decode_as(token, scope, int) if token else -1
        found = fetch_records(
            self._store,
            lambda conn, count: captures.sizes(conn, entry_id, after, count),
            lambda conn, count: captures.list_all(conn, entry_id, after, count),
            limit,
        )
        next_token = page_tokens.encode(str(found.rows[-1].snapshot_id), scope) if found.has_more else None
        return Page([_snapshot(row) for row in found.rows], next_token)

    def _request(
        self, call: Call, identifier: TableIdentifier, found: TableSnapshot, *, full: bool
    ) -> JobRow:
        with self._store.read() as conn:
            named = captures.named(conn, [found.entry_id])
        try:
            for table in named:
                return self._work.requests.request(
                    table, [found.snapshot_id], REQUEST, call.principal.name, full=full
                )[0]
        except ForeignKeyError:
            pass
        raise missing_table(identifier)

    def _wait(self, job: JobRow, wait_ms: int, watch: Callable[[CaptureInfo], None] | None) -> None:
        """Waits for a capture, and works on it here, as no worker may run."""
        over = threading.Event()

        def work() -> None:
            while not over.is_set():
                for queue in (self._work.captures, self._work.groups):
                    queue.drain_once(stopped=over.is_set, subject=job.subject)
                over.wait(_POLL_S)

        worker = threading.Thread(target=work, name=f"capture-{job.title}"[:80], daemon=True)
        worker.start()
        deadline = time.monotonic() + wait_ms / 1000
        row: JobRow | None = job
        try:
            while time.monotonic() < deadline:
                with self._store.read() as conn:
                    row = jobs.get(conn, job.id)
                if row is None or row.finished_at_ms is not None:
                    return
                if watch is not None:
                    watch(self.shown(row))
                time.sleep(_POLL_S)
        finally:
            over.set()
        payload, outcome = payload_of(job), "goes on"
        if payload.reason == REQUEST:
            outcome = "was cancelled: do not wait for it"
            self.cancel_row(job)
            worker.join(_STOP_S)  # if the process ends first, the job is free after its lease only
        raise UnavailableError(
            f"The capture took longer than {wait_ms / 1000:g} s and {outcome}"
            + (f". Its last attempt: {row.last_error}" if row is not None and row.last_error else ""),
            retry_after_s=LONGEST_WAIT_MS // 1000,
        )


def _snapshot(row: CaptureRow) -> SnapshotCapture:
    return SnapshotCapture(
        snapshot_id=row.snapshot_id,
        status=row.status,
        generation=row.generation,
        job_id=row.job_id,
        coverage=coverage_of(row),
        problem=row.problem,
        statistics_file=row.statistics_file,
        requested_at_ms=row.requested_at_ms,
        finalized_at_ms=row.finalized_at_ms,
        published_at_ms=row.published_at_ms,
    )
