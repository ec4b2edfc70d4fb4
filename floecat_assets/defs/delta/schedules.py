"""Schedules for connectors and Delta tables."""

from __future__ import annotations

import dagster as dg

from floecat.errors import UnavailableError, UnsupportedOperationError
from floecat_assets.defs.delta.jobs import connector_scan, delta_repair
from floecat_assets.defs.resources import KernelResource
from floecat_assets.defs.runs import run_unless_under_way

__all__ = ["connector_scan_schedule", "delta_repair_schedule"]

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
        pipeline = kernel.delta_pipeline()
        if not pipeline.has_due_connector(kernel.now_ms()):
            # all that are enabled are due at some time
            exists = pipeline.has_due_connector(_END_OF_TIME_MS)
            return dg.SkipReason("No connector is due" if exists else "There are no connectors")
    except (UnavailableError, UnsupportedOperationError) as error:
        return dg.SkipReason(f"Nothing was checked: {error.message}")
    return run_unless_under_way(context, connector_scan.name)


@dg.schedule(
    job=delta_repair,
    cron_schedule="17 * * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description=(
        "Checks every hour, if there are Delta tables, whether VACUUM deleted artifacts of theirs, and"
        " rebuilds those."
    ),
)
def delta_repair_schedule(
    context: dg.ScheduleEvaluationContext, kernel: KernelResource
) -> dg.RunRequest | dg.SkipReason:
    """Asks for a check when there are Delta tables and no check is under way."""
    try:
        if next(iter(kernel.delta_pipeline().tables()), None) is None:
            return dg.SkipReason("There are no Delta tables")
    except (UnavailableError, UnsupportedOperationError) as error:
        return dg.SkipReason(f"Nothing was checked: {error.message}")
    return run_unless_under_way(context, delta_repair.name)
