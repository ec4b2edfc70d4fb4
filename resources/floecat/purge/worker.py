"""Works on the purge queue. Any number of workers in any number of processes may do so at once."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple
from uuid import UUID

import uuid_utils.compat as uuids

from floecat.clock import Clock
from floecat.errors import FloecatError, LocationNotAllowedError
from floecat.fileio.locations import AllowedLocations
from floecat.purge.backoff import Backoff
from floecat.purge.purger import Purger
from floecat.purge.targets import PurgeIncompleteError, PurgeReport, PurgeTarget
from floecat.store import catalogs, purge_jobs
from floecat.store.engine import Store
from floecat.store.held_leases import HeldLease, LeaseLostError
from floecat.store.purge_jobs import PurgeJobRow

__all__ = ["Drained", "PurgeQueue", "PurgeWorker"]

_MAX_ERROR_LENGTH = 1000

_log = logging.getLogger(__name__)


class Drained(NamedTuple):
    """What became of the jobs that were due."""

    done: int = 0
    failed: int = 0
    """Will be tried again."""
    dead: int = 0
    """Given up; an operator may make them due again."""
    lost: int = 0
    """Taken over by another worker."""

    @property
    def total(self) -> int:
        """Jobs that were worked on."""
        return sum(self)


class PurgeQueue:
    """Claims jobs and works on them. Safe to share between threads."""

    def __init__(
        self,
        store: Store,
        purger: Purger,
        clock: Clock,
        *,
        lease_ms: int,
        max_attempts: int,
        backoff: Backoff | None = None,
        shared_locations: Sequence[str] = (),
    ) -> None:
        """Takes the parts that it puts together.

        Args:
            store: holds the jobs.
            purger: deletes files.
            clock: wall-clock time.
            lease_ms: how long a job stays claimed without being renewed.
            max_attempts: tries of a job before it is given up; those that ended with the worker's death
                count.
            backoff: when a failed job is tried again.
            shared_locations: locations that every catalog may use beside its own.
        """
        self._store = store
        self._purger = purger
        self._clock = clock
        self._lease_ms = lease_ms
        self._max_attempts = max_attempts
        self._backoff = backoff or Backoff()
        self._shared_locations = tuple(shared_locations)

    def drain_once(
        self, *, max_jobs: int | None = None, stopped: Callable[[], bool] = lambda: False
    ) -> Drained:
        """Works on the jobs that are due, one after the other, until none is left.

        Args:
            max_jobs: stop after so many.
            stopped: asked between jobs and between batches of files; true ends the work early.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        drained = Drained()
        while not stopped() and (max_jobs is None or drained.total < max_jobs):
            owner, claimed_at = uuids.uuid7(), time.monotonic()
            job = self._claim(owner)
            if job is None:
                break
            outcome = self._work(job, owner, claimed_at, stopped)
            drained = drained._replace(**{outcome: getattr(drained, outcome) + 1})
        return drained

    def _claim(self, owner: UUID) -> PurgeJobRow | None:
        now_ms = self._clock.now_ms()
        jobs = self._store.run(lambda conn: purge_jobs.claim_due(conn, owner, now_ms, self._lease_ms, 1))
        return jobs[0] if jobs else None

    def _work(self, job: PurgeJobRow, owner: UUID, claimed_at: float, stopped: Callable[[], bool]) -> str:
        """Works on a claimed job and returns which field of `Drained` counts it."""
        if job.attempts > self._max_attempts:
            return self._give_back(job, owner, f"gave up after {self._max_attempts} attempts", 0)

        def renew() -> bool:
            return self._store.run(
                lambda conn: purge_jobs.renew(conn, job.id, owner, self._clock.now_ms(), self._lease_ms)
            )

        held = HeldLease(f"purge job {job.id}", renew, duration_ms=self._lease_ms, taken_at=claimed_at)
        with held as lease:

            def before_batch() -> None:
                lease.check()
                if stopped():
                    raise _StoppedError

            try:
                report = self._purge(job, before_batch)
            except LeaseLostError:
                _log.warning("purge job %s of %s was taken over", job.id, job.identifier)
                return "lost"
            except _StoppedError:
                return self._give_back(job, owner, "the worker was stopped", 0, retry_at_once=True)
            except PurgeIncompleteError as error:
                return self._give_back(job, owner, error.message, error.counts.deleted)
            except FloecatError as error:
                return self._give_back(job, owner, error.message, 0)
            except Exception as error:  # noqa: BLE001 - a fault of one job must not end the worker
                # its text could hold anything, and the row is shown to users
                _log.exception("purge job %s of %s failed", job.id, job.identifier)
                return self._give_back(job, owner, f"internal error: {type(error).__name__}", 0)
        return self._finish(job, owner, report)

    def _purge(self, job: PurgeJobRow, before_batch: Callable[[], None]) -> PurgeReport:
        with self._store.read() as conn:
            catalog = catalogs.get(conn, job.catalog_id)
            document = purge_jobs.document(conn, job.id)
        if catalog is None:
            raise LocationNotAllowedError("the catalog of the table is gone, and with it its locations")
        roots = [
            catalog.storage_location,
            *catalog.allowed_locations,
            *self._shared_locations,
            *self._purger.locations(job.format),
        ]
        target = PurgeTarget(
            job.object_uuid, job.metadata_location, AllowedLocations(roots), document, job.format
        )
        return self._purger.purge(target, before_batch)

    def _finish(self, job: PurgeJobRow, owner: UUID, report: PurgeReport) -> str:
        counts = report.counts
        kept = self._store.run(
            lambda conn: purge_jobs.finish(
                conn, job.id, owner, deleted_files=counts.deleted, now_ms=self._clock.now_ms()
            )
        )
        _log.info(
            "purged %s: %d files deleted, %d shared with live tables, %d outside the allowed locations%s",
            job.identifier,
            counts.deleted,
            counts.shared,
            counts.outside,
            f"; {report.note}" if report.note else "",
        )
        return "done" if kept else "lost"

    def _give_back(
        self, job: PurgeJobRow, owner: UUID, reason: str, deleted: int, *, retry_at_once: bool = False
    ) -> str:
        now_ms = self._clock.now_ms()
        dead = job.attempts >= self._max_attempts and not retry_at_once
        delay_ms = 0 if retry_at_once else self._backoff.delay_ms(job.attempts)
        kept = self._store.run(
            lambda conn: purge_jobs.fail(
                conn,
                job.id,
                owner,
                error=reason[:_MAX_ERROR_LENGTH],
                retry_at_ms=None if dead else now_ms + delay_ms,
                deleted_files=deleted,
                now_ms=now_ms,
            )
        )
        _log.warning("purge of %s %s: %s", job.identifier, "given up" if dead else "failed", reason)
        if not kept:
            return "lost"
        return "dead" if dead else "failed"


