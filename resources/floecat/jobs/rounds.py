"""Works on the jobs of a kind that are due, several at once, until none is left."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final, Generic, NamedTuple, TypeVar
from uuid import UUID

from floecat.child_process import NICENESS
from floecat.jobs.queue import JobQueue
from floecat.jobs.running_job import RunningJob
from floecat.store.jobs.jobs import JobRow

__all__ = ["JobRound"]

_LOOK_S: Final = 2.0
_STOP_S: Final = 10.0

T = TypeVar("T")


class _Ended(NamedTuple):
    """A thread that is done with a job."""

    account_id: UUID
    problem: BaseException | None = None


class JobRound(Generic[T]):
    """Threads that work on jobs, each of which tells something.

    Accounts take turns, and however many jobs of an account hang, threads are left: it takes a further one
    only while more are free than it has.
    """

    def __init__(
        self,
        queue: JobQueue,
        work: Callable[[RunningJob, Callable[[T], None]], str | None],
        *,
        at_once: int,
        lasts_s: float,
    ) -> None:
        """Prepares the threads.

        Args:
            queue: of the jobs.
            work: does a job; what it calls tells something.
            at_once: most jobs.
            lasts_s: no job is begun later.
        """
        self._queue = queue
        self._work = work
        self._at_once = at_once
        self._lasts_s = lasts_s
        self._told: SimpleQueue[T | _Ended] = SimpleQueue()
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []
        self._running: Counter[UUID] = Counter()

    def run(self, look: Callable[[], None]) -> Iterator[T]:
        """Works until no job is due or worked on; gives what jobs tell.

        One that is stopped before gives its jobs back.

        Args:
            look: called first, and every other second while jobs are worked on; may make further ones.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        ends_s = time.monotonic() + self._lasts_s
        try:
            while True:
                if time.monotonic() < ends_s:
                    look()
                    while self._begin():
                        pass
                if not self._running:
                    return
                yield from self._listen()
        finally:
            self._stopped.set()
            until_s = time.monotonic() + _STOP_S
            for thread in self._threads:
                thread.join(max(0.0, until_s - time.monotonic()))

    def _listen(self) -> Iterator[T]:
        """What is told until a thread is free, or for a while."""
        until_s = time.monotonic() + _LOOK_S
        while True:
            try:
                told = self._told.get(timeout=max(0.0, until_s - time.monotonic()))
            except Empty:
                return
            if not isinstance(told, _Ended):
                yield told
                continue
            self._running -= Counter([told.account_id])
            self._threads = [each for each in self._threads if each.is_alive()]
            if told.problem is not None:
                raise told.problem
            return

    def _begin(self) -> bool:
        free = self._at_once - self._running.total()
        if free <= 0:
            return False
        full = [account for account, count in self._running.items() if count >= free]
        rows = self._queue.claim(without=full)
        for row in rows:
            self._running[row.account_id] += 1
            thread = threading.Thread(
                target=self._work_on, args=(row,), name=f"{row.kind}-{row.title}"[:80], daemon=True
            )
            self._threads.append(thread)
            thread.start()
        return bool(rows)

    def _work_on(self, row: JobRow) -> None:
        problem: BaseException | None = None
        _give_way()
        try:
            self._queue.work_on(row, self._stopped.is_set, work=lambda job: self._work(job, self._told.put))
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            problem = error
        self._told.put(_Ended(row.account_id, problem))


def _give_way() -> None:
    """Lets requests of a service on the same machine go first. Linux has a niceness for each thread."""
    with suppress(OSError):  # elsewhere threads have none of their own
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
