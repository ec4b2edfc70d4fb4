"""Schedules of the checks of tables."""

from __future__ import annotations

import dagster as dg

from floecat_assets.defs.catalog.checks import metadata_files_reachable
from floecat_assets.defs.partitions import TABLES
from floecat_assets.defs.runs import run_unless_under_way

__all__ = ["metadata_check", "metadata_check_schedule"]

metadata_check = dg.define_asset_job(
    "metadata_check",
    selection=dg.AssetSelection.checks(metadata_files_reachable),
    description="Checks that the metadata file of every table is in storage.",
)


@dg.schedule(
    job=metadata_check,
    cron_schedule="43 3 * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Checks every night, if there are tables, that the metadata file of each is in storage.",
)
def metadata_check_schedule(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
    """Asks for a check when tables were reported and no check is under way."""
    if not context.instance.get_dynamic_partitions(TABLES.name or ""):
        return dg.SkipReason("There are no tables")
    return run_unless_under_way(context, metadata_check.name)
