"""Purge jobs: files of dropped tables that wait to be deleted.

A worker claims due jobs for the time of a lease and renews it while it works. When the lease runs out the job
is due again, for any worker; the one before can neither renew nor finish it then. A row holds no credentials.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import msgspec
import sqlalchemy as sa

from floecat.store.connections import Connection
from floecat.store.schema import purge_jobs as _jobs
from floecat.store.statements import LIMIT, NO_LIMIT

__all__ = [
    "PurgeJobRow",
    "claim_due",
    "count_by_state",
    "delete_finished",
    "document",
    "fail",
    "finish",
    "get",
    "insert",
    "is_open_for",
    "is_open_in",
    "list_all",
    "next_due_at_ms",
    "renew",
    "retry",
]

_COLUMNS: Final = (
    _jobs.c.id,
    _jobs.c.catalog_id,
    _jobs.c.entry_id,
    _jobs.c.object_uuid,
    _jobs.c.identifier,
    _jobs.c.location,
    _jobs.c.metadata_location,
    _jobs.c.state,
    _jobs.c.attempts,
    _jobs.c.next_attempt_at_ms,
    _jobs.c.lease_owner,
    _jobs.c.lease_expires_at_ms,
    _jobs.c.last_error,
    _jobs.c.deleted_files,
    _jobs.c.created_at_ms,
    _jobs.c.finished_at_ms,
    _jobs.c.format,
)
_OPEN: Final = _jobs.c.finished_at_ms.is_(None)
_INSERT: Final = sa.insert(_jobs)
_GET: Final = sa.select(*_COLUMNS).where(_jobs.c.id == sa.bindparam("id"))
_DOCUMENT: Final = sa.select(_jobs.c.document).where(_jobs.c.id == sa.bindparam("id"))
# the bound on the time, which every job keeps, leads into the index of the open jobs
_IS_OPEN_FOR: Final = (
    sa.select(_jobs.c.id)
    .where(
        _OPEN,
        _jobs.c.next_attempt_at_ms >= 0,
        sa.or_(
            sa.func.lower(_jobs.c.object_uuid) == sa.bindparam("object_uuid"),
            _jobs.c.metadata_location == sa.bindparam("metadata_location"),
        ),
    )
    .limit(1)
)
_IS_OPEN_IN: Final = (
    sa.select(_jobs.c.id)
    .where(
        _OPEN,
        _jobs.c.next_attempt_at_ms >= 0,
        _jobs.c.format == "delta",
        _jobs.c.location == sa.bindparam("location"),
    )
    .limit(1)
)
# `next_attempt_at_ms` of a running job is the end of its lease, so one ordered index finds all that is due.
# SQLite leaves SKIP LOCKED out, and does not need it: its transactions take turns. A subquery in place of the
# common table expression might run once for every row, and lock more jobs than it should.
_due: Final = (
    sa.select(_jobs.c.id)
    .where(_OPEN, _jobs.c.next_attempt_at_ms <= sa.bindparam("now_ms"))
    .order_by(_jobs.c.next_attempt_at_ms)
    .limit(LIMIT)
    .with_for_update(skip_locked=True)
    .cte("due")
)
_CLAIM: Final = (
    sa.update(_jobs)
    .where(_jobs.c.id.in_(sa.select(_due.c.id)))
    .values(
        state="running",
        attempts=_jobs.c.attempts + 1,
        lease_owner=sa.bindparam("owner"),
        lease_expires_at_ms=sa.bindparam("lease_ends_at_ms"),
        next_attempt_at_ms=sa.bindparam("lease_ends_at_ms"),
    )
    .returning(*_COLUMNS)
)
_HELD: Final = (_jobs.c.id == sa.bindparam("job_id"), _jobs.c.lease_owner == sa.bindparam("holder"), _OPEN)
_FREE: Final = {"lease_owner": sa.null(), "lease_expires_at_ms": sa.null()}
_RENEW: Final = (
    sa.update(_jobs)
    .where(*_HELD)
    .values(
        lease_expires_at_ms=sa.bindparam("lease_ends_at_ms"),
        next_attempt_at_ms=sa.bindparam("lease_ends_at_ms"),
    )
)
_FINISH: Final = (
    sa.update(_jobs)
    .where(*_HELD)
    .values(
        state="done",
        deleted_files=_jobs.c.deleted_files + sa.bindparam("more_files"),
        last_error=sa.null(),
        document=sa.null(),
        finished_at_ms=sa.bindparam("ended_at_ms"),
        **_FREE,
    )
)
_FAIL: Final = (
    sa.update(_jobs)
    .where(*_HELD)
    .values(
        state=sa.bindparam("new_state"),
        deleted_files=_jobs.c.deleted_files + sa.bindparam("more_files"),
        last_error=sa.bindparam("error"),
        next_attempt_at_ms=sa.bindparam("retry_at_ms"),
        finished_at_ms=sa.bindparam("ended_at_ms"),
        **_FREE,
    )
)
_RETRY: Final = (
    sa.update(_jobs)
    .where(_jobs.c.id == sa.bindparam("job_id"), _jobs.c.state == "dead")
    .values(
        state="pending",
        attempts=0,
        next_attempt_at_ms=sa.bindparam("now_ms"),
        finished_at_ms=sa.null(),
        **_FREE,
    )
)
_NEXT_DUE: Final = sa.select(sa.func.min(_jobs.c.next_attempt_at_ms)).where(_OPEN)
_COUNT: Final = sa.select(_jobs.c.state, sa.func.count()).group_by(_jobs.c.state)
_LIST: Final = (
    sa.select(*_COLUMNS)
    .where(
        _jobs.c.catalog_id == sa.bindparam("catalog_id"),
        _jobs.c.state.in_(sa.bindparam("states", expanding=True)),
        _jobs.c.id > sa.bindparam("after"),
    )
    .order_by(_jobs.c.id)
    .limit(LIMIT)
)
_doomed: Final = (
    sa.select(_jobs.c.id)
    .where(_jobs.c.state == "done", _jobs.c.finished_at_ms < sa.bindparam("before_ms"))
    .order_by(_jobs.c.finished_at_ms)
    .limit(LIMIT)
)
_DELETE_FINISHED: Final = sa.delete(_jobs).where(_jobs.c.id.in_(_doomed))
_FIRST_ID: Final = UUID(int=0)
_STATES: Final = ("pending", "running", "done", "dead")


class PurgeJobRow(msgspec.Struct, frozen=True):
    """A job, and how far it has come."""

    id: UUID
    catalog_id: UUID
    entry_id: UUID
    object_uuid: str
    identifier: str
    """Name of the table when it was dropped."""
    location: str
    metadata_location: str
    """Root of what is reachable, and the last file to go."""
    state: str = "pending"
    """`pending`, `running`, `done`, or `dead` once it is given up."""
    attempts: int = 0
    """How often it was claimed since it was made or retried."""
    next_attempt_at_ms: int = 0
    """When it is due; for a running job the end of its lease."""
    lease_owner: UUID | None = None
    lease_expires_at_ms: int | None = None
    last_error: str | None = None
    deleted_files: int = 0
    """Over all attempts."""
    created_at_ms: int = 0
    finished_at_ms: int | None = None
    format: str = "iceberg"
    """As that of the entry: of a `delta` table only the files go that were made for Iceberg readers."""
    document: bytes | None = None
    """The metadata document as `floecat.store.documents` compressed it. Only `insert` looks at it."""


def insert(conn: Connection, job: PurgeJobRow) -> None:
    """Inserts a job, in the transaction that drops the table.

    Raises:
        ForeignKeyError: there is no such catalog.
    """
    conn.change(_INSERT, msgspec.structs.asdict(job))


def get(conn: Connection, job_id: UUID) -> PurgeJobRow | None:
    """The job of this id."""
    row = conn.first(_GET, {"id": job_id})
    return None if row is None else PurgeJobRow(*row)


def document(conn: Connection, job_id: UUID) -> bytes | None:
    """The compressed metadata document of a job; `None` if it has none, or none any more since it is done."""
    row = conn.first(_DOCUMENT, {"id": job_id})
    return None if row is None else row[0]


def is_open_for(conn: Connection, object_uuid: str, metadata_location: str) -> bool:
    """Whether files of a table wait to be deleted, or are being deleted, in any catalog.

    Args:
        conn: a connection.
        object_uuid: `table-uuid` of the table; upper and lower case are one.
        metadata_location: its metadata file. A job for either counts.
    """
    parameters = {"object_uuid": object_uuid.lower(), "metadata_location": metadata_location}
    return conn.first(_IS_OPEN_FOR, parameters) is not None


def is_open_in(conn: Connection, location: str) -> bool:
    """Whether files that were made for a Delta table at this location are being deleted, in any catalog."""
    return conn.first(_IS_OPEN_IN, {"location": location}) is not None


def list_all(
    conn: Connection,
    catalog_id: UUID,
    *,
    states: Sequence[str] = _STATES,
    after: UUID | None = None,
    limit: int | None = None,
) -> list[PurgeJobRow]:
    """Jobs of a catalog in some states, oldest first.

    Args:
        conn: a connection.
        catalog_id: the catalog.
        states: the states that are wanted.
        after: id of the last job of the page before.
        limit: most jobs; `None` for all.
    """
    parameters = {
        "catalog_id": catalog_id,
        "states": list(states),
        "after": after or _FIRST_ID,
        "limit": NO_LIMIT if limit is None else limit,
    }
    return [PurgeJobRow(*row) for row in conn.all(_LIST, parameters)]


def count_by_state(conn: Connection) -> dict[str, int]:
    """How many jobs are in each state; a state without jobs is left out."""
    return {row[0]: row[1] for row in conn.all(_COUNT)}


def next_due_at_ms(conn: Connection) -> int | None:
    """When the next job is or was due; `None` if none is open."""
    row = conn.first(_NEXT_DUE)
    return None if row is None else row[0]


def claim_due(conn: Connection, owner: UUID, now_ms: int, lease_ms: int, limit: int) -> list[PurgeJobRow]:
    """Claims jobs that are due, those that wait longest first. No job goes to two owners.

    Args:
        conn: a transaction of its own.
        owner: the worker.
        now_ms: the time.
        lease_ms: how long the jobs are the owner's without `renew`.
        limit: most jobs.

    Returns:
        The claimed jobs as they are now, oldest first.
    """
    parameters = {"owner": owner, "now_ms": now_ms, "lease_ends_at_ms": now_ms + lease_ms, "limit": limit}
    claimed = [PurgeJobRow(*row) for row in conn.all(_CLAIM, parameters)]
    return sorted(claimed, key=lambda job: job.id)


def renew(conn: Connection, job_id: UUID, owner: UUID, now_ms: int, lease_ms: int) -> bool:
    """Extends the lease of a job.

    Returns:
        False if the job is not the owner's any more: it must stop.
    """
    parameters = {"job_id": job_id, "holder": owner, "lease_ends_at_ms": now_ms + lease_ms}
    return conn.change(_RENEW, parameters) == 1


def finish(conn: Connection, job_id: UUID, owner: UUID, *, deleted_files: int, now_ms: int) -> bool:
    """Marks a job as done.

    Returns:
        False if the job is not the owner's any more.
    """
    parameters = {"job_id": job_id, "holder": owner, "more_files": deleted_files, "ended_at_ms": now_ms}
    return conn.change(_FINISH, parameters) == 1


def fail(
    conn: Connection,
    job_id: UUID,
    owner: UUID,
    *,
    error: str,
    retry_at_ms: int | None,
    deleted_files: int,
    now_ms: int,
) -> bool:
    """Gives a job back after a failed attempt.

    Args:
        conn: a transaction.
        job_id: the job.
        owner: the worker.
        error: what went wrong, without credentials.
        retry_at_ms: when it is due again; `None` gives it up.
        deleted_files: how many files this attempt deleted.
        now_ms: the time.

    Returns:
        False if the job is not the owner's any more.
    """
    dead = retry_at_ms is None
    parameters = {
        "job_id": job_id,
        "holder": owner,
        "new_state": "dead" if dead else "pending",
        "more_files": deleted_files,
        "error": error,
        "retry_at_ms": now_ms if dead else retry_at_ms,
        "ended_at_ms": now_ms if dead else None,
    }
    return conn.change(_FAIL, parameters) == 1


def retry(conn: Connection, job_id: UUID, now_ms: int) -> bool:
    """Makes a dead job due again, with its attempts counted anew.

    Returns:
        False if there is no such job, or it is not dead.
    """
    return conn.change(_RETRY, {"job_id": job_id, "now_ms": now_ms}) == 1


def delete_finished(conn: Connection, before_ms: int, limit: int) -> int:
    """Deletes jobs that were done before a time, oldest first. Dead jobs stay until somebody looks.

    Returns:
        How many; fewer than `limit` when none are left.
    """
    return conn.change(_DELETE_FINISHED, {"before_ms": before_ms, "limit": limit})
