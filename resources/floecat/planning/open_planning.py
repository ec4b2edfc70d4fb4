"""The services of scan plans and queries, and the queue of plans that take long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from floecat.entries.formats import TableFormats
from floecat.entries.open_entries import EntryParts
from floecat.jobs.background import Background
from floecat.jobs.queue import JobQueue
from floecat.planning.plans.explain import ExplainService
from floecat.planning.plans.plan_jobs import PlanJobs
from floecat.planning.plans.plan_rows import PlanRows
from floecat.planning.plans.plan_tasks import PlanTaskService
from floecat.planning.plans.plans import PlanService
from floecat.planning.plans.task_chunks import ChunkedPlanner
from floecat.planning.queries import OpenQueries, QueryService
from floecat.planning.table_states import CurrentTables
from floecat.settings import Settings
from floecat.store.planning import plans as plan_rows
from floecat.store.planning import queries as query_rows

if TYPE_CHECKING:
    from floecat.planning.files.planner import Planner

__all__ = ["PlanningServices", "open_planning"]


@dataclass(frozen=True, slots=True)
class PlanningServices:
    """The services."""

    planner: ChunkedPlanner
    plans: PlanService
    tasks: PlanTaskService
    explanations: ExplainService
    queries: QueryService
    queue: JobQueue


def open_planning(
    parts: EntryParts, formats: TableFormats, settings: Settings, background: Background
) -> PlanningServices:
    """The services over the parts of entries.

    Args:
        formats: bring tables up to date.
        background: works on plans that take long, and ends what expired.
    """
    store, clock, gateway = parts.store, parts.clock, settings.gateway
    tables = CurrentTables(parts.entries, formats)
    bounds = OpenQueries(
        per_catalog=settings.limits.open_queries,
        per_principal=settings.limits.open_queries_per_principal,
    )

    def opened() -> Planner:
        # pyarrow and numpy come with it
        from floecat.planning.files.planner import open_planner

        made = settings.planning
        return open_planner(
            local_bytes=parts.memory.share("plan-manifests"),
            processes=made.processes,
            memory_bytes=made.memory,
            in_process_bytes=made.in_process_bytes,
            most_waiting=made.most_waiting,
            bounds=settings.limits,
            disk_folder=made.disk_cache_folder,
            disk_bytes=made.disk_cache_size,
            check_read=parts.check_read,
        )

    planner = ChunkedPlanner(
        opened,
        parts.memory.cache("plan-filters"),
        files_per_chunk=gateway.plan_task_files_per_task,
        chunk_bytes=gateway.plan_task_bytes,
        # a task is in memory as it is rendered, and as it is answered
        task_bytes=settings.limits.working_memory_bytes // 2,
    )
    rows = PlanRows(store, clock, ttl_ms=gateway.plan_task_ttl.ms)
    work = PlanJobs(
        store,
        clock,
        parts.storages,
        planner,
        rows,
        lease_ms=settings.planning.lease_ms,
        max_attempts=settings.planning.max_attempts,
    )
    background.add(stop=planner.close)
    background.add_queue(
        work.queue, threads=settings.planning.workers, poll_interval_ms=settings.planning.poll_interval_ms
    )
    background.sweeps.update(plan_tasks=plan_rows.delete_expired_tasks, queries=query_rows.delete_expired)
    return PlanningServices(
        planner=planner,
        plans=PlanService(store, clock, parts.keys, tables, planner, rows, work, bounds),
        tasks=PlanTaskService(store, clock, planner, rows, replays=gateway.plan_task_read_once == "replay"),
        explanations=ExplainService(tables, planner, budget_ms=settings.planning.explain_budget_ms),
        queries=QueryService(store, clock, tables, bounds),
        queue=work.queue,
    )
