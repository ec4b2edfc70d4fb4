"""Jobs: work that outlives the request that asked for it, one row each.

A worker claims a job for the time of a lease and renews it while it works. Every claim raises the lease
epoch, and only the holder of the newest epoch can renew or finish the job. A claim whose lease ends
unreleased, as when its process was killed, makes the job due again after a back-off. A row holds no
credentials.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import msgspec
import sqlalchemy as sa

from floecat.store.database.connections import Connection
from floecat.store.database.statements import LIMIT, NO_LIMIT
from floecat.store.schema import jobs as _jobs

__all__ = [
    "FINISHED_STATES",
    "OPEN_STATES",
    "JobRow",
    "Lease",
    "attachment",
    "cancel",
    "catalogs_with_open_job",
    "claim",
    "count_by_state",
    "delete_finished",
    "end_abandoned_cancellations",
    "finish",
    "get",
    "insert",
    "list_all",
    "put_back",
    "renew",
    "retry",
]

OPEN_STATES: Final = ("queued", "waiting", "running", "cancelling")
"""`queued` was never claimed, `waiting` was given back and waits until it is due."""

FINISHED_STATES: Final = ("succeeded", "failed", "cancelled")
"""`failed` is the dead letter: attempts are used up, and an operator may `retry` it."""

_MOST_DOUBLINGS: Final = 20

_COLUMNS: Final = tuple(column for column in _jobs.c if column.name != "attachment")
_OPEN: Final = _jobs.c.finished_at_ms.is_(None)
_INSERT: Final = sa.insert(_jobs)
_GET: Final = sa.select(*_COLUMNS).where(_jobs.c.id == sa.bindparam("id"))
_ATTACHMENT: Final = sa.select(_jobs.c.attachment).where(_jobs.c.id == sa.bindparam("id"))
_WITH_OPEN: Final = (
    sa.select(_jobs.c.catalog_id)
    .distinct()
    .where(
        _OPEN,
        _jobs.c.kind == sa.bindparam("kind"),
        sa.or_(_jobs.c.subject == sa.bindparam("subject"), _jobs.c.resource == sa.bindparam("resource")),
    )
)
# SQLite leaves SKIP LOCKED out, and does not need it: its transactions take turns. A subquery in place of the
# common table expression might run once for every row, and lock more jobs than it should.
_due: Final = (
    sa.select(_jobs.c.id)
    .where(
        _OPEN,
        _jobs.c.kind == sa.bindparam("wanted_kind"),
        _jobs.c.not_before_ms <= sa.bindparam("now_ms"),
        _jobs.c.state != "cancelling",
    )
    .order_by(_jobs.c.not_before_ms)
    .limit(1)
    .with_for_update(skip_locked=True)
    .cte("due")
)
# What a claim waits after its lease ended unreleased, from the attempts before it: base, 2 base, 4 base, …
_doubled: Final = sa.bindparam("base_ms", type_=sa.BigInteger()) * sa.cast(
    sa.literal(1).op("<<")(sa.cast(_jobs.c.attempts, sa.Integer())), sa.BigInteger()
)
_back_off: Final = sa.case(
    (_jobs.c.attempts > _MOST_DOUBLINGS, sa.bindparam("longest_ms", type_=sa.BigInteger())),
    (_doubled > sa.bindparam("longest_ms", type_=sa.BigInteger()), sa.bindparam("longest_ms")),
    else_=_doubled,
)
_CLAIM: Final = (
    sa.update(_jobs)
    .where(_jobs.c.id.in_(sa.select(_due.c.id)))
    .values(
        state="running",
        attempts=_jobs.c.attempts + 1,
        lease_owner=sa.bindparam("owner"),
        lease_epoch=_jobs.c.lease_epoch + 1,
        lease_expires_at_ms=sa.bindparam("lease_ends_at_ms"),
        not_before_ms=sa.bindparam("lease_ends_at_ms") + _back_off,
        started_at_ms=sa.func.coalesce(_jobs.c.started_at_ms, sa.bindparam("now_ms")),
        updated_at_ms=sa.bindparam("now_ms"),
    )
    .returning(*_COLUMNS)
)
_HELD: Final = (
    _jobs.c.id == sa.bindparam("job_id"),
    _jobs.c.lease_epoch == sa.bindparam("epoch"),
    _jobs.c.lease_owner == sa.bindparam("holder"),
    _OPEN,
)
_FREE: Final = {"lease_owner": sa.null(), "lease_expires_at_ms": sa.null()}
_RENEW: Final = (
    sa.update(_jobs)
    .where(*_HELD)
    .values(
        # the back-off behind the lease stays as long as it is
        not_before_ms=_jobs.c.not_before_ms - _jobs.c.lease_expires_at_ms + sa.bindparam("lease_ends_at_ms"),
        lease_expires_at_ms=sa.bindparam("lease_ends_at_ms"),
        progress=sa.bindparam("new_progress"),
        updated_at_ms=sa.bindparam("now_ms"),
    )
    .returning(_jobs.c.cancel_requested)
)
_FINISH: Final = (
    sa.update(_jobs)
    .where(*_HELD)
    .values(
        state=sa.bindparam("new_state"),
        progress=sa.bindparam("new_progress"),
        last_error=sa.bindparam("error"),
        attachment=sa.case((sa.bindparam("new_state") == "succeeded", sa.null()), else_=_jobs.c.attachment),
        updated_at_ms=sa.bindparam("now_ms"),
        finished_at_ms=sa.bindparam("now_ms"),
        **_FREE,
    )
)
_PUT_BACK: Final = (
    sa.update(_jobs)
    .where(*_HELD)
    .values(
        state="waiting",
        attempts=_jobs.c.attempts - sa.bindparam("uncounted"),
        progress=sa.bindparam("new_progress"),
        last_error=sa.bindparam("error"),
        not_before_ms=sa.bindparam("retry_at_ms"),
        updated_at_ms=sa.bindparam("now_ms"),
        **_FREE,
    )
)
_RETRY: Final = (
    sa.update(_jobs)
    .where(_jobs.c.id == sa.bindparam("job_id"), _jobs.c.state.in_(("failed", "cancelled")))
    .values(
        state="queued",
        attempts=0,
        cancel_requested=sa.false(),
        not_before_ms=sa.bindparam("now_ms"),
        updated_at_ms=sa.bindparam("now_ms"),
        finished_at_ms=sa.null(),
        **_FREE,
    )
)
_CANCEL_IDLE: Final = (
    sa.update(_jobs)
    .where(_jobs.c.id == sa.bindparam("job_id"), _jobs.c.state.in_(("queued", "waiting", "failed")))
    .values(
        state="cancelled",
        cancel_requested=sa.true(),
        updated_at_ms=sa.bindparam("now_ms"),
        finished_at_ms=sa.bindparam("now_ms"),
    )
)
_CANCEL_RUNNING: Final = (
    sa.update(_jobs)
    .where(_jobs.c.id == sa.bindparam("job_id"), _jobs.c.state == "running")
    .values(state="cancelling", cancel_requested=sa.true(), updated_at_ms=sa.bindparam("now_ms"))
)
_END_ABANDONED: Final = (
    sa.update(_jobs)
    .where(
        _OPEN,
        _jobs.c.kind == sa.bindparam("wanted_kind"),
        _jobs.c.state == "cancelling",
        _jobs.c.lease_expires_at_ms <= sa.bindparam("now_ms"),
    )
    .values(
        state="cancelled",
        updated_at_ms=sa.bindparam("now_ms"),
        finished_at_ms=sa.bindparam("now_ms"),
        **_FREE,
    )
)
_COUNT: Final = sa.select(_jobs.c.kind, _jobs.c.state, sa.func.count()).group_by(_jobs.c.kind, _jobs.c.state)
_LIST: Final = (
    sa.select(*_COLUMNS)
    .where(
        _jobs.c.catalog_id == sa.bindparam("catalog_id"),
        _jobs.c.kind.in_(sa.bindparam("kinds", expanding=True)),
        _jobs.c.state.in_(sa.bindparam("states", expanding=True)),
        _jobs.c.id > sa.bindparam("after"),
    )
    .order_by(_jobs.c.id)
    .limit(LIMIT)
)
_doomed: Final = (
    sa.select(_jobs.c.id)
    .where(
        _jobs.c.kind == sa.bindparam("wanted_kind"),
        _jobs.c.finished_at_ms < sa.bindparam("before_ms"),
        _jobs.c.state.in_(("succeeded", "cancelled")),
    )
    .order_by(_jobs.c.finished_at_ms)
    .limit(LIMIT)
)
_DELETE_FINISHED: Final = sa.delete(_jobs).where(_jobs.c.id.in_(_doomed))
_FIRST_ID: Final = UUID(int=0)


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A job, and how far it has come. Times in ms since the epoch."""

    id: UUID
    account_id: UUID
    catalog_id: UUID
    kind: str
    lane: str = "default"
    """Jobs of one lane share workers."""
    title: str
    """What a person calls it."""
    subject: str
    """What it is about, by an id that does not change."""
    resource: str
    """The location that it works on; empty for none."""
    payload: str
    """JSON, as the kind reads it."""
    progress: str = "{}"
    """JSON, over all attempts."""
    state: str = "queued"
    attempts: int = 0
    """How often it was claimed since it was made or retried."""
    max_attempts: int
    not_before_ms: int
    """When it is due; for a running job the end of its lease and the back-off behind it."""
    lease_owner: str | None = None
    """`host:pid:uuid` of the worker."""
    lease_epoch: int = 0
    """Counts claims; a worker with an older epoch has lost the job."""
    lease_expires_at_ms: int | None = None
    parent_id: UUID | None = None
    dedup_key: str | None = None
    """No two open jobs of a kind have the same one."""
    cancel_requested: bool = False
    created_by: str
    request_id: str | None = None
    last_error: str | None = None
    created_at_ms: int
    started_at_ms: int | None = None
    updated_at_ms: int
    finished_at_ms: int | None = None


