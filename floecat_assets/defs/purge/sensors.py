"""Starts runs for purges."""

from __future__ import annotations

import dagster as dg

from floecat.errors import UnavailableError
from floecat.purge.entry_file_jobs import ENTRY_FILES
from floecat.purge.purge_jobs import PURGE
from floecat_assets.defs.cursors import JobCursor, read_cursor, write_cursor
from floecat_assets.defs.purge.assets import outcomes, purge_event
from floecat_assets.defs.purge.checks import DEAD_LETTERS, no_dead_letters
from floecat_assets.defs.resources import KernelResource
from floecat_assets.defs.runs import SPARK_TAG, UNFINISHED

__all__ = ["LEFT_AFTER_MS", "PURGES_PER_TICK", "purge_outcomes", "purge_sensor"]

PURGES_PER_TICK = 100
"""Most purges that a tick reports; the next tick reports the others."""

LEFT_AFTER_MS = 60_000
"""A purge that was due for so long is left over: workers of the service take theirs within seconds."""

purge_outcomes = dg.define_asset_job(
    "purge_outcomes",
    selection=dg.AssetSelection.assets(outcomes) | dg.AssetSelection.checks(no_dead_letters),
    description="Works on purges that are offered to Spark, or that no worker of the service took.",
)


@dg.sensor(
    job=purge_outcomes,
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=(
        "Starts a run when purges of dropped tables are large enough for Spark or were left by the service,"
        " and when the number of purges that failed for good changed. Reports each purge that ended."
    ),
)
def purge_sensor(
    context: dg.SensorEvaluationContext, kernel: KernelResource
) -> dg.SensorResult | dg.SkipReason:
    """Starts a run for large purges that are offered, for those that are left over, and for new dead letters.

    One run works on all of them, so none starts while another has not ended. The cursor is the last purge
    that was reported, and the number of dead letters that the last run saw.
    """
    # that of earlier releases was the number alone
    cursor = read_cursor("" if (context.cursor or "").isdecimal() else context.cursor, JobCursor)
    try:
        opened = kernel.open()
        offered = opened.purge.large_jobs.offered()
        # jobs that delete what the catalog wrote for itself about a removed table count, too
        left = opened.jobs.of(PURGE, ENTRY_FILES).overdue(LEFT_AFTER_MS)
        dead = DEAD_LETTERS.count(opened)
        ended = opened.purge.operations.finished(cursor.finished_at_ms, cursor.job_id, PURGES_PER_TICK)
    except UnavailableError as error:
        return dg.SkipReason(f"Nothing was checked: {error.message}")
    found = f"{offered} purges are offered, {left} are left over, {dead} are dead, {len(ended)} ended"
    is_wanted, seen = bool(offered or left or dead != cursor.failed), dead
    if is_wanted and context.instance.get_runs(
        dg.RunsFilter(job_name=purge_outcomes.name, statuses=UNFINISHED), limit=1
    ):
        is_wanted, seen, found = False, cursor.failed, f"{found}; a run is under way"
    if not is_wanted and not ended:
        return dg.SkipReason(found)
    tags = {"floecat/reason": found, **({SPARK_TAG: "purges"} if offered else {})}
    return dg.SensorResult(
        run_requests=[dg.RunRequest(tags=tags)] if is_wanted else [],
        asset_events=[purge_event(purge, opened.settings.gateway.default_account_id) for purge in ended],
        cursor=write_cursor(cursor.after(ended, seen)),
        skip_reason=None if is_wanted else found,
    )
