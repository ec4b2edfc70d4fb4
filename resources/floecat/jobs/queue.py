"""Claims jobs of one kind and works on them; any number of workers, in any number of processes, may do so."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Sequence
from typing import NamedTuple
from uuid import UUID

import msgspec
import uuid_utils.compat as uuids

from floecat.clock import Clock
from floecat.errors import FloecatError
from floecat.jobs.kinds import JobKind, Work
from floecat.jobs.running_job import (
    JobAbandonedError,
    JobCancelledError,
    JobFailedError,
    JobPostponedError,
    RunningJob,
    WorkerStoppedError,
)
from floecat.store.database.engine import Connection, Store
from floecat.store.jobs import job_claims, jobs
from floecat.store.jobs.jobs import DEFAULT_LANE, JobRow
from floecat.store.jobs.leases import LeaseLostError

__all__ = ["Drained", "JobQueue", "Worked", "server_identity"]

_MAX_ERROR_LENGTH = 1000
_LOCK_WAIT_MS = 250

_log = logging.getLogger(__name__)


class Drained(NamedTuple):
    """The number of jobs that were due, by outcome."""

    succeeded: int = 0
    waiting: int = 0
    """Jobs that will be tried again."""
    failed: int = 0
    """Jobs that have used up their attempts; an operator may retry them."""
    cancelled: int = 0
    lost: int = 0
    """Jobs that another worker took over."""

    @property
    def total(self) -> int:
        """Jobs that were worked on."""
        return sum(self)


class Worked(NamedTuple):
    """The outcome of a job that was worked on."""

    outcome: str
    """Name of the field of `Drained` that counts it."""
    error: str | None = None
    """Reason why the attempt failed, without credentials."""


def server_identity() -> str:
    """The name of this process, `host:pid`."""
    return f"{socket.gethostname()}:{os.getpid()}"


class JobQueue:
    """Claims jobs of a kind and works on them. Safe to share between threads."""

    def __init__(self, store: Store, clock: Clock, kind: JobKind) -> None:
        self.kind = kind
        self._store = store
        self._clock = clock
        self._workers: list[Callable[[], None]] = []

    def add_worker(self, wake: Callable[[], None]) -> None:
        """Has `wake` called when this process made jobs that are due."""
        self._workers.append(wake)

    def wake(self) -> None:
        """Has the workers of this process look for jobs now."""
        for wake in self._workers:
            wake()

    def drain_once(
        self,
        *,
        max_jobs: int | None = None,
        stopped: Callable[[], bool] = lambda: False,
        subject: str | None = None,
    ) -> Drained:
        """Works on the jobs that are due, one after the other, until none is left.

        Args:
            max_jobs: stop after so many.
            stopped: asked between jobs, and by a job between its steps; true ends the work early.
            subject: only jobs about this.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        drained = Drained()
        while not stopped() and (max_jobs is None or drained.total < max_jobs):
            rows = self.claim(subject=subject)
            if not rows:
                break
            outcome = self.work_on(rows[0], stopped).outcome
            drained = drained._replace(**{outcome: getattr(drained, outcome) + 1})
        return drained

    def claim(
        self,
        limit: int = 1,
        *,
        lane: str | None = None,
        subject: str | None = None,
        without: Sequence[UUID] = (),
    ) -> Sequence[JobRow]:
        """Claims jobs that are due, each to be given to `work_on` at once.

        Args:
            limit: most jobs.
            lane: claim jobs that are offered in this lane, instead of those that are due.
            subject: claim due jobs about this alone.
            without: accounts whose jobs are left to others.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        kind, now_ms = self.kind, self._clock.now_ms()
        # an idle worker only reads: it takes no turn at the store from those who write
        with self._store.read() as conn:
            if not job_claims.may_claim(conn, kind.name, now_ms, lane):
                return []
        rows = self._store.run(
            lambda conn: job_claims.claim(
                conn,
                kind.name,
                _owner(),
                now_ms,
                kind.lease_ms,
                base_ms=kind.backoff.base_ms,
                longest_ms=kind.backoff.max_ms,
                limit=limit,
                lane=lane,
                subject=subject,
                after_account=kind.turns.last,
                without=without,
            )
        )
        if rows and subject is None:
            kind.turns.last = max(row.account_id for row in rows)
        return rows

    def claimed(self, job: JobRow) -> JobRow:
        """A new job that is claimed from the start, to be inserted and then given to `work_on`."""
        kind, now_ms = self.kind, self._clock.now_ms()
        lease_ends_at_ms = now_ms + kind.lease_ms
        return msgspec.structs.replace(
            job,
            state="running",
            attempts=1,
            lease_owner=_owner(),
            lease_epoch=1,
            lease_expires_at_ms=lease_ends_at_ms,
            not_before_ms=lease_ends_at_ms + kind.backoff.base_ms,
            started_at_ms=now_ms,
        )

    def offered(self, lane: str) -> int:
        """The number of jobs that are offered in a lane now, of all catalogs.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        with self._store.read() as conn:
            return jobs.count_in_lane(conn, self.kind.name, lane, self._clock.now_ms())

    def work_on_offered(self, lane: str, work: Work) -> tuple[JobRow, Worked] | None:
        """Claims the job of a lane whose offer ends first, and works on it.

        Args:
            lane: where it is offered.
            work: does the job in the way of that lane.

        Returns:
            The job as it was claimed, and what became of it; `None` if none is offered.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        rows = self.claim(lane=lane)
        return (rows[0], self.work_on(rows[0], work=work)) if rows else None

    def work_on(
        self, row: JobRow, stopped: Callable[[], bool] = lambda: False, work: Work | None = None
    ) -> Worked:
        """Works on a claimed job.

        Args:
            row: the job as it was claimed.
            stopped: asked by the job between its steps; true gives it back.
            work: what is done; by default that of the kind.

        Raises:
            StoreUnavailableError: the store does not answer; the job is due again after its lease.
        """
        kind, lock = self.kind, self.kind.lock_of(row.subject)
        job = RunningJob(self._store, self._clock, row, kind.lease_ms, stopped, lock, is_part=kind.is_part)
        return self._work(job, work or kind.work)

    def _work(self, job: RunningJob, work: Work) -> Worked:
        row = job.row
        if row.attempts > row.max_attempts:
            return self._fail(job, f"gave up after {row.max_attempts} attempts", final=True)
        with job:
            try:
                if not job.lock_subject():
                    reason = f"another {row.kind} of {row.title} is under way"
                    raise JobPostponedError(reason, self._clock.now_ms() + _LOCK_WAIT_MS)
                note = work(job)
            except LeaseLostError:
                _log.warning("%s job %s of %s was taken over", row.kind, row.id, row.title)
                return Worked("lost", "another worker took the job over")
            except JobAbandonedError as abandoned:
                _log.warning("%s job %s of %s keeps its lease: %s", row.kind, row.id, row.title, abandoned)
                return Worked("waiting", str(abandoned))
            except JobCancelledError:
                return self._finish(job, "cancelled")
            except WorkerStoppedError:
                return self._put_back(job, "the worker was stopped", self._clock.now_ms(), counts=False)
            except JobPostponedError as postponed:
                return self._put_back(
                    job,
                    postponed.reason,
                    postponed.until_ms,
                    counts=False,
                    lane=postponed.lane,
                    keeps_lock=True,
                )
            except FloecatError as error:
                is_final = isinstance(error, JobFailedError) or row.attempts >= row.max_attempts
                return self._fail(job, error.message, final=is_final)
            except Exception as error:  # noqa: BLE001 - a fault of one job must not end the worker
                # its text could hold anything, and the row is shown to users
                _log.exception("%s job %s of %s failed", row.kind, row.id, row.title)
                return self._fail(
                    job, f"internal error: {type(error).__name__}", final=row.attempts >= row.max_attempts
                )
        return self._finish(job, "succeeded", note=note)

    def _finish(
        self, job: RunningJob, state: str, error: str | None = None, *, note: str | None = None
    ) -> Worked:
        def finish(conn: Connection) -> bool:
            progress, now_ms = job.encoded_progress(), self._clock.now_ms()
            held = job_claims.finish(conn, job.lease, state, progress, now_ms, error)
            if held:
                job.unlock_subject(conn)
            return held

        if not self._store.run(finish):
            return Worked("lost", error or "another worker took the job over")
        row = job.row
        if state == "failed":
            _log.error(
                "%s of %s failed for good; an operator can retry job %s: %s",
                row.kind,
                row.title,
                row.id,
                error,
            )
        else:
            _log.info("%s of %s %s%s", row.kind, row.title, state, f": {note}" if note else "")
        if self.kind.ended is not None:
            self.kind.ended(job, state, error)
        return Worked(state, error)

    def _fail(self, job: RunningJob, reason: str, *, final: bool) -> Worked:
        error = reason[:_MAX_ERROR_LENGTH]
        if final:
            return self._finish(job, "failed", error)
        delay_ms = self.kind.backoff.delay_ms(job.row.attempts)
        return self._put_back(job, error, self._clock.now_ms() + delay_ms)

    def _put_back(
        self,
        job: RunningJob,
        error: str,
        retry_at_ms: int,
        *,
        counts: bool = True,
        lane: str = DEFAULT_LANE,
        keeps_lock: bool = False,
    ) -> Worked:
        def put_back(conn: Connection) -> bool:
            held = job_claims.put_back(
                conn,
                job.lease,
                job.encoded_progress(),
                self._clock.now_ms(),
                error=error,
                retry_at_ms=retry_at_ms,
                counts=counts,
                lane=lane,
            )
            if held and not keeps_lock:
                job.unlock_subject(conn)
            return held

        held = self._store.run(put_back)
        level, what = (logging.WARNING, "will be tried again") if counts else (logging.INFO, "is put back")
        _log.log(level, "%s of %s %s: %s", job.row.kind, job.row.title, what, error)
        return Worked("waiting" if held else "lost", error)


def _owner() -> str:
    # of this claim alone, so that two threads of a process exclude each other too
    return f"{server_identity()}:{uuids.uuid7()}"