class Lease(msgspec.Struct, frozen=True):
    """Names one claim of one job."""

    job_id: UUID
    owner: str
    epoch: int

    @property
    def parameters(self) -> dict[str, object]:
        """As the statements take them."""
        return {"job_id": self.job_id, "holder": self.owner, "epoch": self.epoch}


def insert(conn: Connection, job: JobRow, attachment: bytes | None = None) -> None:
    """Inserts a job, in the transaction that makes the change which needs it.

    Args:
        conn: a transaction.
        job: the job.
        attachment: bytes that its worker needs; deleted when it succeeds.

    Raises:
        DuplicateKeyError: a job of this kind with this `dedup_key` is open.
    """
    conn.change(_INSERT, {**msgspec.structs.asdict(job), "attachment": attachment})


def get(conn: Connection, job_id: UUID) -> JobRow | None:
    """The job of this id."""
    row = conn.first(_GET, {"id": job_id})
    return None if row is None else _job(row)


def attachment(conn: Connection, job_id: UUID) -> bytes | None:
    """The attachment of a job; `None` if it has none, or succeeded."""
    row = conn.first(_ATTACHMENT, {"id": job_id})
    return None if row is None else row[0]


def catalogs_with_open_job(conn: Connection, kind: str, subject: str, resource: str) -> list[UUID]:
    """Ids of the catalogs in which a job of a kind is open that is about a subject or works on a resource."""
    parameters = {"kind": kind, "subject": subject, "resource": resource}
    return [row[0] for row in conn.all(_WITH_OPEN, parameters)]


