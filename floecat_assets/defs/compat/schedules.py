"""Schedules for connectors and Delta tables."""

from __future__ import annotations

import dagster as dg

from floecat.errors import UnavailableError, UnsupportedOperationError
from floecat_assets.defs.compat.jobs import UNFINISHED, connector_scan, delta_repair
from floecat_assets.defs.resources import KernelResource

__all__ = ["connector_scan_schedule", "delta_repair_schedule"]


@dg.schedule(
    job=connector_scan,
    cron_schedule="* * * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description=(
        "Starts a scan every minute, if a connector is due. Each connector has an interval of its own."
    ),
)
def connector_scan_schedule(
    context: dg.ScheduleEvaluationContext, kernel: KernelResource
) -> dg.RunRequest | dg.SkipReason:
    """Asks for a scan when a connector is due and no scan is under way."""
    try:
        if not kernel.delta_pipeline().has_due_connector(kernel.now_ms()):
            return dg.SkipReason("No connector is due")
    except (UnavailableError, UnsupportedOperationError) as error:
        return dg.SkipReason(f"Nothing was checked: {error.message}")
    under_way = dg.RunsFilter(job_name=connector_scan.name, statuses=UNFINISHED)
    if context.instance.get_runs(under_way, limit=1):
        return dg.SkipReason("A scan is under way")
    return dg.RunRequest()


delta_repair_schedule = dg.ScheduleDefinition(
    name="delta_repair_schedule",
    job=delta_repair,
    cron_schedule="17 * * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Checks every hour whether VACUUM deleted artifacts of Delta tables.",
)
