"""Follows the logs of Delta tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import dagster as dg

from floecat.delta.refresh.pipeline_results import Look, PendingTable, TablePosition
from floecat.errors import UnavailableError, UnsupportedOperationError
from floecat.events.live_entries import LiveEntries
from floecat_assets.defs.cursors import Cursor, read_cursor, write_cursor
from floecat_assets.defs.delta.assets import ARTIFACTS
from floecat_assets.defs.delta.jobs import delta_artifacts
from floecat_assets.defs.partitions import DELTA_TABLES, partition_of
from floecat_assets.defs.resources import KernelResource
from floecat_assets.defs.runs import UNFINISHED
from floecat_assets.table_keys import table_id

__all__ = ["RUNS_PER_TICK", "TABLES_PER_TICK", "delta_log_sensor"]

TABLES_PER_TICK = 1_000
"""Most tables whose log is listed in a tick; the next tick continues after them."""

RUNS_PER_TICK = 100
"""Most runs that a tick starts; the next tick starts the others."""

_MAX_TRIES = 6
_FIRST_PAUSE_S = 60.0
_TABLE_TAG = "floecat/table"
_STATE_TAG = "floecat/delta_log"
_PARTITION_TAG = "dagster/partition"
_JOB = delta_artifacts.name


class _Cursor(Cursor, frozen=True):
    after: TablePosition | None = None


@dg.sensor(
    job=delta_artifacts,
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=(
        "Looks at the logs of Delta tables, and starts a run for each table whose log has versions that"
        " Iceberg readers cannot see yet. A log that fails is tried again with growing pauses."
    ),
)
def delta_log_sensor(
    context: dg.SensorEvaluationContext, kernel: KernelResource
) -> dg.SensorResult | dg.SkipReason:
    """Starts a run for each Delta table whose log is ahead of its entry.

    A state of a log is run once, and after a failure a few more times with growing pauses. Nothing starts for
    a table while it has a run. The cursor is the last table that was checked; a tick continues after it, and
    starts over after the last table.
    """
    cursor = read_cursor(context.cursor, _Cursor)
    try:
        look = kernel.delta_pipeline().look(cursor.after, limit=TABLES_PER_TICK)
        now_s = kernel.now_ms() / 1000
    except (UnavailableError, UnsupportedOperationError) as error:
        return dg.SkipReason(f"Nothing was checked: {error.message}")
    for table in look.broken:
        context.log.warning("the Delta log of %s cannot be read: %s", table.name, table.problem)
    requests = _Requests(context.instance, kernel.open().events.live_entries, now_s)
    after = look.next
    for pending in look.pending:
        requests.add(pending)
        if len(requests.made) == RUNS_PER_TICK:
            after = pending.position
            break
    return dg.SensorResult(
        run_requests=requests.made,
        cursor=write_cursor(_Cursor(after=after)),
        skip_reason=None if requests.made else _summary(look, requests),
    )


class _Requests:
    """Runs that a tick asks for."""

    def __init__(self, instance: dg.DagsterInstance, entries: LiveEntries, now_s: float) -> None:
        self._instance = instance
        self._now_s = now_s
        self._running = set(_running_tables(instance))
        self._entries = entries
        self.made: list[dg.RunRequest] = []
        self.waiting = 0
        self.given_up = 0

    def add(self, table: PendingTable) -> None:
        """Asks for a run of a table, unless it has to wait."""
        entry = self._entries.get(table.entry_id)
        if entry is None or str(table.entry_id) in self._running:
            self.waiting += 1
            return
        tags = {_TABLE_TAG: str(table.entry_id), _STATE_TAG: table.state}
        tries = self._instance.get_run_records(dg.RunsFilter(tags=tags))
        if not self._may_try(tries):
            return
        suffix = f":retry-{len(tries)}" if tries else ""
        self.made.append(
            dg.RunRequest(
                run_key=f"{table.entry_id}:{table.state}{suffix}",
                partition_key=partition_of(self._instance, DELTA_TABLES, entry),
                tags=tags | {"floecat/name": table.name, "floecat/reason": table.reason},
            )
        )

    def _may_try(self, tries: Sequence[dg.RunRecord]) -> bool:
        if not tries:
            return True
        if len(tries) >= _MAX_TRIES or tries[0].dagster_run.status == dg.DagsterRunStatus.SUCCESS:
            self.given_up += 1
            return False
        pause_s = _FIRST_PAUSE_S * 4 ** (len(tries) - 1)
        if self._now_s - tries[0].update_timestamp.timestamp() < pause_s:
            self.waiting += 1
            return False
        return True


def _running_tables(instance: dg.DagsterInstance) -> Iterator[str]:
    """Ids of tables that have a run."""
    for run in instance.get_runs(dg.RunsFilter(statuses=UNFINISHED)):
        table = run.tags.get(_TABLE_TAG)
        if table is None and (run.job_name == _JOB or ARTIFACTS in (run.asset_selection or ())):
            table = str(table_id(run.tags.get(_PARTITION_TAG, "")))  # started by hand
        if table is not None:
            yield table


def _summary(look: Look, requests: _Requests) -> str:
    counts: Mapping[str, int] = {
        "wait for a run or a pause": requests.waiting,
        "were given up": requests.given_up,
        "have a log that cannot be read": len(look.broken),
    }
    reasons = "; ".join(f"{count} {what}" for what, count in counts.items() if count)
    return f"{look.looked} Delta tables checked, nothing to start" + (f": {reasons}" if reasons else "")
