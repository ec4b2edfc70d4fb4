"""Processes that read data files and merge sidecars, so that captures do not hold up the service.

Small work is done here, which is faster than to start a process for it. Leases and the store stay with this
process: it checks now and then whether the work of another one may go on.
"""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias, TypeVar

from floecat.child_process import ChildPool
from floecat.errors import UnavailableError
from floecat.fileio.locations import location_bounds
from floecat.statistics.capture.process_worker import Done, Setup

__all__ = ["CaptureProcesses", "Check", "RunWork"]

T = TypeVar("T")
Check: TypeAlias = Callable[[int], None]
"""Called with the number of files or sidecars that are done; raises to stop the work."""

_MODULE: Final = "floecat.statistics.capture.process_worker"
_NICENESS: Final = 10
_BASE_MEMORY: Final = 1 << 30
"""Of a process: its program, its threads, and sketches of a group."""

_ENVIRONMENT: Final = {"ARROW_DEFAULT_MEMORY_POOL": "system"}
"""The other allocators of Arrow take memory in advance, and a process has a bound."""

_CHECK_S: Final = 0.2


class RunWork(Protocol):
    """Runs work here or in another process; see `CaptureProcesses.run`."""

    def __call__(self, work: Callable[[Check], T], check: Check, *, is_small: bool) -> T:
        """Runs it."""
        ...


class CaptureProcesses:
    """The processes. Thread-safe."""

    def __init__(self, memory_bytes: int) -> None:
        """Starts nothing yet; `memory_bytes` is what a worker may hold of a file at a time."""
        self._memory_bytes = _BASE_MEMORY + 4 * memory_bytes
        self._lock = threading.Lock()
        self._pool: ChildPool | None = None

    def start(self) -> None:
        """Has work done in processes from now on, as it pays where requests are answered meanwhile."""
        with self._lock:
            limits = pickle.dumps(location_bounds.limits)
            setup = Setup(sys.path, _NICENESS, limits, self._memory_bytes)
            self._pool = self._pool or ChildPool(_MODULE, setup, environment=_ENVIRONMENT)

    def close(self) -> None:
        """Ends the processes that do nothing; the others end with their work."""
        with self._lock:
            if self._pool is not None:
                self._pool.close()

    def run(self, work: Callable[[Check], T], check: Check, *, is_small: bool) -> T:
        """Does work that needs storage and no store.

        Args:
            work: a `functools.partial` of a module-level function: it, and what it returns, are pickled.
            check: called now and then.
            is_small: whether it is done here in any case.

        Raises:
            UnavailableError: a process cannot be started, or ended.
            Exception: what `work` or `check` raises.
        """
        if is_small or self._pool is None:
            return work(check)
        packed = pickle.dumps(work)
        for is_retry in (False, True):
            process = self._pool.take()
            begun = False
            try:
                process.connection.send(packed)
                done = 0
                while True:
                    if process.connection.poll(_CHECK_S):
                        message = process.connection.recv()
                        if isinstance(message, Done):
                            break
                        done, begun = message, True
                    check(done)
            except BaseException as error:
                process.end()
                if not isinstance(error, (EOFError, ConnectionError)):
                    raise
                # one that was idle may have ended before it saw the work
                if is_retry or begun:
                    raise UnavailableError("The capture process ended") from None
            else:
                self._pool.give_back(process)
                if message.error is not None:
                    raise message.error
                result: T = message.result
                return result
        raise AssertionError("unreachable")
