"""Scan plans: asked for, polled, cancelled (Iceberg REST specification, `planTableScan`).

A plan is made while the client waits, within a budget. What takes longer starts again as a job, which any
process works on; the manifests that were read are in memory by then. A plan whose tasks fit one answer has
answered everything, and is kept for as long as a client may ask for it again. Under an idempotency key that
is long: only the scan with its snapshot is kept then, and the same answer is made again. A larger plan is
answered by the names of its tasks alone. Tasks of a very large one are ranges of manifests, which answer the
names of further tasks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple
from uuid import UUID

import uuid_utils.compat as uuids

from floecat.clock import Clock
from floecat.entries.calls import Call
from floecat.entries.idempotency_keys import Finish, IdempotencyKeys, JsonAnswer
from floecat.entries.lookup import Entry
from floecat.entries.overlaps import own_folders
from floecat.errors import (
    CommitStateUnknownError,
    NoSuchPlanIdError,
    PlanStoppedError,
    StoreUnavailableError,
    UnavailableError,
)
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.identifiers.namespace import TableIdentifier
from floecat.planning.plans.plan_answers import (
    PartitionForm,
    PlanAnswer,
    TaskChunk,
    decode_error,
    task_list,
    unpack,
)
from floecat.planning.plans.plan_jobs import PlanJobs
from floecat.planning.plans.plan_requests import PlannedScan, PlanTableScan
from floecat.planning.plans.plan_rows import REPLAY_MS, PlanRows
from floecat.planning.plans.task_chunks import ChunkedPlanner
from floecat.planning.queries import OpenQueries, pin_row
from floecat.planning.table_states import CurrentTables
from floecat.store.database.engine import Connection, Store
from floecat.store.jobs import job_trees, jobs
from floecat.store.planning import plans, queries
from floecat.store.planning.plans import PlanRow, TaskRow
from floecat.store.planning.queries import QueryRow
from floecat.working_memory import take_memory

__all__ = ["PlanClient", "PlanService"]

_MOST_BYTES = 32 << 20
"""Compressed tasks of a plan that is made while the client waits; a larger plan is a job."""
_RETRY_AFTER_S = 5


class PlanClient(NamedTuple):
    """The abilities of a client."""

    budget_ms: int
    """Time that it waits for a plan."""
    is_early_pyiceberg: bool = False
    """PyIceberg up to 0.12 cannot poll, and takes partitions in a form of its own."""
    zero_is_current: bool = False
    """Whether it means the current snapshot by the snapshot id 0."""


class PlanService:
    """Makes scan plans."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        keys: IdempotencyKeys,
        tables: CurrentTables,
        planner: ChunkedPlanner,
        rows: PlanRows,
        work: PlanJobs,
        bounds: OpenQueries,
    ) -> None:
        self._store = store
        self._clock = clock
        self._keys = keys
        self._tables = tables
        self._planner = planner
        self._rows = rows
        self._work = work
        self._bounds = bounds

    def plan(
        self, call: Call, identifier: TableIdentifier, sent: PlanTableScan, client: PlanClient
    ) -> PlanAnswer:
        """Plans a scan.

        Returns:
            The plan, completed or submitted.

        Raises:
            ForbiddenError: the principal may not read the table.
            NoSuchTableError: the table does not exist.
            BadRequestError: no such snapshot, both kinds of range, or a filter that cannot be bound.
            UnavailableError: too many plans are open, or it takes longer than the client can wait.
            FloecatError: the table, or one of its manifests, cannot be read.
        """
        made: PlanAnswer | None = None

        def work(finish: Finish[UUID]) -> UUID:
            nonlocal made
            made = self._made(call, identifier, sent, client, finish)
            return made.plan_id

        plan_id = self._keys.run(call, JsonAnswer(UUID), work)
        if made is not None:
            return made
        try:
            return self.result(call, identifier, plan_id)
        except NoSuchPlanIdError:
            # its tasks have expired, or were all fetched: their names would be of no use
            return self._made(call, identifier, sent, client, lambda *_: None)

    def result(self, call: Call, identifier: TableIdentifier, plan_id: UUID) -> PlanAnswer:
        """A plan as it is now.

        Raises:
            ForbiddenError: the principal may not read the table.
            NoSuchTableError: the table does not exist.
            NoSuchPlanIdError: there is no such plan of this table and principal, or it has expired.
        """
        query, plan = self._rows.find(call, identifier, plan_id)
        match query.state:
            case "submitted":
                return self._submitted(plan_id)
            case "failed":
                return PlanAnswer(plan_id, "failed", error=decode_error(plan.error or ""))
            case "ended_abort":
                return PlanAnswer(plan_id, "cancelled")
        fields = self._planner.answer(
            self._answer(call, plan), plan_id, lambda: PlannedScan.decode(plan.request)
        )
        return PlanAnswer(plan_id, "completed", fields)

    def cancel(self, call: Call, identifier: TableIdentifier, plan_id: UUID) -> None:
        """Cancels a plan, and frees what it takes; one that is cancelled stays so.

        Raises:
            ForbiddenError, NoSuchTableError, NoSuchPlanIdError: as `result`.
        """
        self._rows.find(call, identifier, plan_id)

        def cancel(conn: Connection) -> None:
            now_ms = self._clock.now_ms()
            if queries.abort(conn, plan_id, now_ms, REPLAY_MS):
                job_trees.cancel(conn, plan_id, now_ms)
                plans.free(conn, plan_id)

        self._store.run(cancel)

    def _answer(self, call: Call, plan: PlanRow) -> bytes | None:
        """The answer of a completed plan; made again where only its scan is kept."""
        if plan.answer is not None or not plan.request:
            return plan.answer
        chunks = list(self._planner.run(call.catalog.storage, PlannedScan.decode(plan.request)))
        if len(chunks) > 1:  # the settings of tasks have changed
            raise NoSuchPlanIdError(f"Plan does not exist: {plan.query_id}")
        return chunks[0].answer if chunks else None

    def _submitted(self, plan_id: UUID) -> PlanAnswer:
        """A plan that is not finished, unless its job has ended without finishing it."""
        with self._store.read() as conn:
            job = jobs.get(conn, plan_id)
        if job is not None and job.state == "cancelled":
            return PlanAnswer(plan_id, "cancelled")
        if job is None or job.state == "failed":
            error = UnavailableError("The plan could not be made: its workers failed; plan again")
            return PlanAnswer(plan_id, "failed", error=error)
        return PlanAnswer(plan_id, "submitted")

    def _made(
        self,
        call: Call,
        identifier: TableIdentifier,
        sent: PlanTableScan,
        client: PlanClient,
        finish: Finish[UUID],
    ) -> PlanAnswer:
        entry = self._tables.load(call, identifier)
        metadata = entry.document.parsed()
        scan = PlannedScan.of(
            metadata,
            sent,
            zero_is_current=client.zero_is_current,
            form=_form(client, has_columns=self._tables.files_have_partition_columns(entry)),
            own=own_folders(entry.row, metadata.properties),
        )
        with self._store.read() as conn:
            self._bounds.check(conn, call, self._clock.now_ms())
        plan = _NewPlan(call, identifier, entry, scan, finish)
        self._planner.planner()  # what the first plan imports is not for its client to wait for
        ends_at = time.monotonic() + client.budget_ms / 1000
        try:
            return self._made_by(plan, client, lambda: time.monotonic() >= ends_at)
        except PlanStoppedError:
            if client.is_early_pyiceberg:
                raise UnavailableError(
                    "The plan takes longer than this client can wait, which cannot poll; try again",
                    retry_after_s=_RETRY_AFTER_S,
                ) from None
            return self._submit(plan)

    def _made_by(self, plan: _NewPlan, client: PlanClient, stop: Callable[[], bool]) -> PlanAnswer:
        """The plan while its client waits; raises `PlanStoppedError` if there is no time for it."""
        storage = plan.call.catalog.storage
        ranges = self._planner.ranges(storage, plan.scan, stop=stop)
        if ranges:
            return self._divide(plan, ranges)
        chunks: list[TaskChunk] = []
        size = 0
        for chunk in self._planner.run(storage, plan.scan, stop=stop):
            take_memory(len(chunk.answer))
            chunks.append(chunk)
            size += len(chunk.answer)
            if not client.is_early_pyiceberg and size > _MOST_BYTES:
                return self._submit(plan)
        return self._complete(plan, chunks)

    def _complete(self, plan: _NewPlan, chunks: Sequence[TaskChunk]) -> PlanAnswer:
        now_ms, plan_id = self._clock.now_ms(), uuids.uuid7()
        kept = plan.scan.encode() if any(chunk.has_references for chunk in chunks) else b""
        if len(chunks) > 1:
            answer: bytes | None = task_list(plan_id, range(len(chunks)))
            tasks = [TaskRow(plan_id, number, chunk.answer) for number, chunk in enumerate(chunks)]
            query = plan.query(plan_id, "completed", now_ms, self._rows.ttl_ms)
            self._insert(plan, query, PlanRow(plan_id, plan.entry.row.id, kept, answer), tasks)
            return PlanAnswer(plan_id, "completed", unpack(answer))
        answer = chunks[0].answer if chunks else None
        row, kept_ms = PlanRow(plan_id, plan.entry.row.id, kept, answer), REPLAY_MS
        if plan.call.request is not None:
            kept_ms = max(REPLAY_MS, self._keys.lifetime_ms)
            if answer is not None:
                row = PlanRow(plan_id, plan.entry.row.id, plan.scan.encode())
        query = plan.query(plan_id, "ended_commit", now_ms, kept_ms, ended_at_ms=now_ms)
        self._insert(plan, query, row, [])
        return PlanAnswer(plan_id, "completed", self._planner.answer(answer, plan_id, lambda: plan.scan))

    def _divide(self, plan: _NewPlan, ranges: Sequence[tuple[int, int]]) -> PlanAnswer:
        """A plan whose tasks are made as they are asked for."""
        now_ms, plan_id = self._clock.now_ms(), uuids.uuid7()
        answer = task_list(plan_id, range(len(ranges)))
        tasks = [TaskRow(plan_id, number, None, *bounds) for number, bounds in enumerate(ranges)]
        query = plan.query(plan_id, "completed", now_ms, self._rows.ttl_ms)
        self._insert(plan, query, PlanRow(plan_id, plan.entry.row.id, plan.scan.encode(), answer), tasks)
        return PlanAnswer(plan_id, "completed", unpack(answer))

    def _submit(self, plan: _NewPlan) -> PlanAnswer:
        now_ms, plan_id = self._clock.now_ms(), uuids.uuid7()
        query = plan.query(plan_id, "submitted", now_ms, self._rows.ttl_ms)
        job = self._work.job(plan_id, plan.call, plan.identifier, plan.entry.row.id, self._clock.now_ms())
        row = PlanRow(plan_id, plan.entry.row.id, plan.scan.encode())
        self._insert(plan, query, row, [], lambda conn: jobs.insert(conn, job))
        self._work.queue.wake()
        return PlanAnswer(plan_id, "submitted")

    def _insert(
        self,
        new: _NewPlan,
        query: QueryRow,
        plan: PlanRow,
        tasks: Sequence[TaskRow],
        also: Callable[[Connection], None] = lambda _: None,
    ) -> None:
        scan = new.scan
        pin = pin_row(query.id, new.entry, query.created_at_ms, snapshot_id=scan.snapshot_id)

        def insert(conn: Connection) -> None:
            plans.insert(conn, query, plan, tasks)
            queries.pin(conn, pin)
            also(conn)
            new.finish(conn, query.id)

        try:
            self._store.run(insert)
        except CommitStateUnknownError:
            # a plan that nobody knows of expires
            raise StoreUnavailableError(
                "The store did not say whether it keeps the plan; plan again"
            ) from None


def _form(client: PlanClient, *, has_columns: bool) -> PartitionForm:
    if not client.is_early_pyiceberg:
        return "specified"
    return "pyiceberg" if has_columns else "pyiceberg-without-columns"


class _NewPlan(NamedTuple):
    call: Call
    identifier: TableIdentifier
    entry: Entry[TableMetadata]
    scan: PlannedScan
    finish: Finish[UUID]

    def query(
        self, plan_id: UUID, state: str, now_ms: int, ttl_ms: int, ended_at_ms: int | None = None
    ) -> QueryRow:
        return QueryRow(
            id=plan_id,
            catalog_id=self.call.catalog.id,
            principal=self.call.principal.name,
            state=state,
            created_at_ms=now_ms,
            expires_at_ms=now_ms + ttl_ms,
            ended_at_ms=ended_at_ms,
        )
