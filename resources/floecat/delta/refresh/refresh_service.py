"""Refreshes of Delta tables by loads: when a load checks the log, which process does the work, who waits."""

from __future__ import annotations

import logging
import time
from collections import Counter as Counts
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from copy import copy
from dataclasses import dataclass
from threading import BoundedSemaphore, Lock
from uuid import UUID

import uuid_utils.compat as uuids

from floecat.clock import Clock
from floecat.delta import delta_rows as delta_tables
from floecat.delta.artifacts.artifact_files import ArtifactFiles
from floecat.delta.artifacts.chunks import ChunkRunner, local_chunks
from floecat.delta.artifacts.request_bounds import RequestBounds, TooLargeError
from floecat.delta.log.log_files import DamagedFiles
from floecat.delta.refresh.builds import Backfill, Progress
from floecat.delta.refresh.delta_table import DeltaTableEntry
from floecat.delta.refresh.publication import StaleTableError
from floecat.delta.refresh.refresher import Refresher
from floecat.entries.overlaps import own_folders
from floecat.entries.purge_guard import PurgeGuard
from floecat.errors import (
    FileMissingError,
    FloecatError,
    InvalidDeltaTableError,
    LeftToPipelineError,
    UnavailableError,
)
from floecat.fileio.base import FileIO
from floecat.memory_budget import MemoryBudget
from floecat.settings import DeltaCompatSettings
from floecat.settings.limits import LimitSettings
from floecat.storage.own_folders import FolderCheck, ReadCheck
from floecat.store.database.engine import Store
from floecat.store.entries import tables
from floecat.store.entries.tables import EntryRow
from floecat.store.jobs import leases
from floecat.store.jobs.leases import HeldLease
from floecat.working_memory import WorkingMemory

__all__ = ["DeltaRefreshService"]

_log = logging.getLogger(__name__)

_LEASE_MS = 30_000
_POLL_S = 0.1
_THREADS = 8
_RETRY_AFTER_S = 5
_TOO_LARGE_S = 60.0
"""Time that a table counts as too much for a request: finding out reads its log."""
_PIPELINE_POLL_S = 0.25
_MOST_WAITING = 8
"""Requests that wait for the pipeline at once; the other threads of the service stay free."""
_TELL_S = 60.0
_MOST_REMEMBERED = 100_000


@dataclass(frozen=True, slots=True)
class _Look:
    """The result of the last look of this process at a table.

    Attributes:
        at: when, by the monotonic clock.
        metadata_location: of the entry that the load had.
        changed: whether the entry changed since.
        problem: why the table could not be answered, if so.
    """

    at: float
    metadata_location: str
    changed: bool = False
    problem: FloecatError | None = None