def list_all(
    conn: Connection,
    catalog_id: UUID,
    kinds: Sequence[str],
    *,
    states: Sequence[str] = (*OPEN_STATES, *FINISHED_STATES),
    after: UUID | None = None,
    limit: int | None = None,
) -> list[JobRow]:
    """Jobs of a catalog, oldest first.

    Args:
        conn: a connection.
        catalog_id: the catalog.
        kinds: the kinds that are wanted.
        states: the states that are wanted.
        after: id of the last job of the page before.
        limit: most jobs; `None` for all.
    """
    parameters = {
        "catalog_id": catalog_id,
        "kinds": list(kinds),
        "states": list(states),
        "after": after or _FIRST_ID,
        "limit": NO_LIMIT if limit is None else limit,
    }
    return [_job(row) for row in conn.all(_LIST, parameters)]


def count_by_state(conn: Connection) -> dict[tuple[str, str], int]:
    """How many jobs of each kind are in each state, by kind and state; those without jobs are left out."""
    return {(row[0], row[1]): row[2] for row in conn.all(_COUNT)}


def claim(
    conn: Connection, kind: str, owner: str, now_ms: int, lease_ms: int, *, base_ms: int, longest_ms: int
) -> JobRow | None:
    """Claims the job that has been due for longest. No job goes to two owners.

    Args:
        conn: a transaction of its own.
        kind: of the job.
        owner: the worker, as `host:pid:uuid`.
        now_ms: the time.
        lease_ms: how long the job is the owner's without `renew`.
        base_ms: back-off after the first attempt, if the lease ends unreleased; doubles with each.
        longest_ms: no back-off is longer.

    Returns:
        The job as it is now; `None` if none is due.
    """
    parameters = {
        "wanted_kind": kind,
        "owner": owner,
        "now_ms": now_ms,
        "lease_ends_at_ms": now_ms + lease_ms,
        "base_ms": base_ms,
        "longest_ms": longest_ms,
    }
    row = conn.first(_CLAIM, parameters)
    return None if row is None else _job(row)


