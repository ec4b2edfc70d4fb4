"""Scan plans, each a query, and their tasks.

A plan keeps what planning it again needs, until it is done, and what it answers. A task is either ready, with
its answer, or a range of manifests that is planned when a client asks for it. A worker writes the tasks of a
plan under an epoch, so that one that lost its lease writes no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

import msgspec
import sqlalchemy as sa

from floecat.store.database.connections import Connection
from floecat.store.database.statements import LIMIT
from floecat.store.planning import queries
from floecat.store.planning.queries import QueryRow
from floecat.store.planning.queries import queries as _queries
from floecat.store.schema import id_column, integer_column, metadata, text_column

__all__ = [
    "PlanRow",
    "TaskRow",
    "claim",
    "consume",
    "delete_expired_tasks",
    "finish",
    "free",
    "get",
    "get_task",
    "has_open_tasks",
    "insert",
    "insert_tasks",
    "is_held",
]

_plans: Final = sa.Table(
    "plans",
    metadata,
    id_column("query_id", sa.ForeignKey("queries.id", ondelete="CASCADE"), primary_key=True),
    id_column("entry_id"),
    sa.Column("request", sa.LargeBinary(), nullable=False),
    sa.Column("answer", sa.LargeBinary(), nullable=True),
    text_column("error", nullable=True),
    integer_column("epoch"),
)

_OPEN_TASK: Final = sa.text("consumed_at_ms IS NULL")
_tasks: Final = sa.Table(
    "plan_tasks",
    metadata,
    id_column("query_id", sa.ForeignKey("plans.query_id", ondelete="CASCADE"), primary_key=True),
    integer_column("number", primary_key=True, autoincrement=False),
    sa.Column("answer", sa.LargeBinary(), nullable=True),
    integer_column("first_manifest", nullable=True),
    integer_column("end_manifest", nullable=True),
    integer_column("consumed_at_ms", nullable=True),
    text_column("consumed_key", nullable=True),
    # says whether a plan has tasks left
    sa.Index(None, "query_id", sqlite_where=_OPEN_TASK, postgresql_where=_OPEN_TASK),
)


class PlanRow(msgspec.Struct, frozen=True):
    """A plan."""

    query_id: UUID
    entry_id: UUID
    request: bytes
    """The planning that it needs, as the planner encodes it."""
    answer: bytes | None = None
    """The answer once it is completed, compressed JSON."""
    error: str | None = None
    """The reason why it failed, as JSON."""
    epoch: int = 0
    """Counts the workers that began it."""


class TaskRow(msgspec.Struct, frozen=True):
    """A task of a plan."""

    query_id: UUID
    number: int
    answer: bytes | None = None
    """Compressed JSON; `None` for a range of manifests that was not planned yet."""
    first_manifest: int | None = None
    """First manifest of the range, by its place among those of the plan; `None` for a task with files."""
    end_manifest: int | None = None
    """The manifest behind the range."""
    consumed_at_ms: int | None = None
    consumed_key: str | None = None
    """Idempotency key of the request that consumed it."""


def insert(conn: Connection, query: QueryRow, plan: PlanRow, tasks: Iterable[TaskRow] = ()) -> bool:
    """Inserts a plan with its query and first tasks.

    Returns:
        False if there is a query of this id.
    """
    if not queries.insert(conn, query):
        return False
    conn.change(_INSERT, msgspec.structs.asdict(plan))
    insert_tasks(conn, tasks)
    return True


def get(conn: Connection, query_id: UUID, now_ms: int) -> tuple[QueryRow, PlanRow] | None:
    """A plan that has not expired, with its query."""
    query = queries.get(conn, query_id, now_ms)
    row = None if query is None else conn.first(_GET, {"of_query": query_id})
    return None if query is None or row is None else (query, PlanRow(*row))


def claim(conn: Connection, query_id: UUID, now_ms: int) -> PlanRow | None:
    """Begins the work on a plan, from its start: tasks of an earlier worker are removed.

    Returns:
        The plan with its new epoch; `None` if it is finished, cancelled or expired.
    """
    query = queries.get(conn, query_id, now_ms)
    if query is None or query.state != "submitted":
        return None
    if conn.change(_NEXT_EPOCH, {"of_query": query_id}) == 0:
        return None
    conn.change(_DELETE_TASKS, {"of_query": query_id})
    row = conn.first(_GET, {"of_query": query_id})
    return None if row is None else PlanRow(*row)


def insert_tasks(conn: Connection, tasks: Iterable[TaskRow]) -> None:
    """Inserts tasks.

    Raises:
        DuplicateKeyError: the plan has a task of this number.
    """
    conn.change_many(_INSERT_TASK, [msgspec.structs.asdict(task) for task in tasks])


def is_held(conn: Connection, query_id: UUID, epoch: int, now_ms: int) -> bool:
    """Whether a worker's epoch is the newest of a plan that is still to be made; locks the plan."""
    query = queries.get(conn, query_id, now_ms)
    held = conn.change(_HOLD, {"of_query": query_id, "of_epoch": epoch})
    return held == 1 and query is not None and query.state == "submitted"


