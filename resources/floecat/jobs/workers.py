"""Threads that drain a queue for as long as a process lives."""

from __future__ import annotations

import logging
import threading

from floecat.errors import FloecatError
from floecat.jobs.queue import JobQueue

__all__ = ["JobWorkers"]

_log = logging.getLogger(__name__)


class JobWorkers:
    """Threads that drain a queue."""

    def __init__(self, queue: JobQueue, *, threads: int = 1, poll_interval_ms: int = 2_000) -> None:
        """Prepares the threads.

        Args:
            queue: what to work on.
            threads: jobs at a time.
            poll_interval_ms: how often an idle thread looks for jobs.
        """
        self._queue = queue
        self._poll_interval_s = poll_interval_ms / 1000
        self._stop = threading.Event()
        self._wake = threading.Semaphore(0)
        self._threads = [
            threading.Thread(target=self._run, name=f"{queue.kind.name}-{number}", daemon=True)
            for number in range(threads)
        ]

    def start(self) -> None:
        """Starts the threads."""
        for thread in self._threads:
            thread.start()

    def stop(self, timeout_s: float = 30.0) -> None:
        """Ends the threads after the step that each is at; their jobs are due again at once.

        Args:
            timeout_s: how long to wait for each of them. A thread that takes longer dies with the
                process, and its job is due after its lease and a back-off.
        """
        self._stop.set()
        for _ in self._threads:
            self._wake.release()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(timeout_s)

    def wake(self) -> None:
        """Makes an idle thread look for jobs now, as after a change in the same process that made one."""
        self._wake.release()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._queue.drain_once(stopped=self._stop.is_set)
            except FloecatError as error:
                _log.warning("the queue of %s jobs cannot be read: %s", self._queue.kind.name, error.message)
            except Exception:  # noqa: BLE001 - without its worker the queue would stand still
                _log.exception("a worker of %s jobs failed and goes on", self._queue.kind.name)
            self._wake.acquire(timeout=self._poll_interval_s)