def renew(conn: Connection, lease: Lease, progress: str, now_ms: int, lease_ms: int) -> bool | None:
    """Extends a lease and stores the progress.

    Returns:
        Whether the job is to be cancelled; `None` if the job is another worker's.
    """
    parameters = {"lease_ends_at_ms": now_ms + lease_ms, "new_progress": progress, "now_ms": now_ms}
    row = conn.first(_RENEW, lease.parameters | parameters)
    return None if row is None else bool(row[0])


def finish(
    conn: Connection, lease: Lease, state: str, progress: str, now_ms: int, error: str | None = None
) -> bool:
    """Ends a job in one of `FINISHED_STATES`.

    Args:
        conn: a transaction.
        lease: the claim.
        state: the new state.
        progress: JSON.
        now_ms: the time.
        error: what went wrong, without credentials.

    Returns:
        False if the job is another worker's.
    """
    parameters = {"new_state": state, "new_progress": progress, "error": error, "now_ms": now_ms}
    return conn.change(_FINISH, lease.parameters | parameters) == 1


def put_back(
    conn: Connection,
    lease: Lease,
    progress: str,
    now_ms: int,
    *,
    error: str,
    retry_at_ms: int,
    counts: bool = True,
) -> bool:
    """Gives a job back, to be claimed again.

    Args:
        conn: a transaction.
        lease: the claim.
        progress: JSON.
        now_ms: the time.
        error: why, without credentials.
        retry_at_ms: when it is due.
        counts: whether this was an attempt; false for one that the worker's own end cut short.

    Returns:
        False if the job is another worker's.
    """
    parameters = {
        "new_progress": progress,
        "error": error,
        "retry_at_ms": retry_at_ms,
        "uncounted": 0 if counts else 1,
        "now_ms": now_ms,
    }
    return conn.change(_PUT_BACK, lease.parameters | parameters) == 1


def retry(conn: Connection, job_id: UUID, now_ms: int) -> bool:
    """Makes a failed or cancelled job due now, with its attempts counted from zero.

    Returns:
        False if there is no such job, or it is in another state.
    """
    return conn.change(_RETRY, {"job_id": job_id, "now_ms": now_ms}) == 1


def cancel(conn: Connection, job_id: UUID, now_ms: int) -> bool:
    """Cancels a job; one that runs is asked to stop, and is `cancelled` once its worker has.

    Returns:
        False if there is no such job, or it is finished or being cancelled.
    """
    parameters = {"job_id": job_id, "now_ms": now_ms}
    return conn.change(_CANCEL_IDLE, parameters) == 1 or conn.change(_CANCEL_RUNNING, parameters) == 1


def end_abandoned_cancellations(conn: Connection, kind: str, now_ms: int) -> int:
    """Ends the jobs of a kind that were to be cancelled when their worker died; returns how many."""
    return conn.change(_END_ABANDONED, {"wanted_kind": kind, "now_ms": now_ms})


def delete_finished(conn: Connection, kind: str, before_ms: int, limit: int) -> int:
    """Deletes jobs of a kind that succeeded or were cancelled before a time, oldest first.

    Failed jobs stay until an operator retries or cancels them.

    Returns:
        How many; fewer than `limit` when none are left.
    """
    return conn.change(_DELETE_FINISHED, {"wanted_kind": kind, "before_ms": before_ms, "limit": limit})


def _job(row: Sequence[object]) -> JobRow:
    return JobRow(**dict(zip(_NAMES, row, strict=True)))  # type: ignore[arg-type]


_NAMES: Final = tuple(column.name for column in _COLUMNS)
