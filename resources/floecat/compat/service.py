"""Delta tables kept up to date while they are read: when a load looks, who does the work, and who waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from threading import Lock
from typing import TYPE_CHECKING
from uuid import UUID

import uuid_utils.compat as uuids

from floecat.clock import Clock
from floecat.errors import (
    FileMissingError,
    FloecatError,
    InvalidDeltaTableError,
    LocationNotAllowedError,
    UnavailableError,
    UnsupportedDeltaTableError,
)
from floecat.fileio.base import FileIO
from floecat.settings import DeltaCompatSettings
from floecat.store import delta_tables, leases
from floecat.store.engine import Store
from floecat.store.held_leases import HeldLease

if TYPE_CHECKING:
    from floecat.compat.artifacts import ArtifactFiles
    from floecat.compat.compat_table import CompatTable
    from floecat.compat.file_chunks import ChunkRunner
    from floecat.compat.refresher import Progress, Refresher

__all__ = ["DeltaCompat"]

_LEASE_MS = 30_000
_POLL_S = 0.1
_THREADS = 8
_RETRY_AFTER_S = 5
_PROBLEMS = (InvalidDeltaTableError, UnsupportedDeltaTableError, FileMissingError, LocationNotAllowedError)
_MOST_REMEMBERED = 100_000


class DeltaCompat:
    """Refreshes Delta tables, one process at a time for each table.

    A load that finds a table out of date waits for the refresh, for a bounded time; the work goes on behind
    it, and the next load finds it done. What is too much work for that is left to the pipeline.
    """

    def __init__(self, store: Store, files: FileIO, clock: Clock, settings: DeltaCompatSettings) -> None:
        """Takes where tables and files are. Nothing heavy is imported before a Delta table is read."""
        self._store = store
        self._files = files
        self._clock = clock
        self._settings = settings
        self._owner = uuids.uuid7()
        self._checked: dict[UUID, float] = {}
        self._failed: dict[UUID, tuple[float, FloecatError]] = {}
        self._running: dict[UUID, Future[bool]] = {}
        self._lock = Lock()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="delta-refresh")
        self._artifacts: ArtifactFiles | None = None

    def due(self, entry_id: UUID) -> bool:
        """Whether a load has to look for newer versions first."""
        checked = self._checked.get(entry_id)
        return checked is None or time.monotonic() - checked >= self._settings.refresh_after.ms / 1000

    def refresh(self, table: CompatTable) -> bool:
        """Brings a table up to date, and waits for it as long as the settings say.

        Returns:
            Whether its entry changed.

        Raises:
            InvalidDeltaTableError, UnsupportedDeltaTableError, FileMissingError: the newest version cannot be
                read exactly.
            UnavailableError: it takes longer; a later try finds it done.
        """
        started = time.monotonic()
        self._raise_remembered(table.row.id, started)
        try:
            if self._refresher().is_current(table):
                self._note_checked(table.row.id, started)
                return False
            future = self._begin(table)
            changed = future.result(self._settings.wait.ms / 1000)
        except FutureTimeoutError:
            raise UnavailableError(
                f"{table.identifier} is being brought up to its Delta log; try again",
                retry_after_s=_RETRY_AFTER_S,
            ) from None
        except _PROBLEMS as problem:
            self._note_problem(table.row.id, problem)
            raise
        self._note_checked(table.row.id, started)
        return changed

    def materialise(
        self, table: CompatTable, progress: Progress, *, run_chunks: ChunkRunner | None = None
    ) -> bool:
        """Brings in every version that the log has, whatever it takes; waits for as long.

        Args:
            table: the table.
            progress: told how many of the older versions are done.
            run_chunks: builds the chunks elsewhere; None for threads of this process.

        Returns:
            Whether the entry changed.

        Raises:
            FloecatError: as `refresh`.
        """
        try:
            refresher = self._refresher(run_chunks)
            changed = self._alone(table, lambda: refresher.backfill(table, progress), wait_s=None)
        except _PROBLEMS as problem:
            self._note_problem(table.row.id, problem)
            raise
        return changed

    def repair(self, table: CompatTable) -> bool:
        """Looks whether the files of the newest snapshot are all in storage, and makes them anew if not."""
        refresher = self._refresher()
        if not refresher.missing_artifacts(table):
            return False
        return self._alone(table, lambda: refresher.repair(table), wait_s=None)

    def close(self) -> None:
        """Ends the threads; work that is going on is finished first."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        if self._artifacts is not None:
            self._artifacts.close()

    def _begin(self, table: CompatTable) -> Future[bool]:
        entry_id = table.row.id
        with self._lock:
            running = self._running.get(entry_id)
            if running is None:
                running = self._running[entry_id] = self._threads.submit(self._work, table)
            return running

    def _work(self, table: CompatTable) -> bool:
        from floecat.compat.version_builder import TooLargeError

        wait_s = self._settings.wait.ms / 1000
        try:
            return self._alone(
                table, lambda: self._refresher().refresh(table, in_request=True), wait_s=wait_s
            )
        except TooLargeError:
            message = f"{table.identifier} has too many new files for a load; the pipeline brings them in"
            self._store.run(
                lambda conn: delta_tables.note_problem(conn, table.row.id, message, self._clock.now_ms())
            )
            raise UnavailableError(message, retry_after_s=_RETRY_AFTER_S) from None
        finally:
            with self._lock:
                self._running.pop(table.row.id, None)

    def _alone(self, table: CompatTable, work: Callable[[], bool], *, wait_s: float | None) -> bool:
        """Does the work while no other process works on the table.

        Raises:
            UnavailableError: another one still does after `wait_s`.
        """
        from floecat.compat.publication import StaleTableError

        name = f"delta:{table.row.id}"
        deadline = None if wait_s is None else time.monotonic() + wait_s
        while True:
            taken_at = time.monotonic()
            if self._acquire(name):
                break
            if deadline is not None and taken_at >= deadline:
                raise UnavailableError(
                    f"{table.identifier} is being brought up to its Delta log by another process",
                    retry_after_s=_RETRY_AFTER_S,
                )
            time.sleep(_POLL_S)
        try:
            with HeldLease(name, lambda: self._renew(name), duration_ms=_LEASE_MS, taken_at=taken_at):
                return work()
        except StaleTableError:
            return True
        finally:
            self._store.run(lambda conn: leases.release(conn, name, self._owner))

    def _acquire(self, name: str) -> bool:
        return self._store.run(
            lambda conn: leases.acquire(conn, name, self._owner, self._clock.now_ms(), _LEASE_MS)
        )

    def _renew(self, name: str) -> bool:
        return self._store.run(
            lambda conn: leases.renew(conn, name, self._owner, self._clock.now_ms(), _LEASE_MS)
        )

    def _note_checked(self, entry_id: UUID, started: float) -> None:
        self._failed.pop(entry_id, None)
        if len(self._checked) >= _MOST_REMEMBERED:
            self._checked.clear()
        self._checked[entry_id] = started

    def _raise_remembered(self, entry_id: UUID, now: float) -> None:
        """Raises what a refresh of a moment ago met: a broken table that is asked for often costs little."""
        failed_at, problem = self._failed.get(entry_id, (0.0, None))
        if problem is not None and now - failed_at < self._settings.refresh_after.ms / 1000:
            raise problem.with_traceback(None)

    def _note_problem(self, entry_id: UUID, problem: FloecatError) -> None:
        if len(self._failed) >= _MOST_REMEMBERED:
            self._failed.clear()
        self._failed[entry_id] = (time.monotonic(), problem)
        self._store.run(
            lambda conn: delta_tables.note_problem(conn, entry_id, problem.message, self._clock.now_ms())
        )

    def _refresher(self, run_chunks: ChunkRunner | None = None) -> Refresher:
        from floecat.compat.artifacts import ArtifactFiles
        from floecat.compat.local_chunks import local_chunks
        from floecat.compat.refresher import Refresher

        with self._lock:
            if self._artifacts is None:
                self._artifacts = ArtifactFiles(self._files)
            artifacts = self._artifacts

        def runner(table: CompatTable) -> ChunkRunner:
            return run_chunks or local_chunks(self._files, artifacts, table.allowed)

        return Refresher(self._store, self._files, self._clock, self._settings, artifacts, runner)
