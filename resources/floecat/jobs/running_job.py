"""A job as its worker holds it, by a lease that it renews."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from floecat.clock import Clock
from floecat.errors import FloecatError
from floecat.store.database.engine import Connection, Store
from floecat.store.jobs import job_claims, jobs, leases
from floecat.store.jobs.job_claims import Lease
from floecat.store.jobs.jobs import DEFAULT_LANE, JobRow
from floecat.store.jobs.leases import HeldLease, LeaseLostError

__all__ = [
    "JobAbandonedError",
    "JobCancelledError",
    "JobFailedError",
    "JobPostponedError",
    "RunningJob",
    "WorkerStoppedError",
]

_PROGRESS_INTERVAL_S = 1.0

_T = TypeVar("_T")


class JobAbandonedError(Exception):
    """The job is left as by a worker that was killed: it is due again after its lease and a back-off.

    Its text says why, for operators.
    """


class JobFailedError(FloecatError):
    """The job fails for good: another attempt would end in the same way."""


class JobCancelledError(Exception):
    """An operator cancelled the job."""


class JobPostponedError(Exception):
    """The job is given back without an attempt: workers of another lane may take it at once.

    Attributes:
        reason: why, for operators.
        until_ms: when it is due for all workers.
        lane: of those who may take it before.
    """

    def __init__(self, reason: str, until_ms: int, lane: str = DEFAULT_LANE) -> None:
        self.reason = reason
        self.until_ms = until_ms
        self.lane = lane


class WorkerStoppedError(Exception):
    """The worker was asked to stop; the job is given back."""


class RunningJob:
    """A claimed job, as a context in which its lease is renewed.

    Attributes:
        row: the job when it was claimed.
        store: holds the job.
        clock: the time.
        lease: names the claim.
        progress: JSON values over all attempts, by name. Stored at steps at most once a second, with every
            renewal, and at the end.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        row: JobRow,
        lease_ms: int,
        stopped: Callable[[], bool],
        lock: str | None = None,
        *,
        is_part: bool = False,
    ) -> None:
        self.row = row
        self.clock = clock
        self.lease = Lease(row.id, row.lease_owner or "", row.lease_epoch)
        self.progress: dict[str, Any] = msgspec.json.decode(row.progress)
        self.store = store
        self._lease_ms = lease_ms
        self._lock = lock
        # a part extends the lock of the job that waits for it
        self._holder = row.parent_id if is_part and row.parent_id else row.id
        self._stopped = stopped
        self._cancelled = False
        self.stored_at = time.monotonic()
        self._held = HeldLease(
            f"{row.kind} job {row.id}", self._renew, duration_ms=lease_ms, taken_at=time.monotonic()
        )

    def check(self) -> None:
        """Returns if the work may go on. Called before every step that cannot be undone.

        Raises:
            LeaseLostError: the job may be another worker's.
            JobCancelledError: the job is to be cancelled.
            WorkerStoppedError: the worker is to stop.
        """
        self._held.check()
        if time.monotonic() - self.stored_at >= _PROGRESS_INTERVAL_S:
            # if the store is away, the lease still stands
            with suppress(FloecatError):
                if not self._renew():
                    raise LeaseLostError
        if self._cancelled:
            raise JobCancelledError
        if self._stopped():
            raise WorkerStoppedError

    def attachment(self) -> bytes | None:
        """The bytes that were stored with the job."""
        with self.store.read() as conn:
            return jobs.attachment(conn, self.row.id)

    def submit(self, write: Callable[[Connection], _T]) -> _T:
        """Writes, in one transaction, if the job is still this worker's. Stores the progress with it.

        Args:
            write: may be called again if the transaction fails.

        Returns:
            What it returns.

        Raises:
            LeaseLostError: the job is another worker's.
            JobCancelledError: it is to be cancelled.
        """
        progress = self.encoded_progress()

        def write_if_held(conn: Connection) -> _T:
            cancelled = self._extend(conn, progress)
            if cancelled is None:
                raise LeaseLostError
            if cancelled:
                raise JobCancelledError
            return write(conn)

        return self.store.run(write_if_held)

    def lock_subject(self) -> bool:
        """Takes the lock of the job, if it has one; returns False if another job has taken it."""
        lock, now_ms = self._lock, self.clock.now_ms()
        if lock is None or self._holder != self.row.id:
            return True
        return self.store.run(lambda conn: leases.acquire(conn, lock, self._holder, now_ms, self._lease_ms))

    def unlock_subject(self, conn: Connection) -> None:
        """Releases the lock of the job, in the transaction in which the job ends or is given back."""
        if self._lock is not None and self._holder == self.row.id:
            leases.release(conn, self._lock, self._holder)

    def encoded_progress(self) -> str:
        """The progress as JSON."""
        return msgspec.json.encode(dict(self.progress)).decode()

    def __enter__(self) -> RunningJob:
        self._held.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.__exit__(kind, error, trace)

    def _renew(self) -> bool:
        self.stored_at = time.monotonic()
        progress = self.encoded_progress()

        def renew(conn: Connection) -> bool | None:
            cancelled = self._extend(conn, progress)
            if self._lock is not None and cancelled is False:
                leases.renew(conn, self._lock, self._holder, self.clock.now_ms(), self._lease_ms)
            return cancelled

        cancelled = self.store.run(renew)
        self._cancelled = self._cancelled or cancelled is True
        return cancelled is not None

    def _extend(self, conn: Connection, progress: str) -> bool | None:
        return job_claims.renew(conn, self.lease, progress, self.clock.now_ms(), self._lease_ms)
