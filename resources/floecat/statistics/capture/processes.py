"""Processes that read data files and merge sidecars, with bounds on memory and processor time.

So captures do not hold up the service, and no data file ends a process that does other work. Small work is
done here, which is faster than to start a process for it. Leases and the store stay with this process: it
checks now and then whether the work of another one may go on.
"""

from __future__ import annotations

import pickle
import signal
import sys
import threading
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias, TypeVar

from floecat.child_process import ChildPool
from floecat.errors import UnavailableError
from floecat.iceberg.values.bounds import process_bounds
from floecat.statistics.capture.process_worker import Done, Setup

__all__ = ["CaptureProcesses", "Check", "ProcessEndedError", "RunWork"]

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


_TIME_OVER: Final = "it takes more processor time than a file may (floecat.statistics.file-processor-time)"


_OF_THE_WORK: Final = frozenset(
    {signal.SIGXCPU, signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}
)
"""Signals by which work ends its process. Others come from outside."""


class ProcessEndedError(UnavailableError):
    """The work ended its process: what it reads makes a library fail, or takes too much processor time.

    Attributes:
        done: the number that the work reported last.
        reason: why the process ended.
    """

    def __init__(self, done: int, signal_number: int) -> None:
        super().__init__("The capture process ended")
        self.done = done
        name = signal.Signals(signal_number).name
        is_over = signal_number == signal.SIGXCPU
        self.reason = _TIME_OVER if is_over else f"reading it ended the process by {name}"


class RunWork(Protocol):
    """Runs work here or in another process; see `CaptureProcesses.run`."""

    def __call__(self, work: Callable[[Check], T], check: Check, *, is_small: bool) -> T:
        """Runs it."""
        ...


class CaptureProcesses:
    """The processes. Thread-safe."""

    def __init__(self, memory_bytes: int, processor_ms: int) -> None:
        """Starts nothing yet.

        Args:
            memory_bytes: what a worker may hold of a file at a time.
            processor_ms: processor time of a file, or whatever else the work reports one after the other;
                counted in whole seconds.
        """
        self._memory_bytes = _BASE_MEMORY + 4 * memory_bytes
        self._processor_s = -(-processor_ms // 1000)
        self._lock = threading.Lock()
        self._pool: ChildPool | None = None

    def close(self) -> None:
        """Ends the processes that do nothing; the others end with their work."""
        with self._lock:
            if self._pool is not None:
                self._pool.close()

    def _open_pool(self) -> ChildPool:
        with self._lock:
            if self._pool is None:
                limits = pickle.dumps(process_bounds.limits)
                setup = Setup(sys.path, _NICENESS, limits, self._memory_bytes, self._processor_s)
                self._pool = ChildPool(_MODULE, setup, environment=_ENVIRONMENT)
            return self._pool

    def run(self, work: Callable[[Check], T], check: Check, *, is_small: bool) -> T:
        """Does work that needs storage and no store.

        Args:
            work: a `functools.partial` of a module-level function: it, and what it returns, are pickled.
            check: called now and then.
            is_small: whether it is done here in any case.

        Raises:
            ProcessEndedError: the work ended its process.
            UnavailableError: a process cannot be started, or was ended from outside.
            Exception: what `work` or `check` raises.
        """
        if is_small:
            return work(check)
        packed, pool = pickle.dumps(work), self._open_pool()
        for is_retry in (False, True):
            process = pool.take()
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
                signal_number = -process.end()
                if not isinstance(error, (EOFError, ConnectionError)):
                    raise
                if begun and signal_number in _OF_THE_WORK:
                    raise ProcessEndedError(done, signal_number) from None
                # one that was idle may have ended before it saw the work
                if is_retry or begun:
                    raise UnavailableError("The capture process ended") from None
            else:
                pool.give_back(process)
                if message.error is not None:
                    raise message.error
                result: T = message.result
                return result
        raise AssertionError("unreachable")
