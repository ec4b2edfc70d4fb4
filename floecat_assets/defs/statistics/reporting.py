"""Events of a captured table: of its partition of `statistics/targets`, and of the table's own asset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

import dagster as dg

from floecat_assets.defs.statistics.checks import TARGETS
from floecat_assets.defs.statistics.metadata import own_numbers, report_metadata
from floecat_assets.table_keys import table_asset_key

if TYPE_CHECKING:
    from floecat.runtime import Kernel
    from floecat.statistics.capture.reports import TableReport

__all__ = ["SNAPSHOTS", "ReportedTable", "first_of_snapshots", "news_of", "of_table"]

SNAPSHOTS: Final = dg.AssetKey(["catalog", "snapshots"])
"""The asset that asks for captures."""


class ReportedTable(NamedTuple):
    """The report of a table."""

    report: TableReport
    metadata: dict[str, dg.MetadataValue]
    """Metadata of the partition of `statistics/targets`."""
    own_events: list[dg.AssetObservation]
    """Events of the table's own asset."""


def of_table(kernel: Kernel, entry_id: UUID, *, most_files: int | None = None) -> ReportedTable | None:
    """The report of a table; `None` if it was dropped, or no snapshot that it has is captured.

    Args:
        kernel: the kernel.
        most_files: see `TableReports.of`.
    """
    entry = kernel.events.live_entries.get(entry_id)
    report = None if entry is None else kernel.statistics.pipeline.reports.of(entry_id, most_files=most_files)
    if entry is None or report is None:
        return None
    observation = dg.AssetObservation(
        table_asset_key(entry.catalog_name, entry.identifier),
        description=f"statistics of snapshot {report.snapshot_id}",
        metadata=own_numbers(entry_id, report),
    )
    return ReportedTable(
        report,
        report_metadata(entry.qualified_name, entry_id, report),
        [observation],
    )


def first_of_snapshots(instance: dg.DagsterInstance, partition: str) -> Iterator[dg.AssetMaterialization]:
    """An event of a partition of `catalog/snapshots`, if it has none yet.

    Commits are captured without it, but Dagster calls an asset unsynced whose input was never materialized.
    """
    wanted = dg.AssetRecordsFilter(asset_key=SNAPSHOTS, asset_partitions=[partition])
    if not instance.fetch_materializations(wanted, limit=1).records:
        yield dg.AssetMaterialization(SNAPSHOTS, partition=partition, description="captured by itself")


def news_of(
    instance: dg.DagsterInstance, kernel: Kernel, entry_id: UUID, partition: str, *, most_files: int
) -> Iterator[dg.AssetMaterialization | dg.AssetObservation]:
    """Events of a table, if it was captured since it was reported last.

    Raises:
        FloecatError: a manifest cannot be read, or the store does not answer.
    """
    # a report reads all manifests
    version = kernel.statistics.pipeline.reports.version(entry_id)
    if version is None or version == _newest_version(instance, partition):
        return
    reported = of_table(kernel, entry_id, most_files=most_files)
    if reported is None:
        return
    yield from first_of_snapshots(instance, partition)
    yield from reported.own_events
    yield dg.AssetMaterialization(
        TARGETS,
        partition=partition,
        description="captured by the service",
        metadata=reported.metadata,
        tags={"dagster/data_version": reported.report.version},
    )


def _newest_version(instance: dg.DagsterInstance, partition: str) -> str | None:
    wanted = dg.AssetRecordsFilter(asset_key=TARGETS, asset_partitions=[partition])
    for record in instance.fetch_materializations(wanted, limit=1).records:
        if record.asset_materialization is not None:
            return (record.asset_materialization.tags or {}).get("dagster/data_version")
    return None
