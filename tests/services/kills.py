"""A worker that dies at a chosen call to storage or to the store, with or without a process of its own."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar
from uuid import UUID

from floecat.fileio.base import DeleteOutcome, FileIO
from floecat.fileio.locations import AllowedLocations
from floecat.store.database.connections import Connection
from floecat.store.database.engine import Store

__all__ = ["KillSwitch", "KillableFileIO", "KilledError", "kill_process", "killable_store"]

T = TypeVar("T")


class KilledError(BaseException):
    """The worker is dead: no handler of errors sees it."""


def _raise_killed() -> NoReturn:
    raise KilledError


def kill_process() -> None:
    """Ends this process at once, with nothing cleaned up."""
    os.kill(os.getpid(), signal.SIGKILL)


class KillSwitch:
    """Counts calls, and at one of them kills the worker: that call raises, and every one after it."""

    def __init__(self, kill: Callable[[], None] = _raise_killed) -> None:
        """Takes how the worker dies: by an error, or `kill_process`."""
        self._kill = kill
        self._lock = threading.Lock()
        self._left: int | None = None

    def arm(self, calls: int) -> None:
        """Kills at so many calls from now."""
        with self._lock:
            self._left = calls

    def disarm(self) -> None:
        """A new worker takes over."""
        with self._lock:
            self._left = None

    def point(self) -> None:
        """A place where the worker may die.

        Raises:
            KilledError: it is dead.
        """
        with self._lock:
            if self._left is None:
                return
            self._left -= 1
            if self._left > 0:
                return
            self._left = 1
        self._kill()


class KillableFileIO:
    """Storage that a worker may die at: before a call, after it, and in the middle of a bulk delete."""

    def __init__(self, inner: FileIO, switch: KillSwitch) -> None:
        self._inner = inner
        self._switch = switch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
        self._switch.point()
        return self._inner.read(location, max_bytes=max_bytes)

    def delete_many(self, locations: Iterable[str], allowed: AllowedLocations | None = None) -> DeleteOutcome:
        outcomes = []
        for location in locations:
            self._switch.point()
            outcomes.append(self._inner.delete_many([location], allowed))
        self._switch.point()
        failures = tuple(failure for outcome in outcomes for failure in outcome.failures)
        return DeleteOutcome(sum(outcome.deleted for outcome in outcomes), failures)


def killable_store(url: str, switch: KillSwitch) -> Store:
    """A store that a worker may die at: before a transaction, and after its COMMIT."""

    class KillableStore(Store):
        def run(self, work: Callable[[Connection], T], *, catalog_id: UUID | None = None) -> T:
            switch.point()
            result = super().run(work, catalog_id=catalog_id)
            switch.point()
            return result

        @contextmanager
        def read(self) -> Iterator[Connection]:
            switch.point()
            with super().read() as conn:
                yield conn

    return KillableStore.open(url)
