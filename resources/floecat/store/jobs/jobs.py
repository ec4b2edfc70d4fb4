"""Jobs: work that outlives the request that asked for it, one row each; as requests and operators see them.

Workers take them through `job_claims`. A row holds no credentials.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
import sqlalchemy as sa

from floecat.store.database.connections import Connection
from floecat.store.database.engine import Store
from floecat.store.database.statements import LIMIT, NO_LIMIT
from floecat.store.record_pages import Fetched, fetch_records
from floecat.store.schema import jobs as _jobs

__all__ = [
    "CANCELLED",
    "DEFAULT_LANE",
    "FINISHED_STATES",
    "IS_OPEN",
    "JOB_COLUMNS",
    "NO_LEASE",
    "OPEN_STATES",
    "RETRIED",
    "UNSUCCESSFUL",
    "JobFilter",
    "JobRow",
    "attachment",
    "cancel_unstarted",
    "catalogs_with_open_job",
    "children",
    "count_by_state",
    "count_due",
    "count_in_lane",
    "count_open_children",
    "delete_failed",
    "delete_finished_children",
    "get",
    "insert",
    "job_row",
    "list_all",
    "list_failed",
    "list_finished",
    "list_open",
    "make_due",
    "oldest_open",
    "open_with_key",
    "page_of",
    "postpone",
    "retry",
]

OPEN_STATES: Final = ("queued", "waiting", "running", "cancelling")
"""`queued` was never claimed, `waiting` was given back and waits until it is due."""
FINISHED_STATES: Final = ("succeeded", "failed", "cancelled")
"""`failed` is the dead letter: attempts are used up, and an operator may `retry` it."""

DEFAULT_LANE: Final = "default"
"""The lane of jobs that all workers take."""


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A job, and how far it has come. Times in ms since the epoch."""

    id: UUID
    account_id: UUID
    catalog_id: UUID
    kind: str
    lane: str = DEFAULT_LANE
    """Lane: in another one than the default, the job waits for certain workers until it is due for all."""
    title: str
    """Name for people."""
    subject: str
    """Id of the subject, which does not change."""
    resource: str
    """The location that it works on; empty for none."""
    payload: str
    """JSON, as the kind reads it."""
    progress: str = "{}"
    """JSON, over all attempts."""
    state: str = "queued"
    attempts: int = 0
    """Number of claims since it was made or retried."""
    max_attempts: int
    not_before_ms: int
    """Time when it is due; for a running job the end of its lease and the back-off behind it."""
    lease_owner: str | None = None
    """`host:pid:uuid` of the worker."""
    lease_epoch: int = 0
    """Counts claims; a worker with an older epoch has lost the job."""
    lease_expires_at_ms: int | None = None
    parent_id: UUID | None = None
    dedup_key: str | None = None
    """Key that no two open jobs of a kind share."""
    cancel_requested: bool = False
    created_by: str
    request_id: str | None = None
    last_error: str | None = None
    created_at_ms: int
    started_at_ms: int | None = None
    updated_at_ms: int
    finished_at_ms: int | None = None

    def waiting_until(self, due_at_ms: int, lane: str = DEFAULT_LANE) -> JobRow:
        """The job, due at a time for all workers, and before for those of a lane."""
        return msgspec.structs.replace(self, state="waiting", lane=lane, not_before_ms=due_at_ms)


def insert(conn: Connection, job: JobRow, attachment: bytes | None = None) -> None:
    """Inserts a job, in the transaction that makes the change which needs it.

    Args:
        conn: a transaction.
        attachment: bytes that its worker needs; deleted when it succeeds.

    Raises:
        DuplicateKeyError: a job of this kind with this `dedup_key` is open.
    """
    conn.change(_INSERT, {**msgspec.structs.asdict(job), "attachment": attachment})


def get(conn: Connection, job_id: UUID) -> JobRow | None:
    """The job of this id."""
    row = conn.first(_GET, {"id": job_id})
    return None if row is None else job_row(row)