class PurgeWorker:
    """Threads that drain the queue for as long as a process lives."""

    def __init__(self, queue: PurgeQueue, *, threads: int = 1, poll_interval_ms: int = 2_000) -> None:
        """Takes the queue.

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
            threading.Thread(target=self._run, name=f"purge-{number}", daemon=True)
            for number in range(threads)
        ]

    def start(self) -> None:
        """Starts the threads."""
        for thread in self._threads:
            thread.start()

    def stop(self, timeout_s: float = 30.0) -> None:
        """Ends the threads after the batch of files that each is deleting; the jobs are due again at once.

        Args:
            timeout_s: how long to wait for each of them. One that takes longer dies with the process, and
                its job is due when its lease ends.
        """
        self._stop.set()
        for _ in self._threads:
            self._wake.release()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(timeout_s)

    def wake(self) -> None:
        """Makes an idle thread look for jobs now, as after a drop in the same process."""
        self._wake.release()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._queue.drain_once(stopped=self._stop.is_set)
            except FloecatError as error:
                _log.warning("the purge queue cannot be read: %s", error.message)
            except Exception:  # noqa: BLE001 - a worker that died would leave the queue to nobody
                _log.exception("the purge worker failed and goes on")
            self._wake.acquire(timeout=self._poll_interval_s)


class _StoppedError(Exception):
    pass
