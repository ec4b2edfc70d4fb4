"""The job that scans connectors."""

# no __future__.annotations here: Dagster wants the type of `context` and takes no text for it

from typing import TYPE_CHECKING, Any

import dagster as dg

from floecat.identifiers.namespace import TableIdentifier
from floecat.identifiers.written_names import written
from floecat_assets.defs.connectors.assets import CONNECTORS, discovered_tables
from floecat_assets.defs.connectors.checks import EVALUATIONS
from floecat_assets.defs.resources import KernelResource

if TYPE_CHECKING:
    from floecat.connectors.scan_reports import ConnectorScanReport

__all__ = ["connector_scan"]

_NAMED = 20
"""Most tables that the log of a run, or an event, names one by one."""


@dg.op(pool="connectors")
def scan_connectors(context: dg.OpExecutionContext, kernel: KernelResource) -> None:
    """Scans the connectors that are due: new tables are registered, those of other catalogs followed.

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
            context.log.warning("table %s cannot be read: %s", _name(report, made.identifier), problem)
        if report.summary is not None:
            context.log.warning("connector %s: %s", report.connector, report.summary)
        if report.error is not None:
            ended_early.append(report.connector)
        context.log_event(_scanned(context.instance, report))
    for evaluate in EVALUATIONS:
        # evaluations are taken, and missing in the type
        evaluation: Any = evaluate(kernel.open())
        context.log_event(evaluation)
    if ended_early:
        raise dg.Failure(
            f"Scans of {len(ended_early)} connectors ended early: {', '.join(ended_early[:10])}",
            allow_retries=False,
        )


@dg.job
def connector_scan() -> None:
    """Scans the connectors that are due."""
    scan_connectors()


def _scanned(
    instance: dg.DagsterInstance, report: "ConnectorScanReport"
) -> dg.AssetMaterialization | dg.AssetObservation:
    """The event of a scan: one that ended early has not seen everything, and is an observation."""
    key = f"{report.catalog}/{report.connector}"
    instance.add_dynamic_partitions(CONNECTORS.name or "", [key])
    kind = dg.AssetMaterialization if report.error is None else dg.AssetObservation
    counts = report.progress
    told = f"{counts.registered} new, {counts.changed} changed, {counts.gone} gone"
    columns = ("table", "what", "place")
    rows = [(_name(report, each.identifier), each.error.message, each.location) for each in report.failed]
    rows += [(_name(report, made.identifier), "new", made.location) for made in report.registered]
    rows += [(_name(report, each.identifier), each.change, each.address) for each in report.changed]
    return kind(
        discovered_tables.key,
        description=report.summary or told,
        partition=key,
        metadata={
            "reconcile/found": counts.tables,
            "reconcile/new": counts.registered,
            "reconcile/changed": counts.changed,
            "reconcile/gone": counts.gone,
            "reconcile/failed": counts.failed,
            "reconcile/tables": dg.MetadataValue.table(
                records=[dg.TableRecord(dict(zip(columns, row, strict=True))) for row in rows[:_NAMED]],
                schema=dg.TableSchema([dg.TableColumn(name) for name in columns]),
            ),
        },
    )


def _name(report: "ConnectorScanReport", identifier: TableIdentifier | None) -> str:
    """A table for people; nothing for a place that could not be read."""
    return "" if identifier is None else written(identifier, report.schema_separator)