def attachment(conn: Connection, job_id: UUID) -> bytes | None:
    """The attachment of a job; `None` if it has none, or succeeded."""
    row = conn.first(_ATTACHMENT, {"id": job_id})
    return None if row is None else row[0]


def catalogs_with_open_job(conn: Connection, kind: str, subject: str, resource: str) -> list[UUID]:
    """Ids of the catalogs in which a job of a kind is open that is about a subject or works on a resource."""
    parameters = {"kind": kind, "subject": subject, "resource": resource}
    return [row[0] for row in conn.all(_WITH_OPEN, parameters)]


class JobFilter(NamedTuple):
    """The jobs of a catalog that are listed."""

    catalog_id: UUID
    wanted: Sequence[tuple[str, str]]
    """Kinds of the jobs, each with a state."""
    titles: Sequence[str] = ()
    """Titles that the jobs may have; all if empty."""
    parent_id: UUID | None = None
    """The job that waits for them; `None` for all."""
    after: UUID = UUID(int=0)
    """Id of the last job of the page before."""

    def rows(self, conn: Connection, limit: int) -> list[JobRow]:
        """The first of the jobs, oldest first."""
        statement = _LIST if self.parent_id is None else _LIST_CHILDREN
        return [job_row(row) for row in conn.all(statement, self._parameters(limit))]

    def sizes(self, conn: Connection, limit: int) -> list[int]:
        """The bytes of the first of the jobs."""
        statement = _LIST_SIZES if self.parent_id is None else _CHILDREN_SIZES
        return [int(row[0]) for row in conn.all(statement, self._parameters(limit))]

    def _parameters(self, limit: int) -> dict[str, object]:
        of_parent = {"catalog_id": self.catalog_id} if self.parent_id is None else {"job_id": self.parent_id}
        return of_parent | {
            "wanted": [f"{kind} {state}" for kind, state in self.wanted],
            "titles": self.titles or [""],
            "after": self.after,
            "limit": limit,
        }


def list_all(conn: Connection, wanted: JobFilter) -> list[JobRow]:
    """Jobs of a catalog, oldest first."""
    return wanted.rows(conn, NO_LIMIT)


def page_of(store: Store, wanted: JobFilter, limit: int) -> Fetched[JobRow]:
    """The jobs of `list_all`, as many as one answer may have."""
    return fetch_records(store, wanted.sizes, wanted.rows, limit)


def unfinished_resources(conn: Connection, catalog_id: UUID) -> list[str]:
    """The resource of each job of a catalog that is open, or failed for good and can be retried."""
    return [row[0] for row in conn.all(_UNFINISHED, {"catalog_id": catalog_id})]


def count_in_lane(conn: Connection, kind: str, lane: str, now_ms: int) -> int:
    """The number of jobs of a kind that wait in a lane, of all catalogs."""
    row = conn.first(_COUNT_IN_LANE, {"wanted_kind": kind, "wanted_lane": lane, "now_ms": now_ms})
    return 0 if row is None else row[0]


def count_by_state(conn: Connection) -> dict[tuple[str, str], int]:
    """The number of jobs of each kind in each state, by kind and state; those without jobs are left out."""
    return {(row[0], row[1]): row[2] for row in conn.all(_COUNT)}


def count_due(conn: Connection, kind: str, before_ms: int) -> int:
    """The number of open jobs of a kind that were due at a time, and that no worker has."""
    row = conn.first(_COUNT_DUE, {"kind": kind, "before_ms": before_ms})
    return 0 if row is None else row[0]


def list_failed(conn: Connection, kind: str, limit: int) -> list[JobRow]:
    """Jobs of a kind that failed for good, of all catalogs; what failed first comes first."""
    return [job_row(row) for row in conn.all(_LIST_FAILED, {"kind": kind, "limit": limit})]


