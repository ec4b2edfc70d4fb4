"""Follows captures: reports those that ended, and starts runs for those that the service left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

import dagster as dg

from floecat.errors import FloecatError, UnavailableError
from floecat.statistics.capture.requests import CAPTURE
from floecat_assets.defs.cursors import JobCursor, read_cursor, write_cursor
from floecat_assets.defs.partitions import CAPTURED_TABLES, partition_of
from floecat_assets.defs.resources import KernelResource
from floecat_assets.defs.runs import SPARK_TAG, UNFINISHED
from floecat_assets.defs.statistics.assets import targets
from floecat_assets.defs.statistics.checks import FAILED_CAPTURES
from floecat_assets.defs.statistics.reporting import news_of, report_history

if TYPE_CHECKING:
    from floecat.runtime import Kernel
    from floecat.statistics.capture.descriptions import CaptureInfo

__all__ = [
    "CAPTURES_PER_TICK",
    "LEFT_AFTER_MS",
    "MOST_FILES",
    "RUNS_PER_TICK",
    "capture_sensor",
    "statistics_capture",
]

LEFT_AFTER_MS = 60_000
"""A capture that waits for so long is left over: workers of the service take theirs within seconds."""

RUNS_PER_TICK = 50
"""Most runs that a tick starts; the next tick starts the others."""

CAPTURES_PER_TICK = 50
"""Most captures that a tick reports: each takes some 50 ms, and a tick has a minute."""

MOST_FILES = 20_000
"""The manifests of tables with more data files are not read for a report."""

_TABLE_TAG = "floecat/table"

statistics_capture = dg.define_asset_job(
    "statistics_capture",
    selection=dg.AssetSelection.assets(targets),
    description="Captures statistics of tables that the service left, or that are large enough for Spark.",
)


@dg.sensor(
    job=statistics_capture,
    minimum_interval_seconds=10,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=(
        "Reports statistics to statistics/targets and to the asset of their table, and starts a run for each"
        " table with captures that no worker of the service took, or that are offered to Spark."
    ),
)
def capture_sensor(
    context: dg.SensorEvaluationContext, kernel: KernelResource
) -> dg.SensorResult | dg.SkipReason:
    """Reports captures that ended since the last tick, and starts runs for those that are left.

    The cursor is the last capture that was looked at. If captures failed for good, or were retried, since the
    last tick, the check of the asset is evaluated.
    """
    cursor = read_cursor(context.cursor, JobCursor)
    try:
        opened = kernel.open()
        pipeline = opened.statistics.pipeline
        if opened.settings.statistics.enabled:
            pipeline.search_commits()
        finished = opened.jobs.of(CAPTURE).finished(cursor.finished_at_ms, cursor.job_id, CAPTURES_PER_TICK)
        requests = list(_requests(context.instance, opened))
        failed = FAILED_CAPTURES.count(opened)
    except UnavailableError as error:
        return dg.SkipReason(f"Nothing was looked at, the cursor stays: {error.message}")
    events: list[dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation] = list(
        _events(context, opened, finished)
    )
    if failed != cursor.failed:
        events.append(FAILED_CAPTURES.evaluate(opened))
    return dg.SensorResult(
        run_requests=requests,
        asset_events=events,
        cursor=write_cursor(cursor.after(finished, failed)),
        skip_reason=None if requests else f"{len(finished)} captures ended, none is left to be worked on",
    )


def _events(
    context: dg.SensorEvaluationContext, kernel: Kernel, finished: Sequence[CaptureInfo]
) -> Iterator[dg.AssetMaterialization | dg.AssetObservation]:
    captured: dict[UUID, set[int]] = {}
    for capture in finished:
        captured.setdefault(capture.table_id, set()).add(capture.snapshot_id)
    for entry_id, snapshot_ids in captured.items():
        entry = kernel.events.live_entries.get(entry_id)
        if entry is None:
            continue  # dropped meanwhile
        key = partition_of(context.instance, CAPTURED_TABLES, entry)
        try:
            again = report_history(context.instance, kernel, entry, snapshot_ids)
            yield from news_of(context.instance, kernel, entry_id, key, most_files=MOST_FILES, again=again)
        except FloecatError as error:
            context.log.warning("the statistics of %s were not reported: %s", key, error.message)


def _requests(instance: dg.DagsterInstance, kernel: Kernel) -> Iterator[dg.RunRequest]:
    now_ms, workers = kernel.clock.now_ms(), kernel.settings.statistics.workers
    left = [
        table
        for table in kernel.statistics.pipeline.pending()
        if table.offered_bytes or not workers or now_ms - table.oldest_at_ms >= LEFT_AFTER_MS
    ]
    if not left:
        return
    running = {
        run.tags.get(_TABLE_TAG)
        for run in instance.get_runs(dg.RunsFilter(job_name=statistics_capture.name, statuses=UNFINISHED))
    }
    made = 0
    for table in left:
        entry = kernel.events.live_entries.get(table.entry_id)
        if str(table.entry_id) in running or entry is None:
            continue
        yield dg.RunRequest(
            partition_key=partition_of(instance, CAPTURED_TABLES, entry),
            tags={
                _TABLE_TAG: str(table.entry_id),
                "floecat/name": table.name,
                **({SPARK_TAG: "captures"} if table.offered_bytes else {}),
            },
        )
        made += 1
        if made == RUNS_PER_TICK:
            return
