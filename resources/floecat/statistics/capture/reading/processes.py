"""Processes that read data files and merge sidecars, with bounds on memory and processor time.

So captures do not hold up the service, and no data file ends a process that does other work. Small work is
done here, which is faster than to start a process for it. Leases and the store stay with this process: it
checks now and then whether the work of another one may go on.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from floecat.child_process import ChildPool, PoolSetup, ProcessEndedError
from floecat.errors import UnavailableError
from floecat.iceberg.values.bounds import Bounds, process_bounds
from floecat.struct_types import prepare_struct_types

__all__ = ["CaptureProcesses", "Check", "FileEndedProcessError", "RunWork"]

T = TypeVar("T")
Check: TypeAlias = Callable[[int], None]
"""Function that is called with the number of files or sidecars that are done; raises to stop the work."""

_BASE_MEMORY: Final = 1 << 30
"""Memory of a process: its program, its threads, and sketches of a group."""

_ENVIRONMENT: Final = {"ARROW_DEFAULT_MEMORY_POOL": "system"}
"""The other allocators of Arrow take memory in advance, and a process has a bound."""

_CHECK_S: Final = 0.2
_STOP_S: Final = 1.0
_TIME_OVER: Final = "it takes more processor time than a file may (floecat.statistics.file-processor-time)"


class FileEndedProcessError(UnavailableError):
    """The file that is read makes a library end the process, or takes too much processor time.

    Attributes:
        done: the number that the work reported last.
        reason: why the process ended.
    """

    def __init__(self, done: int, ended_by: signal.Signals) -> None:
        super().__init__("The capture process ended")
        self.done = done
        is_over = ended_by == signal.SIGXCPU
        self.reason = _TIME_OVER if is_over else f"reading it ended the process by {ended_by.name}"


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
        self._pool = ChildPool("capture", self._setup, environment=_ENVIRONMENT)

    def _setup(self) -> PoolSetup:
        opening = partial(_prepare, process_bounds.limits)
        return PoolSetup(opening, memory_bytes=self._memory_bytes, processor_s=self._processor_s)

    def close(self) -> None:
        """Ends the processes that do nothing; the others end with their work."""
        self._pool.close()

    def run(self, work: Callable[[Check], T], check: Check, *, is_small: bool) -> T:
        """Does work that needs storage and no store.

        Args:
            work: a `functools.partial` of a module-level function: it, and what it returns, are pickled.
            check: called now and then.
            is_small: whether it is done here in any case.

        Raises:
            FileEndedProcessError: the work ended its process.
            UnavailableError: a process cannot be started, or was ended from outside.
            Exception: what `work` or `check` raises.
        """
        if is_small:
            return work(check)
        try:
            (result,) = self._pool.run(
                partial(_work, work), lambda done: check(done or 0), every_s=_CHECK_S, stop_s=_STOP_S
            )
        except ProcessEndedError as error:
            if error.signal is None:
                # one that can be pickled: Spark's tasks hand it to their driver
                raise UnavailableError(error.message) from None
            raise FileEndedProcessError(error.value or 0, error.signal) from None
        done: T = result
        return done


def _prepare(limits: Bounds) -> None:
    process_bounds.limits = limits
    prepare_struct_types()


def _work(work: Callable[[Check], Any], _: None, check: Check) -> Iterator[Any]:
    yield work(check)
