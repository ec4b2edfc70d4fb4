"""The work behind the requests of a process: packages add kinds of jobs, threads and sweeps to it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from threading import Event, Thread
from typing import Final

from floecat.clock import Clock
from floecat.errors import FloecatError
from floecat.jobs.descriptions import JobInfo
from floecat.jobs.expiry import Expiry, Sweep
from floecat.jobs.operations import JobOperations
from floecat.jobs.queue import JobQueue
from floecat.jobs.workers import JobWorkers
from floecat.store.database.engine import Store

__all__ = ["Background"]

_log = logging.getLogger(__name__)

_EXPIRY_INTERVAL_MS: Final = 60_000


class Background:
    """Starts and stops what packages added.

    Attributes:
        jobs: jobs of all kinds, as operators see them.
        sweeps: remove expired rows, by what they remove.
        expiry: calls them.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self.jobs: JobOperations[JobInfo] = JobOperations(store, clock)
        self.sweeps: dict[str, Sweep] = {"jobs": self.jobs.sweep}
        self._stopped = Event()
        self._starts: list[Callable[[], None]] = []
        self._stops = ExitStack()
        self.expiry = Expiry(store, clock, self.sweeps, self._stopped, lease_ms=_EXPIRY_INTERVAL_MS)
        self.add_loop("expiry", self.expiry.sweep, _EXPIRY_INTERVAL_MS)

    def add(self, *, start: Callable[[], None] | None = None, stop: Callable[[], None]) -> None:
        """Adds something that is started with the process, if at all, and stopped in reverse order."""
        if start is not None:
            self._starts.append(start)
        self._stops.callback(stop)

    def add_queue(
        self, queue: JobQueue, *, threads: int, poll_interval_ms: int = 2_000, claim_batch: int = 16
    ) -> None:
        """Adds a queue, with the threads that work on it here; see `JobWorkers`. With 0 threads others do."""
        self.jobs.add(queue.kind)
        if threads:
            workers = JobWorkers(
                queue, threads=threads, poll_interval_ms=poll_interval_ms, claim_batch=claim_batch
            )
            self.add(start=workers.start, stop=workers.stop)

    def add_loop(self, name: str, look: Callable[[], object], interval_ms: int) -> None:
        """Adds a thread that calls `look` at intervals, the first time after one of them."""
        thread = Thread(target=self._loop, args=(name, look, interval_ms / 1000), name=name, daemon=True)

        def stop() -> None:
            if thread.ident is not None:
                thread.join()

        self.add(start=thread.start, stop=stop)

    def _loop(self, name: str, look: Callable[[], object], interval_s: float) -> None:
        while not self._stopped.wait(interval_s):
            try:
                look()
            except FloecatError as error:
                _log.warning("%s failed and is tried again: %s", name, error.message)
            except Exception:  # noqa: BLE001 - the next look may succeed
                _log.exception("%s failed and is tried again", name)

    def start(self) -> None:
        """Starts the threads behind the requests."""
        for start in self._starts:
            start()

    def stop(self) -> None:
        """Stops everything, in reverse order; a job that is worked on ends after the step that it is at."""
        self._stopped.set()
        self._stops.close()
