"""The job that scans connectors."""

# no __future__.annotations here: Dagster wants the type of `context` and takes no text for it

from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import UUID

import dagster as dg

from floecat.events.live_entries import label
from floecat.identifiers.namespace import TableIdentifier
from floecat.identifiers.written_names import written
from floecat_assets.defs.connectors.assets import CONNECTORS, discovered_tables
from floecat_assets.defs.connectors.checks import EVALUATIONS
from floecat_assets.defs.resources import KernelResource

if TYPE_CHECKING:
    from floecat.connectors.scan_reports import ConnectorScanReport
    from floecat.runtime import Kernel

__all__ = ["connector_scan"]

_NAMED = 20
"""Most tables that the log of a run, or an event, names one by one."""


@dg.op(pool="connectors")
def scan_connectors(context: dg.OpExecutionContext, kernel: KernelResource) -> None:
    """Scans the connectors that are due: new tables are registered, those of other catalogs followed.

    A problem with a table is recorded with its connector and does not stop the scan.
    """
    ended_early: dict[str, bool] = {}
    for report in kernel.connector_scans().scan_due(context.run_id):
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
        # one that ended early may be tried again in this run
        ended_early[report.connector] = report.error is not None
        context.log_event(_scanned(context.instance, kernel.open(), report))
    _forget_deleted(context.instance, kernel.open())
    for evaluate in EVALUATIONS:
        # evaluations are taken, and missing in the type
        evaluation: Any = evaluate(kernel.open())
        context.log_event(evaluation)
    failed = [name for name, is_early in ended_early.items() if is_early]
    if failed:
        raise dg.Failure(
            f"Scans of {len(failed)} connectors ended early: {', '.join(failed[:10])}",
            allow_retries=False,
        )


@dg.job
def connector_scan() -> None:
    """Scans the connectors that are due."""
    scan_connectors()


def _forget_deleted(instance: dg.DagsterInstance, kernel: "Kernel") -> None:
    """Removes the partitions of connectors that were deleted."""
    known = {
        _partition(kernel, each.catalog, each.account_id, each.name)
        for each in kernel.connectors.connectors.states()
    }
    name = CONNECTORS.name or ""
    for key in set(instance.get_dynamic_partitions(name)) - known:
        instance.delete_dynamic_partition(name, key)


def _partition(kernel: "Kernel", catalog: str, account_id: UUID | None, connector: str) -> str:
    default_id = kernel.settings.gateway.default_account_id
    return f"{label(catalog, account_id or default_id, default_id)}/{connector}"


def _links(kernel: "Kernel", report: "ConnectorScanReport") -> dict[str, dg.MetadataValue]:
    """Where the service shows the connector, what differs, and the job of the scan with its captures."""
    url = kernel.settings.pipeline.catalog_url
    if url is None:
        return {}
    root = f"{url.rstrip('/')}/management/v1/catalogs/{quote(report.catalog, safe='')}"
    connector = f"{root}/connectors/{quote(report.connector, safe='')}"
    links = {"connector": connector, "differences": f"{connector}/differences"}
    if report.job_id is not None:
        links["job"] = f"{root}/jobs/{report.job_id}/tree"
    return {f"reconcile/{name}": dg.MetadataValue.url(link) for name, link in links.items()}


def _scanned(
    instance: dg.DagsterInstance, kernel: "Kernel", report: "ConnectorScanReport"
) -> dg.AssetMaterialization | dg.AssetObservation:
    """The event of a scan: one that ended early has not seen everything, and is an observation."""
    key = _partition(kernel, report.catalog, report.account_id, report.connector)
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
            "reconcile/captures": counts.captures,
            **_links(kernel, report),
            "reconcile/tables": dg.MetadataValue.table(
                records=[dg.TableRecord(dict(zip(columns, row, strict=True))) for row in rows[:_NAMED]],
                schema=dg.TableSchema([dg.TableColumn(name) for name in columns]),
            ),
        },
    )


def _name(report: "ConnectorScanReport", identifier: TableIdentifier | None) -> str:
    """A table for people; nothing for a place that could not be read."""
    return "" if identifier is None else written(identifier, report.schema_separator)
