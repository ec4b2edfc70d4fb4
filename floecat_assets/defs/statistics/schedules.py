"""Statistics that the sensor missed."""

# no __future__.annotations here: Dagster wants the type of `context` and takes no text for it

import dagster as dg

from floecat.errors import FloecatError
from floecat_assets.defs.partitions import CAPTURED_TABLES, keys_by_table
from floecat_assets.defs.resources import KernelResource
from floecat_assets.defs.runs import run_unless_under_way
from floecat_assets.defs.statistics.reporting import news_of
from floecat_assets.defs.statistics.sensors import MOST_FILES

__all__ = ["statistics_report", "statistics_report_schedule"]


@dg.op(pool="statistics")
def report_missed(context: dg.OpExecutionContext, kernel: KernelResource) -> None:
    """Reports the statistics of tables that were captured since they were reported last."""
    opened, reported = kernel.open(), 0
    for entry_id, keys in keys_by_table(context.instance, CAPTURED_TABLES).items():
        try:
            events = list(news_of(context.instance, opened, entry_id, keys[-1], most_files=MOST_FILES))
        except FloecatError as error:
            context.log.warning("the statistics of %s were not reported: %s", keys[-1], error.message)
            continue
        for event in events:
            context.log_event(event)
        reported += bool(events)
    context.log.info("statistics of %d tables are reported", reported)


@dg.job(description="Reports statistics that the sensor missed, of all tables.")
def statistics_report() -> None:
    """One op: it reads the store, and few tables have news."""
    report_missed()


@dg.schedule(
    job=statistics_report,
    cron_schedule="23 4 * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description=(
        "Reports every night, if there are tables, statistics that the sensor missed. It follows the times at"
        " which captures ended, and clocks of machines may differ."
    ),
)
def statistics_report_schedule(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
    """Asks for a report when tables were reported and no report is under way."""
    if not context.instance.get_dynamic_partitions(CAPTURED_TABLES.name or ""):
        return dg.SkipReason("There are no tables")
    return run_unless_under_way(context, statistics_report.name)
