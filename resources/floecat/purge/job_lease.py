"""Holding a purge job: the lease is renewed in the background, and checked before anything is deleted."""

from __future__ import annotations

import logging
import threading
import time
from types import TracebackType
from uuid import UUID

from floecat.clock import Clock
from floecat.errors import FloecatError
from floecat.store import purge_jobs
from floecat.store.engine import Store

__all__ = ["JobLease", "LeaseLostError"]

_log = logging.getLogger(__name__)


class LeaseLostError(Exception):
    """The job may be another worker's by now. Nothing more may be deleted for it."""


class JobLease:
    """The lease of one claimed job, as a context: it is renewed at a third of its duration until the end.

    The lease ends by the clock of this machine even if nobody says so: a worker that was stopped for longer
    than the lease, or that the store does not answer, gives up by itself.
    """

    def __init__(
        self, store: Store, clock: Clock, job_id: UUID, owner: UUID, lease_ms: int, claimed_at: float
    ) -> None:
        """Takes a claimed job.

        Args:
            store: holds the job.
            clock: wall-clock time.
            job_id: the job.
            owner: who claimed it.
            lease_ms: for how long.
            claimed_at: when the claim was sent, in seconds of `time.monotonic`.
        """
        self._store = store
        self._clock = clock
        self._job_id = job_id
        self._owner = owner
        self._lease_ms = lease_ms
        self._ends_at = claimed_at + lease_ms / 1000
        self._lost = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew_until_stopped, name="purge-lease", daemon=True)

    def check(self) -> None:
        """Returns if the job is surely still this worker's.

        Raises:
            LeaseLostError: it may not be.
        """
        if self._lost or time.monotonic() >= self._ends_at:
            raise LeaseLostError

    def __enter__(self) -> JobLease:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _renew_until_stopped(self) -> None:
        while not self._stop.wait(self._lease_ms / 3000):
            try:
                self._renew()
            except FloecatError as failure:
                # the lease still stands; there is time for another two tries
                _log.warning("the lease of purge job %s was not renewed: %s", self._job_id, failure.message)
            if self._lost:
                return

    def _renew(self) -> None:
        started = time.monotonic()
        renewed = self._store.run(
            lambda conn: purge_jobs.renew(
                conn, self._job_id, self._owner, self._clock.now_ms(), self._lease_ms
            )
        )
        if renewed:
            self._ends_at = started + self._lease_ms / 1000
        else:
            self._lost = True
