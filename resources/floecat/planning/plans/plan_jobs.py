"""Plans that take longer than their client waits: a kind of job."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from floecat.clock import Clock
from floecat.entries.calls import Call
from floecat.errors import FloecatError, NoSuchWarehouseError, PlanStoppedError, UnavailableError
from floecat.identifiers.namespace import TableIdentifier
from floecat.identifiers.written_names import written
from floecat.jobs.kinds import Backoff, JobKind
from floecat.jobs.queue import JobQueue
from floecat.jobs.running_job import JobCancelledError, RunningJob
from floecat.planning.plans.plan_answers import TaskChunk, encode_error, task_list
from floecat.planning.plans.plan_requests import PlannedScan
from floecat.planning.plans.plan_rows import PlanRows
from floecat.planning.plans.task_chunks import ChunkedPlanner
from floecat.storage.catalog_storages import CatalogStorages
from floecat.store.database.engine import Connection, Store
from floecat.store.jobs.jobs import JobRow
from floecat.store.planning import plans
from floecat.store.planning.plans import PlanRow, TaskRow

__all__ = ["PLAN", "PlanJobs"]

PLAN: Final = "plan"
"""Name of the kind."""

_BATCH_TASKS: Final = 64
_BACKOFF: Final = Backoff(base_ms=500, max_ms=5_000)


class _PlanPayload(msgspec.Struct, frozen=True):
    plan_id: UUID


class _Tasks(NamedTuple):
    """The answer of a plan; and whether its tasks need its request to be sent."""

    answer: bytes | None
    has_references: bool


class PlanJobs:
    """Makes jobs of plans, and works on them. Safe to share between threads."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        storages: CatalogStorages,
        planner: ChunkedPlanner,
        rows: PlanRows,
        *,
        lease_ms: int,
        max_attempts: int,
    ) -> None:
        self._store = store
        self._clock = clock
        self._storages = storages
        self._planner = planner
        self._rows = rows
        self.kind = JobKind(
            name=PLAN,
            work=self._work,
            lease_ms=lease_ms,
            max_attempts=max_attempts,
            backoff=_BACKOFF,
            retention_ms=rows.ttl_ms,
        )
        self.queue: Final = JobQueue(store, clock, self.kind)

    def job(
        self, plan_id: UUID, call: Call, identifier: TableIdentifier, entry_id: UUID, now_ms: int
    ) -> JobRow:
        """The job of a plan; it has the id of the plan."""
        job = self.kind.new_job(
            account_id=call.catalog.account_id,
            catalog_id=call.catalog.id,
            title=written(identifier, call.catalog.schema_separator),
            subject=str(entry_id),
            payload=_PlanPayload(plan_id),
            created_by=call.principal.name,
            now_ms=now_ms,
        )
        return msgspec.structs.replace(job, id=plan_id)

    def _work(self, job: RunningJob) -> str | None:
        plan = self._store.run(lambda conn: plans.claim(conn, job.row.id, self._clock.now_ms()))
        if plan is None:
            return "the plan has ended before"
        try:
            made = self._write_tasks(job, plan)
        except FloecatError as error:
            if isinstance(error, UnavailableError) and job.row.attempts < job.row.max_attempts:
                raise
            self._finish(plan, "failed", error=encode_error(error))
            return f"failed: {error.message}"
        self._finish(plan, "completed", made)
        return None

    def _write_tasks(self, job: RunningJob, plan: PlanRow) -> _Tasks:
        """Writes the tasks of a plan; a single one is answered inline."""
        batches = _batches(self._chunks(job, plan))
        first = next(batches, [])
        if len(first) <= 1:
            return _Tasks(first[0].answer if first else None, any(chunk.has_references for chunk in first))
        written = 0
        has_references = False
        for batch in chain([first], batches):
            rows = [
                TaskRow(plan.query_id, number, chunk.answer) for number, chunk in enumerate(batch, written)
            ]
            self._store.run(partial(self._insert, plan=plan, rows=rows))
            written += len(rows)
            has_references |= any(chunk.has_references for chunk in batch)
        return _Tasks(task_list(plan.query_id, range(written)), has_references)

    def _insert(self, conn: Connection, plan: PlanRow, rows: list[TaskRow]) -> None:
        if not plans.is_held(conn, plan.query_id, plan.epoch, self._clock.now_ms()):
            raise JobCancelledError
        plans.insert_tasks(conn, rows)

    def _chunks(self, job: RunningJob, plan: PlanRow) -> Iterator[TaskChunk]:
        with self._store.read() as conn:
            storage = self._storages.by_id(conn, job.row.catalog_id)
        if storage is None:
            raise NoSuchWarehouseError("The catalog of the plan was deleted")
        stopped: list[BaseException] = []

        def stop() -> bool:
            try:
                job.check()
            except Exception as reason:  # noqa: BLE001 - raised below, in the thread of the job
                stopped.append(reason)
            return bool(stopped)

        try:
            yield from self._planner.run(storage, PlannedScan.decode(plan.request), stop=stop)
        except PlanStoppedError:
            if stopped:
                raise stopped[0] from None
            raise

    def _finish(
        self, plan: PlanRow, state: str, made: _Tasks | None = None, error: str | None = None
    ) -> None:
        def finish(conn: Connection) -> None:
            now_ms = self._clock.now_ms()
            if not plans.is_held(conn, plan.query_id, plan.epoch, now_ms):
                raise JobCancelledError
            request = plan.request if made is not None and made.has_references else b""
            answer = None if made is None else made.answer
            plans.finish(conn, plan.query_id, state, now_ms, answer=answer, error=error, request=request)
            self._rows.renew(conn, plan.query_id)

        self._store.run(finish)


def _batches(chunks: Iterator[TaskChunk]) -> Iterator[list[TaskChunk]]:
    batch: list[TaskChunk] = []
    for chunk in chunks:
        batch.append(chunk)
        if len(batch) == _BATCH_TASKS:
            yield batch
            batch = []
    if batch:
        yield batch
