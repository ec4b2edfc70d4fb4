"""Fetches the tasks of a plan, each once (Iceberg REST specification, `fetchScanTasks`)."""

from __future__ import annotations

from floecat.clock import Clock
from floecat.entries.calls import Call
from floecat.errors import NoSuchPlanIdError, NoSuchPlanTaskError
from floecat.identifiers.namespace import TableIdentifier
from floecat.planning.plan_answers import TaskName, unpack
from floecat.planning.plan_rows import REPLAY_MS, PlanRows
from floecat.store import plans, queries
from floecat.store.database.engine import Connection, Store
from floecat.store.plans import TaskRow

__all__ = ["PlanTaskService"]

_OPEN = "completed"
_ANSWERED = ("completed", "ended_commit")


class PlanTaskService:
    """Answers tasks.

    A task is consumed by its first request. What the answer was is told again to the same request, as its
    idempotency key says, and to any of the same principal within a minute, in case the answer was lost.
    """

    def __init__(self, store: Store, clock: Clock, rows: PlanRows, *, replays: bool) -> None:
        """Puts the service together.

        Args:
            store: keeps plans.
            clock: wall-clock time.
            rows: finds plans.
            replays: whether an answer is given again.
        """
        self._store = store
        self._clock = clock
        self._rows = rows
        self._replays = replays

    def fetch(self, call: Call, identifier: TableIdentifier, task: str) -> bytes:
        """What a task answers, as the fields of a JSON object without the braces.

        Args:
            call: who asks; its idempotency key tells a retry.
            identifier: the table.
            task: the name of the task.

        Raises:
            ForbiddenError: the principal may not read the table.
            NoSuchTableError: the table does not exist.
            NoSuchPlanTaskError: there is no such task of this table and principal, or it was consumed.
        """
        missing = NoSuchPlanTaskError(f"Plan task does not exist, or was fetched before: {task[:80]}")
        try:
            name = TaskName.parse(task)
            query, _ = self._rows.find(call, identifier, name.plan_id)
        except (NoSuchPlanIdError, NoSuchPlanTaskError):
            raise missing from None
        key = None if call.request is None else call.request.key

        def fetch(conn: Connection) -> bytes | None:
            row = plans.get_task(conn, *name)
            if row is None:
                return None
            now_ms = self._clock.now_ms()
            if row.consumed_at_ms is not None:
                return row.answer if self._is_retry(row, key, now_ms) else None
            if not plans.consume(conn, *name, now_ms, key=key):
                return self._consumed_meanwhile(conn, name, key, now_ms)
            if not plans.has_open_tasks(conn, name.plan_id):
                grace_ms = REPLAY_MS if self._replays else 0
                queries.end(conn, name.plan_id, "ended_commit", now_ms, grace_ms)
            return row.answer

        answer = self._store.run(fetch) if query.state in _ANSWERED else None
        if answer is None:
            raise missing
        return unpack(answer)

    def _consumed_meanwhile(
        self, conn: Connection, name: TaskName, key: str | None, now_ms: int
    ) -> bytes | None:
        row = plans.get_task(conn, *name)
        return row.answer if row is not None and self._is_retry(row, key, now_ms) else None

    def _is_retry(self, row: TaskRow, key: str | None, now_ms: int) -> bool:
        if not self._replays:
            return False
        return (key is not None and key == row.consumed_key) or now_ms < (row.consumed_at_ms or 0) + REPLAY_MS
