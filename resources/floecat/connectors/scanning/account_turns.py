"""Threads that do one thing at a time for an account, and a few accounts at once, by turns."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Lock, Thread, current_thread
from typing import Final, Generic, TypeVar
from uuid import UUID

__all__ = ["AccountTurns"]

T = TypeVar("T")

_THREADS: Final = 4
_STOP_S: Final = 30.0


class AccountTurns(Generic[T]):
    """What was asked for waits in memory until its account has a turn. Thread-safe.

    A thread lives only while there is something to do.

    Attributes:
        stopped: set once nothing more is to be begun, and what was begun is to end.
    """

    def __init__(self, name: str, work: Callable[[T], None]) -> None:
        """Takes the name of the threads, and what they do; it must not raise."""
        self.stopped = Event()
        self._name = name
        self._work = work
        self._lock = Lock()
        self._waiting: dict[UUID, list[T]] = {}
        """By account, in the order of their turns."""
        self._busy: set[UUID] = set()
        self._threads: set[Thread] = set()

    def add(self, account_id: UUID, thing: T) -> None:
        """Has something done, unless it waits already."""
        with self._lock:
            waiting = self._waiting.setdefault(account_id, [])
            if thing not in waiting:
                waiting.append(thing)
            if account_id in self._busy or len(self._busy) >= _THREADS:
                return
            self._busy.add(account_id)
            thread = Thread(target=self._run, args=(account_id,), name=self._name, daemon=True)
            self._threads.add(thread)
        thread.start()

    def stop(self) -> None:
        """Ends the threads after the step that each is at; one that takes longer dies with the process."""
        self.stopped.set()
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(_STOP_S)

    def _run(self, account_id: UUID) -> None:
        mine: UUID | None = account_id
        while mine is not None:
            with self._lock:
                waiting = self._waiting.pop(mine, [])
                thing = waiting.pop(0) if waiting and not self.stopped.is_set() else None
                if waiting and thing is not None:
                    self._waiting[mine] = waiting  # behind the others
            if thing is not None:
                self._work(thing)
            mine = self._next(mine)
        with self._lock:
            self._threads.discard(current_thread())

    def _next(self, before: UUID) -> UUID | None:
        with self._lock:
            self._busy.discard(before)
            if self.stopped.is_set():
                return None
            found = next((each for each in self._waiting if each not in self._busy), None)
            if found is not None:
                self._busy.add(found)
            return found
