"""What happens by the clock."""

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
        "Looks every minute whether a connector is due, and starts a scan if so. Each connector has an"
        " interval of its own."
    ),
)
def connector_scan_schedule(
    context: dg.ScheduleEvaluationContext, kernel: KernelResource
) -> dg.RunRequest | dg.SkipReason:
    """Asks for a scan when a connector is due and no scan is on its way."""
    try:
        if not kernel.delta_pipeline().has_due_connector(kernel.now_ms()):
            return dg.SkipReason("No connector is due")
    except (UnavailableError, UnsupportedOperationError) as error:
        return dg.SkipReason(f"Nothing was looked at: {error.message}")
    under_way = dg.RunsFilter(job_name=connector_scan.name, statuses=UNFINISHED)
    if context.instance.get_runs(under_way, limit=1):
        return dg.SkipReason("A scan is on its way")
    return dg.RunRequest()


delta_repair_schedule = dg.ScheduleDefinition(
    name="delta_repair_schedule",
    job=delta_repair,
    cron_schedule="17 * * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Looks every hour whether VACUUM took artifacts of Delta tables.",
)
