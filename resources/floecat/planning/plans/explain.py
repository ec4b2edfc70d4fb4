"""Explains plans. Nothing is stored."""

from __future__ import annotations

import time
from collections.abc import Callable

from floecat.entries.calls import Call
from floecat.entries.overlaps import own_folders
from floecat.errors import PlanStoppedError, UnavailableError
from floecat.identifiers.namespace import TableIdentifier
from floecat.planning.plans.explanations import Explanation
from floecat.planning.plans.plan_requests import PlannedScan, PlanTableScan
from floecat.planning.plans.task_chunks import ChunkedPlanner
from floecat.planning.table_states import CurrentTables, named_snapshot_id

__all__ = ["ExplainService"]


class ExplainService:
    """Plans scans for people to look at."""

    def __init__(self, tables: CurrentTables, planner: ChunkedPlanner, *, budget_ms: int) -> None:
        self._tables = tables
        self._planner = planner
        self._budget_ms = budget_ms

    def explain(
        self,
        call: Call,
        identifier: TableIdentifier,
        filter: str | None = None,
        snapshot: str | None = None,
        *,
        progress: Callable[[int], None] = lambda _: None,
    ) -> Explanation:
        """Explains the plan of a scan.

        Args:
            filter: which rows, as in SQL: `day = '2026-11-01' and amount > 10`; None for all.
            snapshot: its id, or the name of a branch or tag; None for the current one.
            progress: called now and then with how many files were looked at.

        Raises:
            ForbiddenError: the principal may not read the table.
            NoSuchTableError: the table does not exist.
            BadRequestError: the filter cannot be read.
            NotFoundError: there is no such snapshot.
            UnavailableError: it takes longer than `floecat.planning.explain-budget-ms`.
            FloecatError: the table, or one of its manifests, cannot be read.
        """
        ends_at = time.monotonic() + self._budget_ms / 1000
        entry = self._tables.load(call, identifier)
        metadata = entry.document.parsed()
        planner = self._planner.planner()
        from floecat.planning.plans.plan_summaries import explain_plan, parse_filter_text

        sent = PlanTableScan(
            snapshot_id=named_snapshot_id(metadata, snapshot),
            filter=None if filter is None else parse_filter_text(filter),
        )
        scan = PlannedScan.of(metadata, sent, own=own_folders(entry.row, metadata.properties))
        try:
            return explain_plan(
                planner, call.catalog.storage, scan, progress, lambda: time.monotonic() >= ends_at
            )
        except PlanStoppedError:
            raise UnavailableError(
                f"The plan takes longer than floecat.planning.explain-budget-ms: {self._budget_ms}"
            ) from None
