"""Claims of jobs, as workers make them, and the sweeps of each kind.

Accounts take turns: a worker says whose turn it was before, and takes a job of the next one.

A worker claims a job for the time of a lease and renews it while it works. Every claim raises the lease
epoch, and only the holder of the newest epoch can renew or finish the job. A claim whose lease ends
unreleased, as when its process was killed, makes the job due again after a back-off.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import msgspec
import sqlalchemy as sa

from floecat.store.database.connections import Connection
from floecat.store.database.statements import LIMIT
from floecat.store.jobs.jobs import DEFAULT_LANE, IS_OPEN, JOB_COLUMNS, NO_LEASE, JobRow, job_row
from floecat.store.schema import jobs as _jobs

__all__ = [
    "FIRST_TURN",
    "Lease",
    "claim",
    "delete_finished",
    "end_abandoned_cancellations",
    "finish",
    "is_held",
    "may_claim",
    "put_back",
    "renew",
]


FIRST_TURN: Final = UUID(int=0)
"""Turn before those of all accounts."""


class Lease(msgspec.Struct, frozen=True):
    """Names one claim of one job."""

    job_id: UUID
    owner: str
    epoch: int

    @property
    def parameters(self) -> dict[str, object]:
        """The lease as parameters of the statements."""
        return {"job_id": self.job_id, "holder": self.owner, "epoch": self.epoch}


def claim(
    conn: Connection,
    kind: str,
    owner: str,
    now_ms: int,
    lease_ms: int,
    *,
    base_ms: int,
    longest_ms: int,
    limit: int = 1,
    lane: str | None = None,
    subject: str | None = None,
    after_account: UUID = FIRST_TURN,
    without: Sequence[UUID] = (),
) -> list[JobRow]:
    """Claims the jobs of an account that have been due for longest. No job goes to two owners.

    Args:
        conn: a transaction of its own.
        kind: of the job.
        owner: the worker, as `host:pid:uuid`.
        lease_ms: how long the job is the owner's without `renew`.
        base_ms: back-off after the first attempt, if the lease ends unreleased; doubles with each.
        longest_ms: no back-off is longer.
        limit: most jobs.
        lane: claim jobs that wait in this lane until they are due, instead of those that are due.
        subject: claim due jobs about this alone.
        after_account: whose turn it was before: the account that has jobs and comes next by its id is first.
        without: accounts whose jobs that are due are left alone.

    Returns:
        The jobs as they are now, in no particular order.
    """
    parameters = {
        "wanted_kind": kind,
        "owner": owner,
        "now_ms": now_ms,
        "lease_ends_at_ms": now_ms + lease_ms,
        "base_ms": base_ms,
        "longest_ms": longest_ms,
        "limit": limit,
    }
    if subject is not None:
        return [job_row(row) for row in conn.all(_CLAIM_ABOUT, parameters | {"wanted_subject": subject})]
    statement = _CLAIM
    if lane is not None:
        statement = _CLAIM_IN_LANE
        parameters["wanted_lane"] = lane
    elif without:
        statement = _CLAIM_WITHOUT
        parameters["without"] = list(without)
    rows = conn.all(statement, parameters | {"after_account": after_account})
    if not rows and after_account != FIRST_TURN:
        rows = conn.all(statement, parameters | {"after_account": FIRST_TURN})
    return [job_row(row) for row in rows]


def may_claim(conn: Connection, kind: str, now_ms: int, lane: str | None = None) -> bool:
    """Whether `claim` would find a job, unless another worker is faster."""
    if lane is None:
        return conn.first(_ANY_DUE, {"wanted_kind": kind, "now_ms": now_ms}) is not None
    return conn.first(_ANY_IN_LANE, {"wanted_kind": kind, "now_ms": now_ms, "wanted_lane": lane}) is not None


def renew(conn: Connection, lease: Lease, progress: str, now_ms: int, lease_ms: int) -> bool | None:
    """Extends a lease and stores the progress.

    Returns:
        Whether the job is to be cancelled; `None` if the job is another worker's.
    """
    parameters = {"lease_ends_at_ms": now_ms + lease_ms, "new_progress": progress, "now_ms": now_ms}
    row = conn.first(_RENEW, lease.parameters | parameters)
    return None if row is None else bool(row[0])


def is_held(conn: Connection, lease: Lease) -> bool:
    """Whether a claim stands and the job is not to be cancelled; locks the job until the transaction ends."""
    return conn.change(_HOLD, lease.parameters) == 1


def finish(
    conn: Connection, lease: Lease, state: str, progress: str, now_ms: int, error: str | None = None
) -> bool:
    """Ends a job in one of `FINISHED_STATES`.

    Args:
        conn: a transaction.
        lease: the claim.
        state: the new state.
        progress: JSON.
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
    lane: str = DEFAULT_LANE,
) -> bool:
    """Gives a job back, to be claimed again; one that is to be cancelled ends.

    Args:
        conn: a transaction.
        lease: the claim.
        progress: JSON.
        error: why, without credentials.
        retry_at_ms: when it is due.
        counts: whether this was an attempt; false for one that the worker's own end cut short.
        lane: whose workers may claim it before it is due.

    Returns:
        False if the job is another worker's.
    """
    parameters = {
        "new_progress": progress,
        "error": error,
        "retry_at_ms": retry_at_ms,
        "uncounted": 0 if counts else 1,
        "new_lane": lane,
        "now_ms": now_ms,
    }
    return conn.change(_PUT_BACK, lease.parameters | parameters) == 1


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


