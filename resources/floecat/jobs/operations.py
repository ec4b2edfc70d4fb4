"""What operators do with jobs (list, retry, cancel), and the sweep of those past their retention."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from floecat.auth.authorizer import Privilege
from floecat.clock import Clock
from floecat.entries.calls import Call
from floecat.errors import ConflictError, NotFoundError
from floecat.jobs.kinds import JobKind
from floecat.store.database.engine import Connection, Store
from floecat.store.database.errors import DuplicateKeyError
from floecat.store.jobs import job_claims, jobs
from floecat.store.jobs.jobs import JobRow
from floecat.store.record_pages import Fetched

__all__ = ["JobOperations"]


class JobOperations:
    """Jobs of all kinds, seen from outside."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self.kinds: dict[str, JobKind] = {}

    def add(self, kind: JobKind) -> None:
        """Adds a kind of job."""
        self.kinds[kind.name] = kind

    def list(
        self,
        call: Call,
        *,
        kinds: Sequence[str] | None = None,
        states: Sequence[str] = (*jobs.OPEN_STATES, *jobs.FINISHED_STATES),
        title: str | None = None,
    ) -> list[JobRow]:
        """Jobs of a catalog, oldest first.

        Args:
            kinds: names of kinds; None for all.
            states: the states that are wanted.
            title: what they are called; None for all.

        Raises:
            ForbiddenError: the principal may not read jobs.
        """
        call.check((Privilege.READ_JOBS, call.on_catalog()))
        wanted = kinds or list(self.kinds)
        with self._store.read() as conn:
            return jobs.list_all(conn, call.catalog.id, wanted, states=states, title=title)

    def page(
        self,
        call: Call,
        kind: str,
        states: Sequence[str],
        title: str | None,
        after: UUID | None,
        limit: int,
    ) -> Fetched[JobRow]:
        """As many jobs of a kind as one answer may have, and whether there are more.

        Args:
            kind: its name.
            states: the states that are wanted.
            title: what they are called; None for all.
            after: id of the last job of the page before.
            limit: most jobs.

        Raises:
            ForbiddenError: the principal may not read jobs.
            WorkingMemoryError: others held the memory all the time.
        """
        call.check((Privilege.READ_JOBS, call.on_catalog()))
        catalog_id = call.catalog.id
        return jobs.page_of(
            self._store, catalog_id, [kind], states=states, title=title, after=after, limit=limit
        )

    def get(self, call: Call, job_id: UUID, privilege: Privilege = Privilege.READ_JOBS) -> JobRow:
        """A job of a catalog.

        Raises:
            ForbiddenError: the principal does not have the privilege on the catalog.
            NotFoundError: there is no such job.
        """
        call.check((privilege, call.on_catalog()))
        with self._store.read() as conn:
            row = jobs.get(conn, job_id)
        if row is None or row.catalog_id != call.catalog.id:
            raise NotFoundError(f"Job does not exist: {job_id}")
        return row

    def count(self) -> dict[tuple[str, str], int]:
        """How many jobs there are, by kind and state."""
        with self._store.read() as conn:
            return jobs.count_by_state(conn)

    def oldest_open_age_ms(self, kind: str) -> int:
        """How long ago the oldest open job of a kind was made; 0 if none is open."""
        with self._store.read() as conn:
            made_at_ms = jobs.oldest_open(conn, kind)
        return 0 if made_at_ms is None else max(0, self._clock.now_ms() - made_at_ms)

    def overdue(self, kind: str, due_for_ms: int) -> int:
        """How many jobs of a kind have been due for some time."""
        with self._store.read() as conn:
            return jobs.count_due(conn, kind, self._clock.now_ms() - due_for_ms)

    def failed(self, kind: str, limit: int) -> Sequence[JobRow]:
        """Jobs of a kind that failed for good, of all catalogs, oldest first."""
        with self._store.read() as conn:
            return jobs.list_failed(conn, kind, limit)

    def word(self, row: JobRow) -> str:
        """The state of a job in the words of its kind."""
        kind = self.kinds.get(row.kind)
        return row.state if kind is None else kind.word(row.state)

    def words(self) -> frozenset[str]:
        """What the states of jobs are called, over all kinds."""
        states = (*jobs.OPEN_STATES, *jobs.FINISHED_STATES)
        return frozenset(kind.word(state) for kind in self.kinds.values() for state in states)

    def retry(self, call: Call, job_id: UUID) -> JobRow:
        """Makes a failed or cancelled job due now.

        Raises:
            ForbiddenError: the principal may not manage jobs.
            NotFoundError: there is no such job.
            ConflictError: it is in another state, or another job does the same.
        """
        row = self.get(call, job_id, Privilege.MANAGE_JOBS)
        try:
            done = self._store.run(lambda conn: jobs.retry(conn, job_id, self._clock.now_ms()))
        except DuplicateKeyError:
            raise ConflictError(f"Job {job_id} cannot be retried: another open job does the same") from None
        if not done:
            raise ConflictError(f"Job {job_id} cannot be retried: it is {self.word(row)}")
        return self.get(call, job_id, Privilege.MANAGE_JOBS)

    def cancel(self, call: Call, job_id: UUID) -> JobRow:
        """Cancels a job; one that is being worked on stops before its next step.

        Raises:
            ForbiddenError: the principal may not manage jobs.
            NotFoundError: there is no such job.
            ConflictError: it is finished, or being cancelled.
        """
        row = self.get(call, job_id, Privilege.MANAGE_JOBS)
        if not self._store.run(lambda conn: jobs.cancel(conn, job_id, self._clock.now_ms())):
            raise ConflictError(f"Job {job_id} cannot be cancelled: it is {self.word(row)}")
        return self.get(call, job_id, Privilege.MANAGE_JOBS)

    def cancel_unstarted(self, call: Call, job_id: UUID) -> bool:
        """Cancels a job that no worker ever had.

        Returns:
            False if one had it, or the job is finished.

        Raises:
            ForbiddenError: the principal may not manage jobs.
            NotFoundError: there is no such job.
        """
        self.get(call, job_id, Privilege.MANAGE_JOBS)
        return self._store.run(lambda conn: jobs.cancel_unstarted(conn, job_id, self._clock.now_ms()))

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