def list_finished(
    conn: Connection, kind: str, after: tuple[int, UUID], until_ms: int, limit: int
) -> list[JobRow]:
    """Jobs of a kind that ended, of all catalogs, in the order of their ends.

    Args:
        after: end and id of the last job of the page before.
        until_ms: jobs that ended later are left out.
        limit: most jobs.
    """
    parameters = {
        "kind": kind,
        "after_ms": after[0],
        "after_id": after[1],
        "until_ms": until_ms,
        "limit": limit,
    }
    return [job_row(row) for row in conn.all(_LIST_FINISHED, parameters)]


def oldest_open(conn: Connection) -> dict[str, int]:
    """The time when the oldest open job of each kind was made; kinds without open jobs are left out."""
    return {row[0]: row[1] for row in conn.all(_OLDEST_OPEN)}


def retry(conn: Connection, job_id: UUID, now_ms: int, anew: Sequence[str] = ()) -> bool:
    """Makes a failed or cancelled job due now, with its attempts counted from zero.

    Args:
        conn: a transaction.
        anew: kinds whose jobs forget how far they were.

    Returns:
        False if there is no such job, or it is in another state.
    """
    return conn.change(_RETRY, {"job_id": job_id, "now_ms": now_ms, "anew": anew or [""]}) == 1


def children(conn: Connection, job_id: UUID) -> list[JobRow]:
    """The jobs that a job waits for, or waited for, in no particular order."""
    return [job_row(row) for row in conn.all(_CHILDREN, {"job_id": job_id})]


def count_open_children(conn: Connection, job_id: UUID) -> int:
    """The number of open jobs that a job waits for."""
    row = conn.first(_COUNT_OPEN_CHILDREN, {"job_id": job_id})
    return 0 if row is None else row[0]


def delete_finished_children(conn: Connection, job_id: UUID) -> None:
    """Deletes the jobs that a job waited for, as before it makes others."""
    conn.change(_DELETE_FINISHED_CHILDREN, {"job_id": job_id})


def delete_failed(conn: Connection, kind: str, subject: str) -> None:
    """Deletes jobs of a kind about a subject that failed for good, as before a newer one does the same."""
    conn.change(_DELETE_FAILED, {"kind": kind, "subject": subject})


def list_open(
    conn: Connection, kind: str, subject: str | None = None, limit: int | None = None
) -> list[JobRow]:
    """Open jobs of a kind in the order in which they are due: of all catalogs, or about one subject."""
    parameters: dict[str, object] = {"kind": kind, "limit": NO_LIMIT if limit is None else limit}
    if subject is None:
        return [job_row(row) for row in conn.all(_LIST_OPEN, parameters)]
    return [job_row(row) for row in conn.all(_LIST_OPEN_OF, parameters | {"subject": subject})]


def open_with_key(conn: Connection, kind: str, dedup_key: str) -> JobRow | None:
    """The open job of a kind that has a dedup key."""
    row = conn.first(_WITH_KEY, {"kind": kind, "dedup_key": dedup_key})
    return None if row is None else job_row(row)


def make_due(conn: Connection, job_id: UUID, now_ms: int) -> None:
    """Makes a job due now that waits; one in any other state stays as it is."""
    conn.change(_MAKE_DUE, {"job_id": job_id, "now_ms": now_ms})


def postpone(conn: Connection, until_ms: Mapping[UUID, int], now_ms: int) -> None:
    """Puts jobs off that no worker has: each is due no earlier than its time."""
    parameters = [{"job_id": id, "until_ms": until, "now_ms": now_ms} for id, until in until_ms.items()]
    conn.change_many(_POSTPONE, parameters)


def cancel_unstarted(conn: Connection, job_id: UUID, now_ms: int) -> bool:
    """Cancels a job that was never claimed; returns False if it was, or is finished."""
    return conn.change(_CANCEL_UNSTARTED, {"job_id": job_id, "now_ms": now_ms}) == 1


def job_row(row: Sequence[object]) -> JobRow:
    """The job of a row with `JOB_COLUMNS`."""
    return JobRow(**dict(zip(_NAMES, row, strict=True)))  # type: ignore[arg-type]


