"""The operators' view of jobs (list, show, retry, cancel), and the sweep of those past their retention."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import product
from typing import Any, Final, Generic, TypeVar, cast
from uuid import UUID

from floecat.auth.authorizer import Privilege
from floecat.clock import Clock
from floecat.entries.calls import Call, Page
from floecat.errors import BadRequestError, ConflictError, NotFoundError
from floecat.identifiers.written_names import rewritten
from floecat.jobs.descriptions import JobInfo
from floecat.jobs.kinds import JobKind
from floecat.store.database.engine import Connection, Store
from floecat.store.database.errors import DuplicateKeyError
from floecat.store.jobs import job_claims, job_trees, jobs, leases
from floecat.store.jobs.jobs import FINISHED_STATES, OPEN_STATES, JobFilter, JobRow
from floecat.suggestions import did_you_mean, nearest
from floecat.working_memory import take_memory

__all__ = ["LONGEST_WAIT_MS", "JobOperations", "check_wait"]

_STATES: Final = (*OPEN_STATES, *FINISHED_STATES)
SETTLED_MS = 1_000
"""Age of ended jobs that are surely in the store: a transaction that commits later has a later time."""

_MOST_CHILDREN: Final = 10_000
_ROW_BYTES: Final = 1_000
_POLL_S: Final = 0.05
LONGEST_WAIT_MS: Final = 60_000
"""Longest time that a request waits for a job."""

I = TypeVar("I", bound=JobInfo)  # noqa: E741


class JobOperations(Generic[I]):
    """Jobs of some kinds, seen from outside. Safe to share between threads.

    Attributes:
        known: all kinds by name. Those that a job waits for are seen with it, of whatever kind.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        known: dict[str, JobKind] | None = None,
        *,
        only: Collection[str] = (),
        noun: str = "Job",
    ) -> None:
        """Takes what is seen.

        Args:
            known: all kinds by name, as others add them.
            only: names of those that are seen; all if empty.
            noun: what messages call a job.
        """
        self._store = store
        self._clock = clock
        self.known = {} if known is None else known
        self._only = only
        self._noun = noun

    def add(self, kind: JobKind) -> None:
        """Adds a kind of job."""
        self.known[kind.name] = kind

    def of(self, *kinds: str) -> JobOperations[Any]:
        """The jobs of some kinds."""
        return JobOperations(self._store, self._clock, self.known, only=kinds)

    @property
    def kinds(self) -> Mapping[str, JobKind]:
        """The kinds that are seen, by name."""
        return {name: kind for name, kind in self.known.items() if not self._only or name in self._only}

    def list(
        self,
        call: Call,
        *,
        kinds: Sequence[str] = (),
        states: Sequence[str] = (),
        title: str | None = None,
    ) -> list[I]:
        """Jobs of a catalog, oldest first.

        Args:
            kinds: the kinds that are wanted; all if empty.
            states: the states that are wanted, all if empty.
            title: what they are called, as `A:B.name` or `A.B.name` of a table; None for all.

        Raises:
            ForbiddenError: the principal may not read jobs.
            BadRequestError: there is no such kind or state.
        """
        wanted = self._filter(call, kinds, states, title)
        with self._store.read() as conn:
            return [self.describe(row) for row in jobs.list_all(conn, wanted)]

    def page(
        self,
        call: Call,
        states: Sequence[str],
        title: str | None,
        token: str | None,
        limit: int,
        *,
        kinds: Sequence[str] = (),
        parent: UUID | None = None,
    ) -> Page[I]:
        """A page of jobs, as large as one answer may be.

        Args:
            states: as of `list`.
            title: as of `list`.
            token: of the page before; None or empty for the first.
            limit: most jobs.
            kinds: as of `list`.
            parent: only jobs that this one waits for.

        Raises:
            ForbiddenError, BadRequestError: as `list`; or the token is of no listing of jobs.
            NotFoundError: there is no such parent.
            WorkingMemoryError: others held the memory all the time.
        """
        wanted = self._filter(call, kinds, states, title)
        if parent is not None:
            self._row(call, parent)
        try:
            after = UUID(token) if token else wanted.after
        except ValueError:
            raise BadRequestError("Invalid pageToken: not one of this listing") from None
        found = jobs.page_of(self._store, wanted._replace(parent_id=parent, after=after), limit)
        next_token = str(found.rows[-1].id) if found.has_more else None
        return Page([self.describe(row) for row in found.rows], next_token)

    def get(self, call: Call, job_id: UUID) -> I:
        """A job with those that it waits for.

        Raises:
            ForbiddenError: the principal may not read jobs.
            NotFoundError: there is no such job in the catalog.
            WorkingMemoryError: others held the memory all the time.
        """
        return self.shown(self._row(call, job_id))

    def shown(self, row: JobRow) -> I:
        """A job with those that it waits for."""
        wanted = JobFilter(row.catalog_id, list(product(self.known, _STATES)), parent_id=row.id)
        children = jobs.page_of(self._store, wanted, _MOST_CHILDREN).rows
        return self.describe(row, [self.known[child.kind].describe(child, None) for child in children])

    def describe(self, row: JobRow, children: Sequence[JobInfo] | None = None) -> I:
        """A job as it is listed, or with those that it waits for."""
        return cast("I", self.known[row.kind].describe(row, children))

    def tree(self, call: Call, job_id: UUID) -> I:
        """A job with all jobs below it, at most 10,000, level by level.

        Raises:
            ForbiddenError: the principal may not read jobs.
            NotFoundError: there is no such job in the catalog.
            WorkingMemoryError: others held the memory all the time.
        """
        row = self._row(call, job_id)
        with self._store.read() as conn:
            below = job_trees.below(conn, job_id, _MOST_CHILDREN)
        take_memory(sum(len(each.payload) + len(each.progress) + _ROW_BYTES for each in below))
        children: dict[UUID, list[JobInfo]] = {}
        # from below, so that each finds those that belong to it
        for each in reversed(below):
            if each.parent_id is not None and each.kind in self.known:
                own = children.pop(each.id, [])[::-1]
                children.setdefault(each.parent_id, []).append(self.known[each.kind].describe(each, own))
        return self.describe(row, children.get(job_id, [])[::-1])

    def wait(self, call: Call, job_id: UUID, wait_ms: int, told: Callable[[I], None] | None = None) -> I:
        """Waits until a job has ended, or for some time, and gives it as it is then.

        Args:
            wait_ms: how long to wait, at most a minute.
            told: called with the job now and then.

        Raises:
            ForbiddenError, NotFoundError: as `get`.
            BadRequestError: `wait_ms` is negative, or longer than a minute.
        """
        check_wait(wait_ms)
        deadline = time.monotonic() + wait_ms / 1000
        while (job := self.get(call, job_id)).is_open and time.monotonic() < deadline:
            if told is not None:
                told(job)
            time.sleep(_POLL_S)
        return job

    def retry(self, call: Call, job_id: UUID, *, parts: bool = False) -> I:
        """Makes a failed or cancelled job due now.

        Args:
            parts: whether jobs below it that failed or were cancelled are due, too, also if it succeeded.

        Raises:
            ForbiddenError: the principal may not read and manage jobs.
            NotFoundError: there is no such job in the catalog.
            ConflictError: it is in another state, or another job does the same.
        """
        row = self._managed(call, job_id)

        def retry(conn: Connection) -> bool:
            now_ms = self._clock.now_ms()
            anew = [kind.name for kind in self.known.values() if kind.is_retried_anew]
            below = job_trees.retry_below(conn, job_id, now_ms, anew) if parts else 0
            return jobs.retry(conn, job_id, now_ms, anew) or below > 0

        try:
            done = self._store.run(retry)
        except DuplicateKeyError:
            raise ConflictError(
                f"{self._noun} {job_id} cannot be retried: another open job does the same"
            ) from None
        if not done:
            more = ", and nothing below it failed" if parts else ""
            raise ConflictError(f"{self._noun} {job_id} cannot be retried: it is {row.state}{more}")
        return self.get(call, job_id)

    def cancel(self, call: Call, job_id: UUID, *, force: bool = False) -> I:
        """Cancels a job and all below it; what is being worked on stops before its next step.

        Args:
            force: cancels one that has begun, too, if that cannot be undone.

        Raises:
            ForbiddenError: the principal may not read and manage jobs.
            NotFoundError: there is no such job in the catalog.
            ConflictError: it is finished, or being cancelled, or has begun and needs force.
        """
        row = self._managed(call, job_id)
        unstarted = self.kinds[row.kind].is_irreversible and not force
        if self.cancel_row(row, unstarted=unstarted):
            return self.get(call, job_id)
        if unstarted and row.state not in ("succeeded", "cancelled"):
            raise ConflictError(f"{self._noun} {job_id} has begun: files may be gone. Cancel it with force")
        raise ConflictError(f"{self._noun} {job_id} cannot be cancelled: it is {row.state}")

    def cancel_row(self, row: JobRow, *, unstarted: bool = False) -> bool:
        """Cancels a job, and lets the next one about its subject begin.

        Args:
            unstarted: only if no worker ever had it.

        Returns:
            False if it is finished, being cancelled, or in another state than wanted.
        """
        cancel = jobs.cancel_unstarted if unstarted else job_trees.cancel
        lock = self.kinds[row.kind].lock_of(row.subject)

        def work(conn: Connection) -> bool:
            if not cancel(conn, row.id, self._clock.now_ms()):
                return False
            if lock is not None:
                leases.release(conn, lock, row.id)
            return True

        return self._store.run(work)

    # -- of all catalogs, for operators of all --------------------------------------------------------------

    def count(self) -> dict[tuple[str, str], int]:
        """The number of jobs by kind and state."""
        with self._store.read() as conn:
            found = jobs.count_by_state(conn)
        kinds = self.kinds
        return {named: count for named, count in found.items() if named[0] in kinds}

    def count_states(self) -> dict[str, int]:
        """The number of jobs by their state."""
        counts = dict.fromkeys(_STATES, 0)
        for (_, state), count in self.count().items():
            counts[state] += count
        return counts

    def oldest_open_ages_ms(self) -> dict[str, int]:
        """The age of the oldest open job of each kind; 0 if none is open."""
        now_ms = self._clock.now_ms()
        with self._store.read() as conn:
            oldest = jobs.oldest_open(conn)
        return {kind: max(0, now_ms - oldest.get(kind, now_ms)) for kind in self.kinds}

    def overdue(self, due_for_ms: int) -> int:
        """The number of jobs that have been due for some time, and that no worker took."""
        due_at_ms = self._clock.now_ms() - due_for_ms
        with self._store.read() as conn:
            return sum(jobs.count_due(conn, kind, due_at_ms) for kind in self.kinds)

    def failed(self, limit: int) -> Sequence[I]:
        """Jobs that failed for good; of each kind, what failed first comes first."""
        with self._store.read() as conn:
            rows = [row for kind in self.kinds for row in jobs.list_failed(conn, kind, limit)]
        return [self.describe(row) for row in rows[:limit]]

    def finished(self, after_ms: int, after_id: UUID, limit: int) -> Sequence[I]:
        """Jobs that ended, in whatever state, in the order of their ends.

        Args:
            after_ms: end of the last one that is known.
            after_id: its id.
            limit: most jobs.
        """
        until_ms = self._clock.now_ms() - SETTLED_MS
        with self._store.read() as conn:
            rows = [
                row
                for kind in self.kinds
                for row in jobs.list_finished(conn, kind, (after_ms, after_id), until_ms, limit)
            ]
        rows.sort(key=lambda row: (row.finished_at_ms or 0, row.id))
        return [self.describe(row) for row in rows[:limit]]

    def sweep(self, conn: Connection, now_ms: int, limit: int) -> int:
        """Ends cancellations whose worker died, and deletes jobs past their retention.

        Args:
            conn: of the transaction.
            now_ms: the time.
            limit: most jobs of each kind.

        Returns:
            How many were deleted of the kind that had most; `limit` if there may be more.
        """
        deleted = 0
        for kind in self.kinds.values():
            job_claims.end_abandoned_cancellations(conn, kind.name, now_ms)
            deleted = max(
                deleted, job_claims.delete_finished(conn, kind.name, now_ms - kind.retention_ms, limit)
            )
        return deleted

    # -- parts ----------------------------------------------------------------------------------------------

    def _filter(
        self, call: Call, kinds: Sequence[str], states: Sequence[str], title: str | None
    ) -> JobFilter:
        call.check((Privilege.READ_JOBS, call.on_catalog()))
        _require_known("kind", kinds, self.kinds)
        _require_known("state", states, _STATES)
        wanted = [
            (kind.name, state)
            for kind, state in product(self.kinds.values(), _STATES)
            if (not kinds or kind.name in kinds) and (not states or state in states)
        ]
        titles = (title, rewritten(title, call.catalog.schema_separator)) if title else ()
        return JobFilter(call.catalog.id, wanted, titles)

    def _row(self, call: Call, job_id: UUID) -> JobRow:
        call.check((Privilege.READ_JOBS, call.on_catalog()))
        with self._store.read() as conn:
            row = jobs.get(conn, job_id)
        if row is None or row.catalog_id != call.catalog.id or row.kind not in self.kinds:
            raise NotFoundError(f"{self._noun} does not exist: {job_id}")
        take_memory(len(row.payload) + len(row.progress) + len(row.last_error or ""))
        return row

    def _managed(self, call: Call, job_id: UUID) -> JobRow:
        row = self._row(call, job_id)
        call.check((Privilege.MANAGE_JOBS, call.on_catalog()))
        return row


def check_wait(wait_ms: int) -> int:
    """Refuses a time to wait for a job that is negative, or longer than a minute.

    Raises:
        BadRequestError: see above.
    """
    if not 0 <= wait_ms <= LONGEST_WAIT_MS:
        raise BadRequestError(f"Invalid wait: must be between 0 and {LONGEST_WAIT_MS // 1000} s")
    return wait_ms


def _require_known(what: str, given: Sequence[str], known: Collection[str]) -> None:
    for word in given:
        if word not in known:
            near = did_you_mean(nearest(word, known))
            raise BadRequestError(f"Invalid {what}: {word!r} is not one of {', '.join(known)}{near}")
