"""Jobs for Delta tables, which sensors and schedules start."""

# no __future__.annotations here: Dagster wants the type of `context` and takes no text for it

import dagster as dg

from floecat_assets.defs.delta.assets import artifacts
from floecat_assets.defs.delta.checks import artifacts_present
from floecat_assets.defs.resources import KernelResource

__all__ = ["connector_scan", "delta_artifacts", "delta_repair"]

_NAMED = 20
"""Most tables that the log of a run names one by one."""

_OF_ALL_TABLES = dg.AssetSelection.checks(artifacts_present)

delta_artifacts = dg.define_asset_job(
    "delta_artifacts",
    # with the checks that count its output, without the one that covers all tables
    selection=dg.AssetSelection.assets(artifacts) - _OF_ALL_TABLES,
    description="Brings one Delta table up to its log.",
)

delta_repair = dg.define_asset_job(
    "delta_repair",
    selection=_OF_ALL_TABLES,
    description="Rebuilds lost artifacts of all Delta tables.",
)


@dg.op(pool="connectors")
def scan_connectors(context: dg.OpExecutionContext, kernel: KernelResource) -> None:
    """Scans the connectors that are due, and registers the tables that they find.

    A problem with a table is recorded with its connector and does not stop the scan.
    """
    ended_early = []
    for report in kernel.connector_scans().scan_due():
        context.log.info(
            "connector %s: %d tables registered, %d of them cannot be read, %d changed, %d were known,"
            " %d failed",
            report.connector,
            len(report.registered),
            len(report.unreadable),
            len(report.changed),
            len(report.skipped),
            len(report.failed),
        )
        for made in report.unreadable[:_NAMED]:
            problem = made.problem.message if made.problem else ""
            context.log.warning("table %s cannot be read: %s", made.identifier, problem)
        if report.summary is not None:
            context.log.warning("connector %s: %s", report.connector, report.summary)
        if report.error is not None:
            ended_early.append(report.connector)
    if ended_early:
        raise dg.Failure(
            f"Scans of {len(ended_early)} connectors ended early: {', '.join(ended_early[:10])}",
            allow_retries=False,
        )


@dg.job
def connector_scan() -> None:
    """Scans the connectors that are due."""
    scan_connectors()