UNSUCCESSFUL: Final = ("failed", "cancelled")
"""States of jobs that may be retried."""
JOB_COLUMNS: Final = tuple(column for column in _jobs.c if column.name != "attachment")
_NAMES: Final = tuple(column.name for column in JOB_COLUMNS)
IS_OPEN: Final = _jobs.c.finished_at_ms.is_(None)
NO_LEASE: Final = {"lease_owner": sa.null(), "lease_expires_at_ms": sa.null()}
_INSERT: Final = sa.insert(_jobs)
_GET: Final = sa.select(*JOB_COLUMNS).where(_jobs.c.id == sa.bindparam("id"))
_ATTACHMENT: Final = sa.select(_jobs.c.attachment).where(_jobs.c.id == sa.bindparam("id"))
_WITH_OPEN: Final = (
    sa.select(_jobs.c.catalog_id)
    .distinct()
    .where(
        IS_OPEN,
        _jobs.c.kind == sa.bindparam("kind"),
        sa.or_(_jobs.c.subject == sa.bindparam("subject"), _jobs.c.resource == sa.bindparam("resource")),
    )
)
RETRIED: Final = (
    sa.update(_jobs)
    .where(_jobs.c.state.in_(UNSUCCESSFUL))
    .values(
        state="queued",
        attempts=0,
        cancel_requested=sa.false(),
        progress=sa.case(
            (_jobs.c.kind.in_(sa.bindparam("anew", expanding=True)), "{}"), else_=_jobs.c.progress
        ),
        not_before_ms=sa.bindparam("now_ms"),
        updated_at_ms=sa.bindparam("now_ms"),
        finished_at_ms=sa.null(),
        **NO_LEASE,
    )
)
_RETRY: Final = RETRIED.where(_jobs.c.id == sa.bindparam("job_id"))
CANCELLED: Final = sa.update(_jobs).values(
    state="cancelled",
    cancel_requested=sa.true(),
    updated_at_ms=sa.bindparam("now_ms"),
    finished_at_ms=sa.bindparam("now_ms"),
)
"""The change of a job that no worker has."""
_CANCEL_UNSTARTED: Final = CANCELLED.where(
    _jobs.c.id == sa.bindparam("job_id"), IS_OPEN, _jobs.c.started_at_ms.is_(None)
)
_OF_PARENT: Final = (_jobs.c.parent_id == sa.bindparam("job_id"), _jobs.c.parent_id.is_not(None))
_DELETE_FAILED: Final = sa.delete(_jobs).where(
    ~IS_OPEN,
    _jobs.c.kind == sa.bindparam("kind"),
    _jobs.c.state == "failed",
    _jobs.c.subject == sa.bindparam("subject"),
)
_CHILDREN: Final = sa.select(*JOB_COLUMNS).where(*_OF_PARENT)
_COUNT_OPEN_CHILDREN: Final = sa.select(sa.func.count()).where(*_OF_PARENT, IS_OPEN)
_DELETE_FINISHED_CHILDREN: Final = sa.delete(_jobs).where(*_OF_PARENT, ~IS_OPEN)
_WITH_KEY: Final = sa.select(*JOB_COLUMNS).where(
    IS_OPEN, _jobs.c.kind == sa.bindparam("kind"), _jobs.c.dedup_key == sa.bindparam("dedup_key")
)
_LIST_OPEN: Final = (
    sa.select(*JOB_COLUMNS)
    .where(IS_OPEN, _jobs.c.kind == sa.bindparam("kind"))
    .order_by(_jobs.c.not_before_ms)
    .limit(LIMIT)
)
_LIST_OPEN_OF: Final = (
    sa.select(*JOB_COLUMNS)
    .where(IS_OPEN, _jobs.c.kind == sa.bindparam("kind"), _jobs.c.subject == sa.bindparam("subject"))
    .order_by(_jobs.c.not_before_ms)
    .limit(LIMIT)
)
_MAKE_DUE: Final = (
    sa.update(_jobs)
    .where(_jobs.c.id == sa.bindparam("job_id"), _jobs.c.state == "waiting")
    .values(not_before_ms=sa.bindparam("now_ms"), updated_at_ms=sa.bindparam("now_ms"))
)
_POSTPONE: Final = (
    sa.update(_jobs)
    .where(
        _jobs.c.id == sa.bindparam("job_id"),
        _jobs.c.state.in_(("queued", "waiting")),
        _jobs.c.not_before_ms < sa.bindparam("until_ms"),
    )
    .values(not_before_ms=sa.bindparam("until_ms"), updated_at_ms=sa.bindparam("now_ms"))
)
_COUNT: Final = sa.select(_jobs.c.kind, _jobs.c.state, sa.func.count()).group_by(_jobs.c.kind, _jobs.c.state)
_COUNT_DUE: Final = sa.select(sa.func.count()).where(
    IS_OPEN,
    _jobs.c.kind == sa.bindparam("kind"),
    # of a job whose worker died, the end of the lease and the back-off behind it
    _jobs.c.not_before_ms <= sa.bindparam("before_ms"),
)
_LIST_FINISHED: Final = (
    sa.select(*JOB_COLUMNS)
    .where(
        _jobs.c.finished_at_ms.is_not(None),
        _jobs.c.kind == sa.bindparam("kind"),
        _jobs.c.finished_at_ms >= sa.bindparam("after_ms"),
        _jobs.c.finished_at_ms <= sa.bindparam("until_ms"),
        sa.or_(_jobs.c.finished_at_ms > sa.bindparam("after_ms"), _jobs.c.id > sa.bindparam("after_id")),
    )
    .order_by(_jobs.c.finished_at_ms, _jobs.c.id)
    .limit(LIMIT)
)
_LIST_FAILED: Final = (
    sa.select(*JOB_COLUMNS)
    .where(
        _jobs.c.finished_at_ms.is_not(None),
        _jobs.c.kind == sa.bindparam("kind"),
        _jobs.c.state == "failed",
    )
    .order_by(_jobs.c.finished_at_ms)
    .limit(LIMIT)
)
_OLDEST_OPEN: Final = (
    sa.select(_jobs.c.kind, sa.func.min(_jobs.c.created_at_ms)).where(IS_OPEN).group_by(_jobs.c.kind)
)


