"""Threads that work on a queue for as long as a process lives."""

from __future__ import annotations

import logging
import threading

from floecat.errors import FloecatError
from floecat.jobs.queue import JobQueue
from floecat.store.jobs.jobs import JobRow

__all__ = ["JobWorkers"]

_log = logging.getLogger(__name__)


class JobWorkers:
    """A thread that looks for jobs, and one for each job that is worked on."""

    def __init__(
        self, queue: JobQueue, *, threads: int = 1, poll_interval_ms: int = 2_000, claim_batch: int = 16
    ) -> None:
        """Prepares the threads.

        Args:
            queue: what to work on.
            threads: jobs at a time.
            poll_interval_ms: how often to look for jobs while a thread is idle.
            claim_batch: most jobs that one look claims; a job is claimed only when a thread is idle.
        """
        self._queue = queue
        self._poll_interval_s = poll_interval_ms / 1000
        self._claim_batch = claim_batch
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._idle = threads
        self._lock = threading.Lock()
        self._working: set[threading.Thread] = set()
        self._look = threading.Thread(target=self._run, name=queue.kind.name, daemon=True)
        queue.add_worker(self._wake.set)

    def start(self) -> None:
        """Starts to look for jobs."""
        self._look.start()

    def stop(self, timeout_s: float = 30.0) -> None:
        """Ends the threads after the step that each is at; their jobs are due again at once.

        Args:
            timeout_s: how long to wait for each of them. A thread that takes longer dies with the
                process, and its job is due after its lease and a back-off.
        """
        self._stop.set()
        self._wake.set()
        if self._look.ident is not None:
            self._look.join(timeout_s)
        with self._lock:
            working = list(self._working)
        for thread in working:
            thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.clear()
            try:
                while self._begin_due_jobs():
                    pass
            except FloecatError as error:
                _log.warning("the queue of %s jobs cannot be read: %s", self._queue.kind.name, error.message)
            except Exception:  # noqa: BLE001 - without its worker the queue would stand still
                _log.exception("a worker of %s jobs failed and goes on", self._queue.kind.name)
            self._wake.wait(self._poll_interval_s)

    def _begin_due_jobs(self) -> bool:
        """Begins as many jobs as threads are idle; returns whether there may be more to begin."""
        wanted = min(self._idle, self._claim_batch)
        if wanted == 0 or self._stop.is_set():
            return False
        rows = self._queue.claim(wanted)
        for row in rows:
            thread = threading.Thread(
                target=self._work, args=(row,), name=f"{self._queue.kind.name}-{row.title}"[:80], daemon=True
            )
            with self._lock:
                self._idle -= 1
                self._working.add(thread)
            thread.start()
        return len(rows) == wanted

    def _work(self, row: JobRow) -> None:
        try:
            self._queue.work_on(row, self._stop.is_set)
        except FloecatError as error:
            _log.warning("%s job %s was not ended: %s", row.kind, row.id, error.message)
        except Exception:  # noqa: BLE001 - the job is due again after its lease
            _log.exception("%s job %s was not ended", row.kind, row.id)
        finally:
            with self._lock:
                self._idle += 1
                self._working.discard(threading.current_thread())
            self._wake.set()
