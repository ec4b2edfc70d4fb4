"""Works on the jobs of one kind. Any number of workers in any number of processes may do so at once."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from typing import NamedTuple

import uuid_utils.compat as uuids

from floecat.clock import Clock
from floecat.errors import FloecatError
from floecat.jobs.kinds import JobKind
from floecat.jobs.running import JobCancelledError, RunningJob, WorkerStoppedError
from floecat.store import job_claims
from floecat.store.database.engine import Store
from floecat.store.jobs import JobRow
from floecat.store.leases import LeaseLostError

__all__ = ["Drained", "JobQueue"]

_MAX_ERROR_LENGTH = 1000

_log = logging.getLogger(__name__)


class Drained(NamedTuple):
    """What became of the jobs that were due."""

    succeeded: int = 0
    waiting: int = 0
    """Will be tried again."""
    failed: int = 0
    """Have used up their attempts; an operator may retry them."""
    cancelled: int = 0
    lost: int = 0
    """Taken over by another worker."""

    @property
    def total(self) -> int:
        """Jobs that were worked on."""
        return sum(self)


class JobQueue:
    """Claims jobs of a kind and works on them. Safe to share between threads."""

    def __init__(self, store: Store, clock: Clock, kind: JobKind) -> None:
        self.kind = kind
        self._store = store
        self._clock = clock

    def drain_once(
        self, *, max_jobs: int | None = None, stopped: Callable[[], bool] = lambda: False
    ) -> Drained:
        """Works on the jobs that are due, one after the other, until none is left.

        Args:
            max_jobs: stop after so many.
            stopped: asked between jobs, and by a job between its steps; true ends the work early.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        drained = Drained()
        while not stopped() and (max_jobs is None or drained.total < max_jobs):
            row = self._claim()
            if row is None:
                break
            outcome = self._work(RunningJob(self._store, self._clock, row, self.kind.lease_ms, stopped))
            drained = drained._replace(**{outcome: getattr(drained, outcome) + 1})
        return drained

    def _claim(self) -> JobRow | None:
        kind, now_ms = self.kind, self._clock.now_ms()
        # of this claim alone, so that two threads of a process exclude each other too
        owner = f"{socket.gethostname()}:{os.getpid()}:{uuids.uuid7()}"
        return self._store.run(
            lambda conn: job_claims.claim(
                conn,
                kind.name,
                owner,
                now_ms,
                kind.lease_ms,
                base_ms=kind.backoff.base_ms,
                longest_ms=kind.backoff.max_ms,
            )
        )

    def _work(self, job: RunningJob) -> str:
        """Works on a claimed job and returns which field of `Drained` counts it."""
        row = job.row
        if row.attempts > row.max_attempts:
            return self._fail(job, f"gave up after {row.max_attempts} attempts", final=True)
        with job:
            try:
                note = self.kind.work(job)
            except LeaseLostError:
                _log.warning("%s job %s of %s was taken over", row.kind, row.id, row.title)
                return "lost"
            except JobCancelledError:
                return self._finish(job, "cancelled", None)
            except WorkerStoppedError:
                return self._put_back(job, "the worker was stopped", self._clock.now_ms(), counts=False)
            except FloecatError as error:
                return self._fail(job, error.message, final=row.attempts >= row.max_attempts)
            except Exception as error:  # noqa: BLE001 - a fault of one job must not end the worker
                # its text could hold anything, and the row is shown to users
                _log.exception("%s job %s of %s failed", row.kind, row.id, row.title)
                return self._fail(
                    job, f"internal error: {type(error).__name__}", final=row.attempts >= row.max_attempts
                )
        return self._finish(job, "succeeded", note)

    def _finish(self, job: RunningJob, state: str, note: str | None) -> str:
        held = self._store.run(
            lambda conn: job_claims.finish(
                conn, job.lease, state, job.encoded_progress(), self._clock.now_ms(), None
            )
        )
        row = job.row
        _log.info("%s of %s %s%s", row.kind, row.title, self.kind.word(state), f": {note}" if note else "")
        return state if held else "lost"

    def _fail(self, job: RunningJob, reason: str, *, final: bool) -> str:
        now_ms = self._clock.now_ms()
        error = reason[:_MAX_ERROR_LENGTH]
        if not final:
            return self._put_back(job, error, now_ms + self.kind.backoff.delay_ms(job.row.attempts))
        held = self._store.run(
            lambda conn: job_claims.finish(conn, job.lease, "failed", job.encoded_progress(), now_ms, error)
        )
        row = job.row
        _log.error(
            "%s of %s failed for good; an operator can retry job %s: %s", row.kind, row.title, row.id, error
        )
        return "failed" if held else "lost"

    def _put_back(self, job: RunningJob, error: str, retry_at_ms: int, *, counts: bool = True) -> str:
        held = self._store.run(
            lambda conn: job_claims.put_back(
                conn,
                job.lease,
                job.encoded_progress(),
                self._clock.now_ms(),
                error=error,
                retry_at_ms=retry_at_ms,
                counts=counts,
            )
        )
        _log.warning("%s of %s will be tried again: %s", job.row.kind, job.row.title, error)
        return "waiting" if held else "lost"
