"""Purges as operators see them: the jobs of one kind, with what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import msgspec

from floecat.entries.calls import Call
from floecat.errors import BadRequestError, ConflictError, NotFoundError
from floecat.identifiers.namespace import TableIdentifier
from floecat.jobs.kinds import JobKind
from floecat.jobs.operations import JobOperations
from floecat.purge.deletion.progress import PurgeProgress, progress_of
from floecat.purge.entry_file_jobs import ENTRY_FILES
from floecat.purge.purge_jobs import PURGE, payload_of
from floecat.store.jobs.jobs import FINISHED_STATES, OPEN_STATES, JobRow
from floecat.store.record_pages import Fetched

__all__ = ["PurgeInfo", "PurgeOperations", "PurgeTotals"]

_STATES: Final = (*OPEN_STATES, *FINISHED_STATES)


class PurgeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A purge. Times in ms since the epoch."""

    id: UUID
    identifier: TableIdentifier
    """Name of the table when it was dropped."""
    table_uuid: str
    location: str
    metadata_location: str
    format: str
    purger: str
    state: str
    """`PENDING`, `RUNNING`, `SUCCEEDED`, `DEAD_LETTER` or `CANCELLED`."""
    attempts: int
    max_attempts: int
    progress: PurgeProgress
    cancel_requested: bool
    created_by: str
    request_id: str | None
    worker: str | None
    """`host:pid:uuid` of who works on it, or `host:pid` of who did last."""
    last_error: str | None
    created_at_ms: int
    started_at_ms: int | None
    due_at_ms: int | None
    """When a pending one is worked on next."""
    updated_at_ms: int
    finished_at_ms: int | None

    @property
    def is_open(self) -> bool:
        """Whether it will be worked on, or is."""
        return self.finished_at_ms is None


class PurgeTotals(msgspec.Struct, frozen=True):
    """All purges of all catalogs."""

    jobs: dict[str, int]
    """How many are in each state."""
    oldest_open_age_ms: int
    """Since the drop; 0 if none is open."""


class PurgeOperations:
    """Lists, shows, retries and cancels purges."""

    def __init__(self, jobs: JobOperations, kind: JobKind) -> None:
        self._jobs = jobs
        self._kind = kind

    @property
    def states(self) -> Sequence[str]:
        """What states are called."""
        return tuple(dict.fromkeys(map(self._kind.word, _STATES)))

    def list(
        self,
        call: Call,
        *,
        states: Sequence[str] = (),
        table: str | None = None,
    ) -> list[PurgeInfo]:
        """Purges of a catalog, oldest first.

        Args:
            states: the states that are wanted, as `states` calls them; all if empty.
            table: only purges of tables that had this name, as `outer.inner.name`.

        Raises:
            ForbiddenError: the principal may not read jobs.
            BadRequestError: there is no such state.
        """
        rows = self._jobs.list(call, kinds=[PURGE], states=self._wanted(states), title=table)
        return [self._info(row) for row in rows]

    def page(
        self, call: Call, states: Sequence[str], table: str | None, after: UUID | None, limit: int
    ) -> Fetched[PurgeInfo]:
        """As many purges as one answer may have, and whether there are more.

        Args:
            states: as of `list`.
            table: as of `list`.
            after: id of the last purge of the page before.
            limit: most purges.

        Raises:
            ForbiddenError, BadRequestError: as `list`.
            WorkingMemoryError: others held the memory all the time.
        """
        found = self._jobs.page(call, PURGE, self._wanted(states), table, after, limit)
        return Fetched([self._info(row) for row in found.rows], found.has_more)

    def _wanted(self, states: Sequence[str]) -> Sequence[str]:
        for state in states:
            if state not in self.states:
                raise BadRequestError(f"Invalid state: {state!r} is not one of {', '.join(self.states)}")
        return [state for state in _STATES if not states or self._kind.word(state) in states]

    def get(self, call: Call, purge_id: UUID) -> PurgeInfo:
        """One purge.

        Raises:
            ForbiddenError: the principal may not read jobs.
            NotFoundError: there is no such purge.
        """
        return self._info(_of_kind(self._jobs.get(call, purge_id)))

    def retry(self, call: Call, purge_id: UUID) -> PurgeInfo:
        """Makes a purge due now that failed for good or was cancelled.

        Raises:
            ForbiddenError: the principal may not manage jobs.
            NotFoundError: there is no such purge.
            ConflictError: it is in another state.
        """
        _of_kind(self._jobs.get(call, purge_id))
        return self._info(self._jobs.retry(call, purge_id))

    def cancel(self, call: Call, purge_id: UUID, *, force: bool = False) -> PurgeInfo:
        """Cancels a purge that no worker has begun: every file of the table is left.

        Args:
            purge_id: the purge.
            force: cancels one that has begun too; it stops before its next batch of files.

        Raises:
            ForbiddenError: the principal may not manage jobs.
            NotFoundError: there is no such purge.
            ConflictError: it is finished, or has begun and `force` is not given.
        """
        row = _of_kind(self._jobs.get(call, purge_id))
        if force:
            return self._info(self._jobs.cancel(call, purge_id))
        if self._jobs.cancel_unstarted(call, purge_id):
            return self.get(call, purge_id)
        if row.state in ("succeeded", "cancelled"):
            raise ConflictError(f"Purge {purge_id} cannot be cancelled: it is {self._jobs.word(row)}")
        raise ConflictError(f"Purge {purge_id} has begun: files may be gone. Cancel it with force")

    def totals(self) -> PurgeTotals:
        """All purges of all catalogs, as numbers."""
        jobs = dict.fromkeys(self.states, 0)
        for (kind, state), count in self._jobs.count().items():
            if kind == PURGE:
                jobs[self._kind.word(state)] += count
        return PurgeTotals(jobs, self._jobs.oldest_open_age_ms(PURGE))

    def left_over(self, due_for_ms: int) -> int:
        """How many purges of all catalogs have been due for some time, and no worker took them.

        Jobs that delete what the catalog wrote for itself about a removed table count, too.
        """
        return sum(self._jobs.overdue(kind, due_for_ms) for kind in (PURGE, ENTRY_FILES))

    def dead_letters(self, limit: int) -> Sequence[PurgeInfo]:
        """Purges of all catalogs that have used up their attempts, oldest first. For operators of all."""
        return [self._info(row) for row in self._jobs.failed(PURGE, limit)]

    def _info(self, row: JobRow) -> PurgeInfo:
        payload = payload_of(row)
        progress = progress_of(row)
        return PurgeInfo(
            id=row.id,
            identifier=payload.identifier,
            table_uuid=payload.table_uuid,
            location=payload.location,
            metadata_location=payload.metadata_location,
            format=payload.format,
            purger=payload.purger,
            state=self._kind.word(row.state),
            attempts=row.attempts,
            max_attempts=row.max_attempts,
            progress=progress,
            cancel_requested=row.cancel_requested,
            created_by=row.created_by,
            request_id=row.request_id,
            worker=row.lease_owner or progress.server or None,
            last_error=row.last_error,
            created_at_ms=row.created_at_ms,
            started_at_ms=row.started_at_ms,
            due_at_ms=row.not_before_ms if row.state in ("queued", "waiting") else None,
            updated_at_ms=row.updated_at_ms,
            finished_at_ms=row.finished_at_ms,
        )


def _of_kind(row: JobRow) -> JobRow:
    if row.kind != PURGE:
        raise NotFoundError(f"Job does not exist: {row.id}")
    return row
