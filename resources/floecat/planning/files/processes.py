"""Processes that make plans, so that heavy ones do not hold the interpreter that answers loads.

A process makes one plan at a time; other plans wait for a free one, and accounts take turns. Decoded
manifests stay in the memory of the process, and a table's plans go to the process that planned it last if
that one is free. Processes that no plan waits for decode manifests for one that finds few in memory.
"""

from __future__ import annotations

import pickle
import socket
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.reduction import send_handle
from typing import Any, Final, TypeVar

from floecat.child_process import ChildProcess
from floecat.errors import PlanStoppedError, UnavailableError
from floecat.fair_queue import FairQueue, current_account
from floecat.iceberg.values.bounds import Bounds
from floecat.planning.files.scans import ScanPlan, Stop
from floecat.planning.files.targets import ScanTarget
from floecat.planning.files.worker import Failed, Job, NeedsHelp, Setup, Share
from floecat.storage.catalog_storage import CatalogStorage

__all__ = ["NICENESS", "PlanProcesses"]

T = TypeVar("T")

_PROGRAM: Final = "floecat.planning.files.worker"
NICENESS: Final = 10
"""Steps by which the priority of processes is below that of the one that starts them."""

_KEEPS_MEMORY: Final = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(64 << 20)}
"""Decoding a manifest takes and frees megabytes, which glibc would return to the system each time."""

_CHECK_S: Final = 0.05
_STOP_S: Final = 5.0
_START_S: Final = 30.0


class _Process(ChildProcess):
    """A process. Used by one thread at a time."""

    def __init__(self, setup: Setup) -> None:
        own, other = socket.socketpair()
        with own, other:
            super().__init__(_PROGRAM, setup, descriptors=[other.fileno()], environment=_KEEPS_MEMORY)
            self._help: Connection[Any, Any] = Connection(own.detach())

    def help(self, other: _Process, share: Share) -> None:
        """Begins to decode manifests for a plan of another process."""
        own_end, other_end = socket.socketpair()
        with own_end, other_end:
            self.connection.send(share)
            send_handle(self.connection, own_end.fileno(), None)
            send_handle(other._help, other_end.fileno(), None)

    def end(self) -> int:
        """See `ChildProcess`."""
        self._help.close()
        return super().end()


class _Waiter:
    """A plan that waits for a process."""

    def __init__(self) -> None:
        self.account: Final[Hashable] = current_account()


