"""Trees of jobs: a job, those that belong to it, and all below them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from uuid import UUID

import sqlalchemy as sa

from floecat.store.database.connections import Connection
from floecat.store.database.statements import LIMIT
from floecat.store.jobs.jobs import CANCELLED, JOB_COLUMNS, RETRIED, UNSUCCESSFUL, JobRow, job_row
from floecat.store.schema import jobs as _jobs

__all__ = ["below", "cancel", "retry_below"]


def cancel(conn: Connection, job_id: UUID, now_ms: int) -> bool:
    """Cancels a job with all jobs below it.

    One that runs is asked to stop, and is `cancelled` once its worker has. What such a worker makes in the
    meantime is cancelled by itself: it finds its own job cancelled.

    Returns:
        False if there is no such job, or it is finished or being cancelled, and so is all below it.
    """
    parameters = {"job_id": job_id, "now_ms": now_ms}
    cancelled = conn.change(_CANCEL_IDLE, parameters) + conn.change(_CANCEL_RUNNING, parameters)
    for parents in _levels(conn, job_id):
        below_them = {"parent_ids": parents, "now_ms": now_ms}
        for statement in (_CANCEL_IDLE_BELOW, _CANCEL_RUNNING_BELOW):
            cancelled += conn.change(statement, below_them)
    return cancelled > 0


def retry_below(conn: Connection, job_id: UUID, now_ms: int, anew: Sequence[str] = ()) -> int:
    """Makes jobs below a job due now that failed for good or were cancelled, and whose parent did not.

    A parent that failed makes those that it needs again.

    Args:
        conn: a transaction.
        anew: kinds whose jobs forget how far they were.

    Returns:
        Number of jobs.

    Raises:
        DuplicateKeyError: another open job does the same as one of them.
    """
    retried = 0
    # from below, so that each finds its parent as it ended
    for parents in reversed(list(_levels(conn, job_id))):
        parameters = {"parent_ids": parents, "now_ms": now_ms, "anew": anew or [""]}
        retried += conn.change(_RETRY_BELOW, parameters)
    return retried


def below(conn: Connection, job_id: UUID, limit: int) -> list[JobRow]:
    """The jobs below a job, level by level, the oldest of each first.

    Args:
        limit: most jobs.
    """
    found: list[JobRow] = []
    parents = [job_id]
    while parents and len(found) < limit:
        rows = conn.all(_LEVEL, {"parent_ids": parents[:_AT_ONCE], "limit": limit - len(found)})
        level = [job_row(row) for row in rows]
        found += level
        parents = parents[_AT_ONCE:] + [each.id for each in level]
    return found


def _levels(conn: Connection, job_id: UUID) -> Iterator[list[UUID]]:
    """A job, then the ids of those below it, by at most so many at once as a statement takes."""
    parents = [job_id]
    while parents:
        some, parents = parents[:_AT_ONCE], parents[_AT_ONCE:]
        yield some
        parents += [row[0] for row in conn.all(_CHILD_IDS, {"parent_ids": some})]


_AT_ONCE: Final = 500
_OF_PARENTS: Final = (
    _jobs.c.parent_id.in_(sa.bindparam("parent_ids", expanding=True)),
    _jobs.c.parent_id.is_not(None),
)
_CHILD_IDS: Final = sa.select(_jobs.c.id).where(*_OF_PARENTS)
_LEVEL: Final = sa.select(*JOB_COLUMNS).where(*_OF_PARENTS).order_by(_jobs.c.id).limit(LIMIT)
_IS_JOB: Final = _jobs.c.id == sa.bindparam("job_id")
_IS_RUNNING: Final = _jobs.c.state == "running"
_STOPPED: Final = sa.update(_jobs).values(
    state="cancelling", cancel_requested=sa.true(), updated_at_ms=sa.bindparam("now_ms")
)
_CANCEL_IDLE: Final = CANCELLED.where(_IS_JOB, _jobs.c.state.in_(("queued", "waiting", "failed")))
_CANCEL_RUNNING: Final = _STOPPED.where(_IS_JOB, _IS_RUNNING)
_CANCEL_IDLE_BELOW: Final = CANCELLED.where(*_OF_PARENTS, _jobs.c.state.in_(("queued", "waiting")))
_CANCEL_RUNNING_BELOW: Final = _STOPPED.where(*_OF_PARENTS, _IS_RUNNING)
_parents: Final = _jobs.alias()
_RETRY_BELOW: Final = RETRIED.where(
    *_OF_PARENTS,
    ~sa.exists().where(_parents.c.id == _jobs.c.parent_id, _parents.c.state.in_(UNSUCCESSFUL)),
)
