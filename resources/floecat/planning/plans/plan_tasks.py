"""Fetches the tasks of a plan, each once (Iceberg REST specification, `fetchScanTasks`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from floecat.clock import Clock
from floecat.entries.calls import Call
from floecat.errors import NoSuchPlanIdError, NoSuchPlanTaskError
from floecat.identifiers.namespace import TableIdentifier
from floecat.planning.plans.plan_answers import NO_TASKS, TaskName, task_list
from floecat.planning.plans.plan_requests import PlannedScan
from floecat.planning.plans.plan_rows import REPLAY_MS, PlanRows
from floecat.planning.plans.task_chunks import ChunkedPlanner
from floecat.store.database.engine import Connection, Store
from floecat.store.entries.documents import compress
from floecat.store.planning import plans, queries
from floecat.store.planning.plans import PlanRow, TaskRow
from floecat.working_memory import take_memory

__all__ = ["PlanTaskService"]

_ANSWERED = ("completed", "ended_commit")
_NUMBERS_PER_RANGE = 1_000_000


class _Made(NamedTuple):
    """An answer, which is new if it was made for this request, and the tasks that it names then."""

    answer: bytes
    is_new: bool
    further: Sequence[TaskRow] = ()


class PlanTaskService:
    """Answers tasks.

    A task is consumed by its first request. What the answer was is told again to the same request, as its
    idempotency key says, and to any of the same principal within a minute, in case the answer was lost.
    """

    def __init__(
        self, store: Store, clock: Clock, planner: ChunkedPlanner, rows: PlanRows, *, replays: bool
    ) -> None:
        """`replays`: whether an answer is given again."""
        self._store = store
        self._clock = clock
        self._planner = planner
        self._rows = rows
        self._replays = replays

    def fetch(self, call: Call, identifier: TableIdentifier, task: str) -> bytes:
        """The answer of a task, as the fields of a JSON object without the braces.

        Args:
            call: who asks; its idempotency key tells a retry.
            task: the name of the task.

        Raises:
            ForbiddenError: the principal may not read the table.
            NoSuchTableError: the table does not exist.
            NoSuchPlanTaskError: there is no such task of this table and principal, or it was consumed.
        """
        missing = NoSuchPlanTaskError(f"Plan task does not exist, or was fetched before: {task[:80]}")
        try:
            name = TaskName.parse(task)
            query, plan = self._rows.find(call, identifier, name.plan_id)
        except (NoSuchPlanIdError, NoSuchPlanTaskError):
            raise missing from None
        with self._store.read() as conn:
            row = plans.get_task(conn, *name)
        if row is None or query.state not in _ANSWERED:
            raise missing
        made = self._divided(call, plan, row) if row.answer is None else _Made(row.answer, False)
        key = None if call.request is None else call.request.key
        answer = self._store.run(lambda conn: self._consume(conn, name, key, made))
        if answer is None:
            raise missing
        return self._planner.answer(answer, name.plan_id, lambda: PlannedScan.decode(plan.request))

    def _consume(self, conn: Connection, name: TaskName, key: str | None, made: _Made) -> bytes | None:
        """The answer of a task, if it is this request's."""
        now_ms = self._clock.now_ms()
        if not plans.consume(conn, *name, now_ms, key=key, answer=made.answer if made.is_new else None):
            row = plans.get_task(conn, *name)
            return row.answer if row is not None and self._is_retry(row, key, now_ms) else None
        plans.insert_tasks(conn, made.further)
        if not plans.has_open_tasks(conn, name.plan_id):
            queries.end(conn, name.plan_id, "ended_commit", now_ms, REPLAY_MS if self._replays else 0)
        return made.answer

    def _divided(self, call: Call, plan: PlanRow, row: TaskRow) -> _Made:
        """Plans a range of manifests. Its tasks have numbers of their own, the same every time."""
        scan = PlannedScan.decode(plan.request)
        scan = msgspec.structs.replace(scan, manifests=(row.first_manifest or 0, row.end_manifest or 0))
        chunks = []
        for chunk in self._planner.run(call.catalog.storage, scan):
            take_memory(len(chunk.answer))
            chunks.append(chunk.answer)
        if len(chunks) <= 1:
            return _Made(chunks[0] if chunks else NO_TASKS, True)
        # the first ones are here already
        begin = (row.number + 1) * _NUMBERS_PER_RANGE
        further = [TaskRow(row.query_id, begin + at, chunk) for at, chunk in enumerate(chunks[1:])]
        names = task_list(row.query_id, (task.number for task in further))
        return _Made(chunks[0] + compress(b",") + names, True, further)

    def _is_retry(self, row: TaskRow, key: str | None, now_ms: int) -> bool:
        if not self._replays:
            return False
        return (key is not None and key == row.consumed_key) or now_ms < (row.consumed_at_ms or 0) + REPLAY_MS