def finish(
    conn: Connection,
    query_id: UUID,
    state: str,
    now_ms: int,
    *,
    answer: bytes | None,
    error: str | None,
    request: bytes = b"",
) -> bool:
    """Stores the outcome of a plan that was submitted.

    Args:
        conn: a transaction.
        query_id: the plan.
        state: `completed` or `failed`.
        answer: what is answered, compressed.
        error: why it failed.
        request: what its answers still need of the request.

    Returns:
        False if it is finished, cancelled or expired.
    """
    if not queries.set_state(conn, query_id, state, now_ms):
        return False
    values = {"of_query": query_id, "answer": answer, "error": error, "kept": request}
    return conn.change(_FINISH, values) == 1


def free(conn: Connection, query_id: UUID) -> None:
    """Deletes what takes space of a plan that nobody will ask for: its tasks and its answer."""
    conn.change(_DELETE_TASKS, {"of_query": query_id})
    conn.change(_FREE, {"of_query": query_id})


def get_task(conn: Connection, query_id: UUID, number: int) -> TaskRow | None:
    """A task of a plan."""
    row = conn.first(_GET_TASK, {"of_query": query_id, "of_number": number})
    return None if row is None else TaskRow(*row)


def consume(
    conn: Connection,
    query_id: UUID,
    number: int,
    now_ms: int,
    *,
    key: str | None,
    answer: bytes | None = None,
) -> bool:
    """Consumes a task.

    Args:
        conn: a transaction.
        query_id: the plan.
        number: the task.
        key: idempotency key of the request.
        answer: what a range of manifests turned out to be.

    Returns:
        False if another request did so before.
    """
    parameters = {"of_query": query_id, "of_number": number, "now_ms": now_ms, "key": key, "answer": answer}
    return conn.change(_CONSUME, parameters) == 1


def has_open_tasks(conn: Connection, query_id: UUID) -> bool:
    """Whether a plan has tasks that no client has asked for."""
    return conn.first(_OPEN_TASKS, {"of_query": query_id}) is not None


def delete_expired_tasks(conn: Connection, now_ms: int, limit: int) -> int:
    """Deletes tasks of expired plans.

    Returns:
        How many; fewer than `limit` when none are left.
    """
    return conn.change(_DELETE_EXPIRED_TASKS, {"now_ms": now_ms, "limit": limit})


def _columns(row: type[msgspec.Struct], table: sa.Table) -> Sequence[sa.Column[object]]:
    return [table.c[name] for name in row.__struct_fields__]


_OF_PLAN: Final = _plans.c.query_id == sa.bindparam("of_query")
_OF_TASKS: Final = _tasks.c.query_id == sa.bindparam("of_query")
_THIS_TASK: Final = (_OF_TASKS, _tasks.c.number == sa.bindparam("of_number"))
_INSERT: Final = sa.insert(_plans)
_INSERT_TASK: Final = sa.insert(_tasks)
_GET: Final = sa.select(*_columns(PlanRow, _plans)).where(_OF_PLAN)
_NEXT_EPOCH: Final = sa.update(_plans).where(_OF_PLAN).values(epoch=_plans.c.epoch + 1)
_HOLD: Final = (
    sa.update(_plans).where(_OF_PLAN, _plans.c.epoch == sa.bindparam("of_epoch")).values(epoch=_plans.c.epoch)
)
_FINISH: Final = (
    sa.update(_plans)
    .where(_OF_PLAN)
    .values(answer=sa.bindparam("answer"), error=sa.bindparam("error"), request=sa.bindparam("kept"))
)
_FREE: Final = sa.update(_plans).where(_OF_PLAN).values(answer=sa.null(), request=b"")
_DELETE_TASKS: Final = sa.delete(_tasks).where(_OF_TASKS)
_GET_TASK: Final = sa.select(*_columns(TaskRow, _tasks)).where(*_THIS_TASK)
_CONSUME: Final = (
    sa.update(_tasks)
    .where(*_THIS_TASK, _tasks.c.consumed_at_ms.is_(None))
    .values(
        consumed_at_ms=sa.bindparam("now_ms"),
        consumed_key=sa.bindparam("key"),
        answer=sa.func.coalesce(sa.bindparam("answer"), _tasks.c.answer),
    )
)
_OPEN_TASKS: Final = sa.select(sa.literal(1)).where(_OF_TASKS, _tasks.c.consumed_at_ms.is_(None)).limit(1)
_doomed: Final = (
    sa.select(_tasks.c.query_id, _tasks.c.number)
    .join(_queries, _queries.c.id == _tasks.c.query_id)
    .where(_queries.c.expires_at_ms <= sa.bindparam("now_ms"))
    .limit(LIMIT)
)
_DELETE_EXPIRED_TASKS: Final = sa.delete(_tasks).where(
    sa.tuple_(_tasks.c.query_id, _tasks.c.number).in_(_doomed)
)