class DeltaRefreshService:
    """Refreshes Delta tables, one process at a time for each table.

    A load that finds a table out of date waits for the refresh, for a bounded time. The work goes on in the
    background, and a later load finds it done. Too much work for a request is left to the pipeline.

    Attributes:
        working_memory: for refreshes by loads.
    """

    def __init__(
        self,
        store: Store,
        guard: PurgeGuard,
        clock: Clock,
        settings: DeltaCompatSettings,
        limits: LimitSettings,
        memory: MemoryBudget,
        check_read: FolderCheck,
        outcomes: Counts[str] | None = None,
    ) -> None:
        """Takes what it works with; `outcomes` counts looks by loads: unchanged, changed, left, failed."""
        self._check_read = check_read
        self._outcomes: Counts[str] = Counts() if outcomes is None else outcomes
        self._store = store
        self._guard = guard
        self._clock = clock
        self._settings = settings
        self._bounds = RequestBounds(
            opened_files=settings.max_files_in_request,
            deleted_rows=limits.deleted_rows,
            vector_bytes=limits.deletion_vector_bytes,
            footer_bytes=limits.data_file_footer_bytes,
            all_footer_bytes=limits.footer_bytes_in_request,
            copied_file_bytes=limits.copied_file_bytes,
        )
        self._memory = memory
        # apart from that of other requests, which would wait for as long as storage takes
        self.working_memory = WorkingMemory(
            limits.working_memory_bytes, wait_ms=limits.working_memory_wait_ms
        )
        self._looks: dict[UUID, _Look] = {}
        self._running: dict[UUID, Future[bool]] = {}
        self._waiting = BoundedSemaphore(_MOST_WAITING)
        self._most_waiting_loads = limits.waiting_loads
        self._waiting_loads = BoundedSemaphore(limits.waiting_loads)
        self._lock = Lock()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="delta-refresh")
        self._artifacts: ArtifactFiles | None = None
        # by storage: logs of two stores may have the same location
        self._damaged: defaultdict[FileIO, DamagedFiles] = defaultdict(DamagedFiles)

    def due(self, row: EntryRow) -> bool:
        """Whether a load must call `refresh` before it answers an entry."""
        look = self._looks.get(row.id)
        if look is None or look.problem is not None:
            return True
        # a load that read the entry before it was replaced must not answer it
        is_replaced = look.changed and look.metadata_location == row.metadata_location
        return is_replaced or time.monotonic() - look.at >= self._settings.refresh_after.ms / 1000

    def refresh(self, table: DeltaTableEntry) -> bool:
        """Looks for newer versions and missing artifacts, and waits for the work for a bounded time.

        Loads that come while this process looks at the table wait for that look.

        Returns:
            Whether its entry may have changed since `table.row`.

        Raises:
            InvalidDeltaTableError, UnsupportedDeltaTableError: the newest version cannot be read exactly.
            LeftToPipelineError: it is too much work for a request.
            UnavailableError: it takes longer; a later try will find it done.
        """
        started = time.monotonic()
        self._raise_remembered(table, started)
        with self._lock:
            if not self.due(table.row):
                return True
            running = self._running.get(table.row.id)
            look = running or self._running.setdefault(table.row.id, Future())
        if running is None:
            self._look(table, look, started)
        try:
            changed = self._outcome(table, look)
        except FutureTimeoutError:
            raise UnavailableError(
                f"{table.identifier} is being brought up to its Delta log"
                " (floecat.gateway.delta-compat.wait); try again",
                retry_after_s=_RETRY_AFTER_S,
            ) from None
        except FloecatError as error:
            raise self._noted(table, error) from None
        # the load that started the look may have had another entry
        return changed or running is not None

    def _outcome(self, table: DeltaTableEntry, look: Future[bool]) -> bool:
        if look.done():
            return look.result()
        if not self._waiting_loads.acquire(blocking=False):
            raise UnavailableError(
                f"{table.identifier} is being brought up to its Delta log, and floecat.limits.waiting-loads"
                f" ({self._most_waiting_loads}) wait for such tables; try again",
                retry_after_s=_RETRY_AFTER_S,
            )
        try:
            return look.result(self._settings.wait.ms / 1000)
        finally:
            self._waiting_loads.release()

    def await_pipeline(self, table: DeltaTableEntry, refusal: LeftToPipelineError) -> bool:
        """Waits until the pipeline has changed the entry of a table, for a bounded time.

        Returns:
            True.

        Raises:
            LeftToPipelineError: `refusal`, if it has not, or too many others wait already.
        """
        deadline = time.monotonic() + self._settings.wait.ms / 1000
        if self._waiting.acquire(blocking=False):
            try:
                while time.monotonic() < deadline:
                    time.sleep(_PIPELINE_POLL_S)
                    if self._is_changed(table):
                        return True
            finally:
                self._waiting.release()
        raise refusal.with_traceback(None)

    def materialise(
        self, table: DeltaTableEntry, progress: Progress, *, run_chunks: ChunkRunner | None = None
    ) -> bool:
        """Adds every version of the log, however long it takes.

        Missing artifacts are rebuilt.

        Args:
            progress: called with the number of older versions done, and of all.
            run_chunks: builds the chunks elsewhere; None for threads of this process.

        Returns:
            Whether the entry changed.

        Raises:
            FloecatError: as `refresh`.
        """
        refresher, work, more = self._refresher(table, run_chunks), Backfill(), True
        try:
            while more:
                try:
                    more = self._alone(table, lambda: refresher.backfill(table, work, progress), wait_s=None)
                except StaleTableError:
                    # the artifacts of the part are written, but in no snapshot
                    work.tried.clear()
                # gives loads that wait for the lease a chance to take it
                time.sleep(2 * _POLL_S if more else 0)
        except FloecatError as error:
            raise self._noted(table, error) from None
        return work.changed

    def repair(self, table: DeltaTableEntry) -> bool:
        """Rebuilds artifacts if any are missing, as `materialise` does.

        Returns:
            Whether some were.
        """
        is_missing = self._refresher(table).has_missing_artifacts(table)
        if is_missing:
            self.materialise(table, lambda _done, _all: None)
        return is_missing

    def local_chunks(self, table: DeltaTableEntry) -> ChunkRunner:
        """The runner that builds the chunks of a table on threads of this process."""
        return local_chunks(self._artifact_files(table))

    def close(self) -> None:
        """Ends the threads after their current work."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        if self._artifacts is not None:
            self._artifacts.close()

    def _look(self, table: DeltaTableEntry, look: Future[bool], started: float) -> None:
        """Ends a look here if there is no work, otherwise on a thread that goes on when the load gives up."""
        try:
            entry = self._refresher(table).current_entry(table)
            if entry is None:
                self._threads.submit(self._work, table, look, started)
                return
        except BaseException as error:  # noqa: BLE001 - the loads that wait raise it
            self._end(table, look, started, error)
        else:
            self._end(table, look, started, entry.metadata_location != table.row.metadata_location)

    def _work(self, table: DeltaTableEntry, look: Future[bool], started: float) -> None:
        try:
            with self.working_memory.work():
                changed = self._refreshed(table)
        except BaseException as error:  # noqa: BLE001 - the loads that wait raise it
            self._end(table, look, started, error)
        else:
            self._end(table, look, started, changed)

    def _refreshed(self, table: DeltaTableEntry) -> bool:
        refresher, wait_s = self._refresher(table), self._settings.wait.ms / 1000
        try:
            return self._alone(table, lambda: refresher.refresh(table, in_request=True), wait_s=wait_s)
        except StaleTableError:
            return True
        except TooLargeError as error:
            refresher.leave_to_pipeline(table)
            raise _left_to_pipeline(table, str(error)) from None

    def _end(
        self, table: DeltaTableEntry, look: Future[bool], started: float, outcome: bool | BaseException
    ) -> None:
        with self._lock:
            if isinstance(outcome, bool):
                self._note(table, _Look(started, table.row.metadata_location, outcome))
            self._running.pop(table.row.id, None)
            self._outcomes[_outcome_name(outcome)] += 1
        if isinstance(outcome, bool):
            look.set_result(outcome)
        else:
            look.set_exception(outcome)

    def _is_changed(self, table: DeltaTableEntry) -> bool:
        with self._store.read() as conn:
            row = tables.get(conn, table.row.id)
        return row is None or row.metadata_location != table.row.metadata_location

    def _alone(self, table: DeltaTableEntry, work: Callable[[], bool], *, wait_s: float | None) -> bool:
        """Does the work while no other thread or process works on the table.

        Raises:
            UnavailableError: another one still works on it after `wait_s`.
        """
        # the owner is this work, so that threads of one process exclude each other too
        name, owner = f"delta:{table.row.id}", uuids.uuid7()
        deadline = None if wait_s is None else time.monotonic() + wait_s
        told_at = 0.0
        while True:
            taken_at = time.monotonic()
            if self._acquire(name, owner):
                break
            if deadline is not None and taken_at >= deadline:
                raise UnavailableError(
                    f"{table.identifier} is being brought up to its Delta log by another process",
                    retry_after_s=_RETRY_AFTER_S,
                )
            if wait_s is None and taken_at >= told_at:
                told_at = taken_at + _TELL_S
                _log.info("another process works on %s; waiting for it", table.identifier)
            time.sleep(_POLL_S)
        try:
            with HeldLease(name, lambda: self._renew(name, owner), duration_ms=_LEASE_MS, taken_at=taken_at):
                return work()
        finally:
            self._store.run(lambda conn: leases.release(conn, name, owner))

    def _acquire(self, name: str, owner: UUID) -> bool:
        return self._store.run(
            lambda conn: leases.acquire(conn, name, owner, self._clock.now_ms(), _LEASE_MS)
        )

    def _renew(self, name: str, owner: UUID) -> bool:
        return self._store.run(lambda conn: leases.renew(conn, name, owner, self._clock.now_ms(), _LEASE_MS))

    def _note(self, table: DeltaTableEntry, look: _Look) -> None:
        if len(self._looks) >= _MOST_REMEMBERED:
            self._looks.clear()
        self._looks[table.row.id] = look

    def _raise_remembered(self, table: DeltaTableEntry, now: float) -> None:
        """Raises the problem of a recent look, so that a broken table that is loaded often costs little."""
        look = self._looks.get(table.row.id)
        if look is None or look.problem is None:
            return
        lasts_s = self._settings.refresh_after.ms / 1000
        if isinstance(look.problem, LeftToPipelineError):
            lasts_s = _TOO_LARGE_S if look.metadata_location == table.row.metadata_location else 0
        if now - look.at < lasts_s:
            raise copy(look.problem)

    def _noted(self, table: DeltaTableEntry, problem: FloecatError) -> FloecatError:
        """The problem as callers get it. One that lasts is noted for the table."""
        if isinstance(problem, FileMissingError):
            # a file that the log names is missing, not the table
            problem = InvalidDeltaTableError(f"{table.identifier} cannot be read: {problem.message}")
        if isinstance(problem, UnavailableError) and not isinstance(problem, LeftToPipelineError):
            return problem
        # a copy: an error that was raised keeps what the frames that it passed hold, as the bytes of the log
        self._note(table, _Look(time.monotonic(), table.row.metadata_location, problem=copy(problem)))
        message = problem.message
        self._store.run(
            lambda conn: delta_tables.note_problem(conn, table.row.id, message, self._clock.now_ms())
        )
        return problem

    def _refresher(self, table: DeltaTableEntry, run_chunks: ChunkRunner | None = None) -> Refresher:
        artifacts = self._artifact_files(table)
        return Refresher(
            self._store,
            self._guard,
            self._clock,
            self._settings,
            self._bounds,
            artifacts,
            run_chunks or local_chunks(artifacts),
            self._damaged[table.files],
            ReadCheck(self._check_read, table.storage, own_folders(table.row, {})).files,
        )

    def _artifact_files(self, table: DeltaTableEntry) -> ArtifactFiles:
        of_table = (table.files, table.allowed)
        with self._lock:
            if self._artifacts is None:
                self._artifacts = ArtifactFiles(*of_table, self._memory)
            return self._artifacts.of(*of_table, table.row.id)


def _outcome_name(outcome: bool | BaseException) -> str:
    if isinstance(outcome, bool):
        return "changed" if outcome else "unchanged"
    return "left" if isinstance(outcome, LeftToPipelineError) else "failed"


def _left_to_pipeline(table: DeltaTableEntry, reason: str) -> LeftToPipelineError:
    return LeftToPipelineError(
        f"{table.identifier} is too large to be built by a load: {reason}. It is built by the Dagster asset"
        f" compat/artifacts, or by: floecat table refresh {table.identifier}",
        retry_after_s=_RETRY_AFTER_S,
    )