class PlanProcesses:
    """The processes. Thread-safe."""

    def __init__(
        self,
        count: int,
        *,
        memory_bytes: int,
        threads: int,
        most_waiting: int,
        bounds: Bounds,
        disk: tuple[str | None, int] | None = None,
    ) -> None:
        """Starts nothing yet: a process starts with the first plan that finds no free one.

        Args:
            count: of processes.
            memory_bytes: of manifests, for all processes together.
            threads: of each process.
            most_waiting: plans that may wait for a process.
            bounds: of manifests.
            disk: folder and bytes of a `DiskCache`.
        """
        self._setup = Setup(
            sys.path, memory_bytes // count, threads, NICENESS, pickle.dumps(bounds), *(disk or (None, 0))
        )
        self._count = count
        self._most_waiting = most_waiting
        self._free: list[_Process] = []
        self._started = 0
        self._waiting: FairQueue[_Waiter] = FairQueue()
        self._last: dict[str, _Process] = {}
        self._changed = threading.Condition()
        self._closed = False

    def run(
        self,
        storage: CatalogStorage,
        target: ScanTarget,
        work: Callable[[ScanPlan], Iterator[T]],
        stop: Stop | None,
    ) -> Iterator[T]:
        """Yields what `work` makes of a plan; see `Planner.run`. Results must be taken without delay."""
        job = Job(pickle.dumps(storage), pickle.dumps(target), pickle.dumps(work))
        table = target.snapshots[0].manifest_list if target.snapshots else None
        folder = (table or "").rpartition("/")[0]
        for is_retry in (False, True):
            process = self._take(folder, stop)
            helpers: list[_Process] = []
            yielded = False
            try:
                for message in _messages(process.connection, job, stop):
                    if helpers and self._waiting:
                        self._dismiss(helpers)
                    if isinstance(message, NeedsHelp):
                        helpers = self._helpers(process, job, message.column_ids)
                    elif message is not None:
                        yielded = True
                        yield message[0]
            except (EOFError, ConnectionError):
                process.end()
                if yielded or is_retry:
                    raise UnavailableError("The planning process ended; try again later") from None
            else:
                return
            finally:
                self._dismiss(helpers)
                self._give_back(process, folder)

    def close(self) -> None:
        """Ends all processes; plans that are being made fail."""
        with self._changed:
            self._closed = True
            free, self._free = self._free, []
            self._changed.notify_all()
        for process in free:
            process.end()

    def _take(self, folder: str, stop: Stop | None) -> _Process:
        with self._changed:
            if len(self._waiting) >= self._most_waiting:
                raise UnavailableError(
                    f"Too many scans are waiting to be planned: {self._most_waiting}"
                    " (floecat.planning.most-waiting); try again later",
                    retry_after_s=5,
                )
            waiter = _Waiter()
            self._waiting.append(waiter)
            try:
                while not self._is_turn_of(waiter):
                    self._changed.wait(_CHECK_S)
                    if stop is not None and stop():
                        raise PlanStoppedError("The plan was stopped")
                if self._closed:
                    raise UnavailableError("The service is stopping")
                self._waiting.popleft()
                return self._chosen(folder)
            finally:
                self._waiting.remove(waiter)  # where it had no turn
                self._changed.notify_all()

    def _is_turn_of(self, waiter: _Waiter) -> bool:
        has_process = bool(self._free) or self._started < self._count
        return self._closed or (has_process and next(iter(self._waiting)) is waiter)

    def _helpers(self, process: _Process, job: Job, column_ids: frozenset[int]) -> list[_Process]:
        """Processes that nobody waits for, each decoding a part of the manifests of a plan."""
        helpers: list[_Process] = []
        with self._changed:
            while not self._waiting and not self._closed and (self._free or self._started < self._count):
                try:
                    helpers.append(self._chosen(""))
                except UnavailableError:
                    break
        for part, helper in enumerate(helpers, 1):
            # one that has ended says so when it is dismissed
            with suppress(OSError):
                helper.help(process, Share(job.storage, job.target, column_ids, part, len(helpers)))
        return helpers

    def _dismiss(self, helpers: list[_Process]) -> None:
        """Frees processes once they have stopped: one that is only starting takes a moment."""
        while helpers:
            threading.Thread(target=self._end_help, args=(helpers.pop(),), daemon=True).start()

    def _end_help(self, helper: _Process) -> None:
        _stop(helper.connection, _START_S)
        self._give_back(helper)

    def _chosen(self, folder: str) -> _Process:
        while self._free:
            last = self._last.get(folder)
            process = last if last in self._free else self._free[0]
            self._free.remove(process)
            if process.is_alive:
                return process
            process.end()
            self._started -= 1
        try:
            started = _Process(self._setup)
        except OSError as error:
            raise UnavailableError(f"A planning process cannot be started: {error.strerror}") from None
        self._started += 1
        return started

    def _give_back(self, process: _Process, folder: str | None = None) -> None:
        with self._changed:
            if self._closed or not process.is_alive or process.connection.closed:
                self._started -= 1
                process.end()
            else:
                self._free.append(process)
                if folder is not None:
                    self._last[folder] = process
                if len(self._last) > 1000:
                    self._last.clear()
            self._changed.notify_all()


def _messages(connection: Connection[Any, Any], job: Job, stop: Stop | None) -> Iterator[Any]:
    """Yields results, each in a tuple, and calls for help; None from time to time while nothing comes."""
    connection.send(job)
    done = False
    try:
        while True:
            while not connection.poll(_CHECK_S):
                if stop is not None and stop():
                    raise PlanStoppedError("The plan was stopped")
                yield None
            message = connection.recv()
            done = not isinstance(message, tuple | NeedsHelp)
            if isinstance(message, Failed):
                raise message.error
            if done:
                return
            yield message
            if stop is not None and stop():
                raise PlanStoppedError("The plan was stopped")
    finally:
        if not done:
            _stop(connection)


def _stop(connection: Connection[Any, Any], within_s: float = _STOP_S) -> None:
    """Ends a job in the middle; closes the connection if that takes too long."""
    try:
        connection.send(None)
        until = time.monotonic() + within_s
        while connection.poll(max(until - time.monotonic(), 0)):
            if not isinstance(connection.recv(), tuple | NeedsHelp):
                return
    except (EOFError, OSError):
        pass
    connection.close()
