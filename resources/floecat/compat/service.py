"""Delta tables kept up to date while they are read: when a load looks, who does the work, and who waits."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from threading import BoundedSemaphore, Lock
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

import uuid_utils.compat as uuids

from floecat.clock import Clock
from floecat.delta.damage import DamagedFiles
from floecat.errors import (
    FileMissingError,
    FloecatError,
    InvalidDeltaTableError,
    LeftToPipelineError,
    UnavailableError,
)
from floecat.fileio.base import FileIO
from floecat.settings import DeltaCompatSettings
from floecat.store import delta_tables, leases, tables
from floecat.store.engine import Store
from floecat.store.held_leases import HeldLease
from floecat.struct_types import prepare_struct_types

if TYPE_CHECKING:
    from floecat.compat.artifacts import ArtifactFiles
    from floecat.compat.compat_table import CompatTable
    from floecat.compat.file_chunks import ChunkRunner
    from floecat.compat.refresher import Progress, Refresher

__all__ = ["DeltaCompat"]

T = TypeVar("T")

_log = logging.getLogger(__name__)

_LEASE_MS = 30_000
_POLL_S = 0.1
_THREADS = 8
_RETRY_AFTER_S = 5
_TOO_LARGE_S = 60.0
"""So long nobody looks again whether a table is too much for a request: the look alone reads its log."""
_LOOK_S = 3600.0
"""So often a process looks whether all files of a table that is loaded are there."""
_PIPELINE_POLL_S = 0.25
_MOST_WAITING = 8
"""Requests that wait for the pipeline at once; the threads of the service are for others too."""
_TELL_S = 60.0
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
        self._checked: dict[UUID, float] = {}
        self._failed: dict[UUID, tuple[float, FloecatError]] = {}
        self._too_large: dict[UUID, tuple[float, str]] = {}
        self._looked: dict[UUID, float] = {}
        self._running: dict[UUID, Future[bool]] = {}
        self._waiting = BoundedSemaphore(_MOST_WAITING)
        self._lock = Lock()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="delta-refresh")
        self._artifacts: ArtifactFiles | None = None
        self._damaged = DamagedFiles()

    def due(self, entry_id: UUID) -> bool:
        """Whether a load has to look for newer versions first."""
        checked = self._checked.get(entry_id)
        return checked is None or time.monotonic() - checked >= self._settings.refresh_after.ms / 1000

    def refresh(self, table: CompatTable) -> bool:
        """Brings a table up to date, and waits for it as long as the settings say.

        Returns:
            Whether its entry changed.

        Raises:
            InvalidDeltaTableError, UnsupportedDeltaTableError: the newest version cannot be read exactly.
            LeftToPipelineError: it is too much work for a request.
            UnavailableError: it takes longer; a later try finds it done.
        """
        started = time.monotonic()
        self._raise_remembered(table, started)
        try:
            if self._refresher().is_current(table):
                self._note_checked(table.row.id, started)
                self._look_at_files(table, started)
                return False
            changed = self._begin(table).result(self._settings.wait.ms / 1000)
        except FutureTimeoutError:
            raise UnavailableError(
                f"{table.identifier} is being brought up to its Delta log; try again",
                retry_after_s=_RETRY_AFTER_S,
            ) from None
        except FloecatError as error:
            raise self._noted(table, error) from None
        self._note_checked(table.row.id, started)
        return changed

    def await_pipeline(self, table: CompatTable) -> bool:
        """Waits until the pipeline has changed the entry of a table, as long as the settings say.

        Returns:
            True.

        Raises:
            LeftToPipelineError: it has not, or too many others wait already.
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
        raise _left_to_pipeline(table)

    def materialise(
        self, table: CompatTable, progress: Progress, *, run_chunks: ChunkRunner | None = None
    ) -> bool:
        """Brings in every version that the log has, whatever it takes; waits for as long.

        Files of snapshots that were lost are made anew.

        Args:
            table: the table.
            progress: told how many of the older versions are done.
            run_chunks: builds the chunks elsewhere; None for threads of this process.

        Returns:
            Whether the entry changed.

        Raises:
            FloecatError: as `refresh`.
        """
        from floecat.compat.publication import StaleTableError
        from floecat.compat.refresher import Backfill

        refresher, work, more = self._refresher(run_chunks), Backfill(), True
        try:
            work.changed = self._repair(refresher, table)
            while more:
                try:
                    more = self._alone(table, lambda: refresher.backfill(table, work, progress), wait_s=None)
                except StaleTableError:
                    # what the part made is there, but in no snapshot
                    work.tried.clear()
                # whoever waits for the table looks this often
                time.sleep(2 * _POLL_S if more else 0)
        except FloecatError as error:
            raise self._noted(table, error) from None
        return work.changed

    def repair(self, table: CompatTable) -> bool:
        """Looks whether the files of all snapshots are in storage, and makes the newest anew if not.

        Returns:
            Whether one was lost. `materialise` brings back the older snapshots.
        """
        return self._repair(self._refresher(), table)

    def close(self) -> None:
        """Ends the threads; work that is going on is finished first."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        if self._artifacts is not None:
            self._artifacts.close()

    def _repair(
        self,
        refresher: Refresher,
        table: CompatTable,
        *,
        in_request: bool = False,
        wait_s: float | None = None,
    ) -> bool:
        from floecat.compat.publication import StaleTableError

        if not refresher.missing_artifacts(table):
            return False
        _log.warning("files of %s were lost, and are made anew", table.identifier)
        try:
            return self._alone(table, lambda: refresher.repair(table, in_request=in_request), wait_s=wait_s)
        except StaleTableError:
            return True

    def _begin(self, table: CompatTable) -> Future[bool]:
        entry_id = table.row.id
        with self._lock:
            running = self._running.get(entry_id)
            if running is None:
                running = self._running[entry_id] = self._threads.submit(self._work, table)
            return running

    def _work(self, table: CompatTable) -> bool:
        from floecat.compat.publication import StaleTableError
        from floecat.compat.version_builder import TooLargeError

        wait_s = self._settings.wait.ms / 1000
        try:
            return self._alone(
                table, lambda: self._refresher().refresh(table, in_request=True), wait_s=wait_s
            )
        except StaleTableError:
            return True
        except TooLargeError:
            self._too_large[table.row.id] = (time.monotonic(), table.row.metadata_location)
            raise _left_to_pipeline(table) from None
        finally:
            with self._lock:
                self._running.pop(table.row.id, None)

    def _is_changed(self, table: CompatTable) -> bool:
        with self._store.read() as conn:
            row = tables.get(conn, table.row.id)
        return row is None or row.metadata_location != table.row.metadata_location

    def _look_at_files(self, table: CompatTable, now: float) -> None:
        """Has a thread see, now and then, whether all files of a table are there; no load waits for it."""
        entry_id = table.row.id
        if now - _bounded(self._looked).setdefault(entry_id, now) >= _LOOK_S:
            self._looked[entry_id] = now
            self._threads.submit(self._repair_behind, table)

    def _repair_behind(self, table: CompatTable) -> None:
        from floecat.compat.version_builder import TooLargeError

        try:
            self._repair(self._refresher(), table, in_request=True, wait_s=0)
        except (FloecatError, TooLargeError) as error:
            _log.warning("files of %s were not made anew: %s", table.identifier, error)

    def _alone(self, table: CompatTable, work: Callable[[], bool], *, wait_s: float | None) -> bool:
        """Does the work while no other process works on the table.

        Raises:
            UnavailableError: another one still does after `wait_s`.
        """
        # of this work alone: two threads of one process exclude each other too
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
                _log.info("%s is worked on by another process; waiting for it", table.identifier)
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

    def _note_checked(self, entry_id: UUID, started: float) -> None:
        self._failed.pop(entry_id, None)
        self._too_large.pop(entry_id, None)
        _bounded(self._checked)[entry_id] = started

    def _raise_remembered(self, table: CompatTable, now: float) -> None:
        """Raises what a refresh of a moment ago met: a broken table that is asked for often costs little."""
        failed_at, problem = self._failed.get(table.row.id, (0.0, None))
        if problem is not None and now - failed_at < self._settings.refresh_after.ms / 1000:
            raise problem.with_traceback(None)
        seen_at, metadata_location = self._too_large.get(table.row.id, (0.0, None))
        if metadata_location == table.row.metadata_location and now - seen_at < _TOO_LARGE_S:
            raise _left_to_pipeline(table)

    def _noted(self, table: CompatTable, problem: FloecatError) -> FloecatError:
        """The problem as callers get it. One that does not go away by itself is noted for the table."""
        if isinstance(problem, FileMissingError):
            # a file that the log names, and not the table
            problem = InvalidDeltaTableError(f"{table.identifier} cannot be read: {problem.message}")
        if isinstance(problem, UnavailableError) and not isinstance(problem, LeftToPipelineError):
            return problem
        if not isinstance(problem, LeftToPipelineError):
            _bounded(self._failed)[table.row.id] = (time.monotonic(), problem)
        message = problem.message
        self._store.run(
            lambda conn: delta_tables.note_problem(conn, table.row.id, message, self._clock.now_ms())
        )
        return problem

    def _refresher(self, run_chunks: ChunkRunner | None = None) -> Refresher:
        from floecat.compat.artifacts import ArtifactFiles
        from floecat.compat.local_chunks import local_chunks
        from floecat.compat.refresher import Refresher

        with self._lock:
            if self._artifacts is None:
                prepare_struct_types()
                self._artifacts = ArtifactFiles(self._files)
            artifacts = self._artifacts

        def runner(table: CompatTable) -> ChunkRunner:
            return run_chunks or local_chunks(self._files, artifacts.of(table.row.id), table.allowed)

        return Refresher(
            self._store, self._files, self._clock, self._settings, artifacts, runner, self._damaged
        )


def _left_to_pipeline(table: CompatTable) -> LeftToPipelineError:
    return LeftToPipelineError(
        f"{table.identifier} needs more files opened than a load may open; the pipeline brings it in",
        retry_after_s=_RETRY_AFTER_S,
    )


def _bounded(remembered: dict[UUID, T]) -> dict[UUID, T]:
    """What is remembered of tables, forgotten when there is too much of it."""
    if len(remembered) >= _MOST_REMEMBERED:
        remembered.clear()
    return remembered
