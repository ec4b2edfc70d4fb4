"""Schedules for Delta tables."""

from __future__ import annotations

import dagster as dg

from floecat.errors import UnavailableError, UnsupportedOperationError
from floecat_assets.defs.delta.jobs import delta_repair
from floecat_assets.defs.resources import KernelResource
from floecat_assets.defs.runs import run_unless_under_way

__all__ = ["delta_repair_schedule"]


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