_TITLES: Final = sa.bindparam("titles", type_=sa.Text(), expanding=True)


def _listed(*where: sa.ColumnElement[bool]) -> sa.Select[*tuple[Any, ...]]:
    return (
        sa.select(*JOB_COLUMNS)
        .where(
            *where,
            (_jobs.c.kind + " " + _jobs.c.state).in_(sa.bindparam("wanted", expanding=True)),
            sa.or_(sa.literal("").in_(_TITLES), _jobs.c.title.in_(_TITLES)),
            _jobs.c.id > sa.bindparam("after"),
        )
        .order_by(_jobs.c.id)
        .limit(LIMIT)
    )


_SIZE: Final = sum(
    (sa.func.length(sa.func.coalesce(_jobs.c[name], "")) for name in ("payload", "progress", "last_error")),
    # of what has a bound elsewhere: names and locations
    sa.func.length(_jobs.c.title) + sa.func.length(_jobs.c.resource) + 1024,
)
_LIST: Final = _listed(_jobs.c.catalog_id == sa.bindparam("catalog_id"))
_LIST_SIZES: Final = _LIST.with_only_columns(_SIZE)
_LIST_CHILDREN: Final = _listed(*_OF_PARENT)
_CHILDREN_SIZES: Final = _LIST_CHILDREN.with_only_columns(_SIZE)
_UNFINISHED: Final = sa.select(_jobs.c.resource).where(
    _jobs.c.catalog_id == sa.bindparam("catalog_id"), sa.or_(IS_OPEN, _jobs.c.state == "failed")
)
_COUNT_IN_LANE: Final = sa.select(sa.func.count()).where(
    IS_OPEN,
    _jobs.c.kind == sa.bindparam("wanted_kind"),
    _jobs.c.lane == sa.bindparam("wanted_lane"),
    _jobs.c.not_before_ms > sa.bindparam("now_ms"),
    _jobs.c.state == "waiting",
)