_MOST_DOUBLINGS: Final = 20


# SQLite leaves SKIP LOCKED out, and does not need it: its transactions take turns. A subquery in place of the
# common table expression might run once for every row, and lock more jobs than it should.
def _due(conditions: Sequence[sa.ColumnElement[bool]]) -> sa.CTE:
    return (
        sa.select(_jobs.c.id)
        .where(*conditions)
        .order_by(_jobs.c.account_id, _jobs.c.not_before_ms)
        .limit(LIMIT)
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


def _claiming(conditions: Sequence[sa.ColumnElement[bool]]) -> sa.Executable:
    due = _due(conditions)
    return (
        sa.update(_jobs)
        .where(_jobs.c.id.in_(sa.select(due.c.id)))
        .values(
            state="running",
            lane=DEFAULT_LANE,
            attempts=_jobs.c.attempts + 1,
            lease_owner=sa.bindparam("owner"),
            lease_epoch=_jobs.c.lease_epoch + 1,
            lease_expires_at_ms=sa.bindparam("lease_ends_at_ms"),
            not_before_ms=sa.bindparam("lease_ends_at_ms") + _back_off,
            started_at_ms=sa.func.coalesce(_jobs.c.started_at_ms, sa.bindparam("now_ms")),
            updated_at_ms=sa.bindparam("now_ms"),
        )
        .returning(*JOB_COLUMNS)
    )


_IS_WANTED: Final = (IS_OPEN, _jobs.c.kind == sa.bindparam("wanted_kind"))
_IS_DUE: Final = (
    *_IS_WANTED,
    _jobs.c.not_before_ms <= sa.bindparam("now_ms"),
    _jobs.c.state != "cancelling",
)
_IS_IN_LANE: Final = (
    *_IS_WANTED,
    _jobs.c.not_before_ms > sa.bindparam("now_ms"),
    _jobs.c.state == "waiting",
    _jobs.c.lane == sa.bindparam("wanted_lane"),
)
_HAS_NEXT_TURN: Final = _jobs.c.account_id > sa.bindparam("after_account")
_CLAIM: Final = _claiming((*_IS_DUE, _HAS_NEXT_TURN))
_CLAIM_WITHOUT: Final = _claiming(
    (
        *_IS_DUE,
        _HAS_NEXT_TURN,
        _jobs.c.account_id.not_in(sa.bindparam("without", expanding=True, type_=sa.Uuid())),
    )
)
_CLAIM_IN_LANE: Final = _claiming((*_IS_IN_LANE, _HAS_NEXT_TURN))
_CLAIM_ABOUT: Final = _claiming((*_IS_DUE, _jobs.c.subject == sa.bindparam("wanted_subject")))
_ANY_DUE: Final = sa.select(sa.literal(1)).where(*_IS_DUE).limit(1)
_ANY_IN_LANE: Final = sa.select(sa.literal(1)).where(*_IS_IN_LANE).limit(1)
_HELD: Final = (
    _jobs.c.id == sa.bindparam("job_id"),
    _jobs.c.lease_epoch == sa.bindparam("epoch"),
    _jobs.c.lease_owner == sa.bindparam("holder"),
    IS_OPEN,
)
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
_HOLD: Final = (
    sa.update(_jobs).where(*_HELD, ~_jobs.c.cancel_requested).values(lease_epoch=_jobs.c.lease_epoch)
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
        **NO_LEASE,
    )
)
_is_cancelling: Final = _jobs.c.state == "cancelling"
_PUT_BACK: Final = (
    sa.update(_jobs)
    .where(*_HELD)
    .values(
        state=sa.case((_is_cancelling, "cancelled"), else_="waiting"),
        finished_at_ms=sa.case((_is_cancelling, sa.bindparam("now_ms", type_=sa.BigInteger()))),
        lane=sa.bindparam("new_lane"),
        attempts=_jobs.c.attempts - sa.bindparam("uncounted"),
        progress=sa.bindparam("new_progress"),
        last_error=sa.bindparam("error"),
        not_before_ms=sa.bindparam("retry_at_ms"),
        updated_at_ms=sa.bindparam("now_ms"),
        **NO_LEASE,
    )
)
_END_ABANDONED: Final = (
    sa.update(_jobs)
    .where(
        IS_OPEN,
        _jobs.c.kind == sa.bindparam("wanted_kind"),
        _jobs.c.state == "cancelling",
        _jobs.c.lease_expires_at_ms <= sa.bindparam("now_ms"),
    )
    .values(
        state="cancelled",
        updated_at_ms=sa.bindparam("now_ms"),
        finished_at_ms=sa.bindparam("now_ms"),
        **NO_LEASE,
    )
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
