"""Kinds of jobs: the work, its time limits and attempts, and the names of the states."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from uuid import UUID

import msgspec
import uuid_utils.compat as uuids

from floecat.jobs.descriptions import JobInfo
from floecat.jobs.running_job import RunningJob
from floecat.store.jobs.job_claims import FIRST_TURN
from floecat.store.jobs.jobs import JobRow

__all__ = ["Backoff", "Describe", "Ended", "JobKind", "Turns", "Work"]

_MAX_DOUBLINGS = 40

Work = Callable[[RunningJob], str | None]
"""Does a job. Returns a note for the log, if any; raises `FloecatError` for a failed attempt."""

Ended = Callable[[RunningJob, str, str | None], None]
"""Is told of a job that ended, with its state and error."""

Describe = Callable[[JobRow, Sequence[JobInfo] | None], JobInfo]
"""Describes a job to operators, with those that it waits for, which are None in a listing."""


class Backoff:
    """Delays that double from attempt to attempt up to a bound, each shortened at random by up to a half.

    The randomness keeps jobs that failed together from coming back together.

    Attributes:
        base_ms: the delay after the first attempt.
        max_ms: no delay is longer.
    """

    def __init__(
        self,
        *,
        base_ms: int = 30_000,
        max_ms: int = 3_600_000,
        random_fraction: Callable[[], float] = random.random,  # from 0 to below 1
    ) -> None:
        self.base_ms = base_ms
        self.max_ms = max_ms
        self._random_fraction = random_fraction

    def delay_ms(self, attempts: int) -> int:
        """The wait after a number of attempts, at least one."""
        doublings = min(max(attempts, 1) - 1, _MAX_DOUBLINGS)
        longest = min(self.max_ms, self.base_ms << doublings)
        return int(longest * (1 - self._random_fraction() / 2))


class Turns:
    """Accounts take turns at the jobs of a kind, so that many jobs of one keep no other waiting.

    Attributes:
        last: the account of the job that this process claimed last.
    """

    def __init__(self) -> None:
        self.last = FIRST_TURN


class JobKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of job."""

    name: str
    work: Work
    lease_ms: int
    """Time that a worker owns a job without renewing."""
    max_attempts: int
    """Attempts of a job before it fails for good; one that ended with its process counts."""
    backoff: Backoff
    """Wait of a job after a failed attempt."""
    retention_ms: int
    """Time that a job is kept after it succeeded or was cancelled."""
    lock: str | None = None
    """Name of a lock: of the jobs with it that are about one subject, one works at a time. It keeps the lock
    while it is put back; its parts, which have the same lock, extend it."""
    is_part: bool = False
    """Whether its jobs are parts of the job that waits for them, and work under its lock."""
    describe: Describe = JobInfo.of
    is_irreversible: bool = False
    """Whether its work cannot be undone: one that has begun is cancelled by force alone."""
    is_retried_anew: bool = False
    """Whether a job that is retried forgets how far it was."""
    ended: Ended | None = None
    """Called by the worker that ended a job, with the state and the error; must not raise."""
    turns: Turns = msgspec.field(default_factory=Turns)
    """Turns in this process, for all queues of the kind."""

    def new_job(
        self,
        *,
        account_id: UUID,
        catalog_id: UUID,
        title: str,
        subject: str,
        payload: msgspec.Struct,
        created_by: str,
        now_ms: int,
        resource: str = "",
        parent_id: UUID | None = None,
        dedup_key: str | None = None,
        request_id: str | None = None,
    ) -> JobRow:
        """A job of this kind that is due at once; see `JobRow` for the arguments.

        Args:
            account_id: whose job it is.
            catalog_id: the catalog that it belongs to.
            title: what a person calls it.
            subject: what it is about, by an id that does not change.
            payload: what its worker needs, encoded as JSON.
            created_by: the principal that asked for it.
            resource: the location that it works on.
            parent_id: the job that it belongs to.
            dedup_key: no two open jobs of the kind have the same one.
            request_id: of the request that asked for it.
        """
        return JobRow(
            id=uuids.uuid7(),
            account_id=account_id,
            catalog_id=catalog_id,
            kind=self.name,
            title=title,
            subject=subject,
            resource=resource,
            payload=msgspec.json.encode(payload).decode(),
            max_attempts=self.max_attempts,
            not_before_ms=now_ms,
            parent_id=parent_id,
            dedup_key=dedup_key,
            created_by=created_by,
            request_id=request_id,
            created_at_ms=now_ms,
            updated_at_ms=now_ms,
        )

    def new_job_about(
        self,
        other: JobRow,
        payload: msgspec.Struct,
        now_ms: int,
        *,
        dedup_key: str,
        parent_id: UUID | None = None,
    ) -> JobRow:
        """A job of this kind about the same as a job of another kind; see `new_job`."""
        return self.new_job(
            account_id=other.account_id,
            catalog_id=other.catalog_id,
            title=other.title,
            subject=other.subject,
            payload=payload,
            created_by=other.created_by,
            now_ms=now_ms,
            parent_id=parent_id,
            dedup_key=dedup_key,
        )

    def lock_of(self, subject: str) -> str | None:
        """Name of the lease that locks a subject."""
        return None if self.lock is None else f"{self.lock}:{subject}"
