"""The schedule of scans."""

from __future__ import annotations

import dagster as dg

from floecat.errors import UnavailableError
from floecat_assets.defs.connectors.jobs import connector_scan
from floecat_assets.defs.resources import KernelResource
from floecat_assets.defs.runs import run_unless_under_way

__all__ = ["connector_scan_schedule"]

_END_OF_TIME_MS = (1 << 63) - 1


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
        scans = kernel.connector_scans()
        if not scans.is_due(kernel.now_ms()):
            # all that are enabled are due at some time
            exists = scans.is_due(_END_OF_TIME_MS)
            return dg.SkipReason("No connector is due" if exists else "There are no connectors")
    except UnavailableError as error:
        return dg.SkipReason(f"Nothing was checked: {error.message}")
    return run_unless_under_way(context, connector_scan.name)
