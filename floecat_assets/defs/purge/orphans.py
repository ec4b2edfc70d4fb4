"""The asset of orphan files."""

# no __future__.annotations here: Dagster wants the type of `context` and takes no text for it

from typing import TYPE_CHECKING

import dagster as dg

from floecat_assets.defs.resources import KernelResource

if TYPE_CHECKING:
    from floecat.purge.orphans.orphan_run import OrphanReport

__all__ = ["OrphanConfig", "orphan_files"]

_DAY_MS = 86_400_000
_SHOWN = 50
_PRINCIPAL = "pipeline"


class OrphanConfig(dg.Config):
    """The place to look for orphan files, and whether they are deleted."""

    catalog: str | None = None
    """Name of the catalog; by default the default catalog."""
    namespace: list[str] | None = None
    """Levels of a namespace; by default all namespaces."""
    table: str | None = None
    """One table of the namespace; by default all."""
    delete: bool = False
    """Deletes what is found; otherwise it is only reported."""
    older_than_days: float | None = None
    """Younger files stay; at least a day. Default: `floecat.purge.orphan-grace`."""


@dg.asset(
    key=["purge", "orphan_files"],
    description=(
        "Files below the locations of tables that nothing in any catalog leads to. A dry run, unless the"
        " config of the run says `delete: true`."
    ),
    group_name="purge",
    kinds={"iceberg"},
    pool="purge",
)
def orphan_files(
    context: dg.AssetExecutionContext, config: OrphanConfig, kernel: KernelResource
) -> dg.MaterializeResult[None]:
    """Looks for orphan files in one table, a namespace, or a catalog."""
    from floecat.identifiers.namespace import TableIdentifier

    opened = kernel.open()
    gateway = opened.settings.gateway
    call = opened.catalog.calls.open_as_operator(
        _PRINCIPAL, gateway.default_account_id, config.catalog or gateway.default_prefix
    )
    grace_ms = opened.settings.purge.orphan_grace.ms
    if config.older_than_days is not None:
        grace_ms = int(config.older_than_days * _DAY_MS)
    namespace = None if config.namespace is None else tuple(config.namespace)
    if config.table is None:
        reports = opened.purge.orphans.find_all(call, namespace, older_than_ms=grace_ms, delete=config.delete)
    elif namespace is None:
        raise dg.Failure("The config names a table and no namespace", allow_retries=False)
    else:
        identifier = TableIdentifier(namespace, config.table)
        reports = [opened.purge.orphans.find(call, identifier, older_than_ms=grace_ms, delete=config.delete)]
    for report in reports:
        if report.problem is not None:
            context.log.warning("table %s was left alone: %s", report.table, report.problem)
        for failure in report.failures:
            context.log.warning("%s was not deleted: %s", failure.location, failure.reason)
    return dg.MaterializeResult(metadata=_metadata(reports, deleted=config.delete))


def _metadata(reports: "list[OrphanReport]", *, deleted: bool) -> dict[str, dg.MetadataValue | int | bool]:
    oldest = [report.oldest_modified_at_ms for report in reports if report.oldest_modified_at_ms is not None]
    by_bytes = sorted(reports, key=lambda report: report.orphan_bytes, reverse=True)
    metadata: dict[str, dg.MetadataValue | int | bool] = {
        "purge/dry_run": not deleted,
        "purge/tables": len(reports),
        "purge/tables_left_alone": sum(report.problem is not None for report in reports),
        "purge/listed_files": sum(report.listed for report in reports),
        "purge/orphan_files": sum(report.orphans for report in reports),
        "purge/orphan_bytes": sum(report.orphan_bytes for report in reports),
        "purge/young_files": sum(report.young for report in reports),
        "purge/deleted_files": sum(report.deleted for report in reports),
        "purge/failed_files": sum(report.failed for report in reports),
        "purge/by_table": dg.MetadataValue.table(
            records=[
                dg.TableRecord(
                    {
                        "table": report.table,
                        "location": report.location,
                        "orphans": report.orphans,
                        "bytes": report.orphan_bytes,
                        "problem": report.problem or "",
                    }
                )
                for report in by_bytes[:_SHOWN]
            ],
            schema=dg.TableSchema(
                [
                    dg.TableColumn("table"),
                    dg.TableColumn("location"),
                    dg.TableColumn("orphans", "int"),
                    dg.TableColumn("bytes", "int"),
                    dg.TableColumn("problem"),
                ]
            ),
        ),
    }
    if oldest:
        metadata["purge/oldest"] = dg.MetadataValue.timestamp(min(oldest) / 1000)
    return metadata
