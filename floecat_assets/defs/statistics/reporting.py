"""Events of a captured table: of its partition of `statistics/targets`, and of the table's own asset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

import dagster as dg

from floecat_assets.defs.statistics.metadata import own_numbers, report_metadata
from floecat_assets.table_keys import table_asset_key

if TYPE_CHECKING:
    from floecat.runtime import Kernel
    from floecat.statistics.capture.reports import TableReport

__all__ = ["SNAPSHOTS", "ReportedTable", "first_of_snapshots", "of_table"]

SNAPSHOTS: Final = dg.AssetKey(["catalog", "snapshots"])
"""The asset that asks for captures."""


class ReportedTable(NamedTuple):
    """What is reported of a table."""

    report: TableReport
    metadata: dict[str, dg.MetadataValue]
    """Of the partition of `statistics/targets`."""
    data_version: str
    """Names the snapshot and the capture."""
    own_events: list[dg.AssetObservation]
    """Of the table's own asset."""


def of_table(kernel: Kernel, entry_id: UUID, *, most_files: int | None = None) -> ReportedTable | None:
    """What is reported of a table; `None` if it was dropped, or no snapshot that it has is captured.

    Args:
        kernel: the kernel.
        entry_id: the table.
        most_files: see `TableReports.of`.
    """
    entry = kernel.live_entries.get(entry_id)
    report = None if entry is None else kernel.statistics_pipeline.reports.of(entry_id, most_files=most_files)
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
        f"{report.snapshot_id}-{report.finalized_at_ms}",
        [observation],
    )


def first_of_snapshots(instance: dg.DagsterInstance, partition: str) -> Iterator[dg.AssetMaterialization]:
    """An event of a partition of `catalog/snapshots`, if it has none yet.

    Commits are captured without it, but Dagster calls an asset unsynced whose input was never materialized.
    """
    wanted = dg.AssetRecordsFilter(asset_key=SNAPSHOTS, asset_partitions=[partition])
    if not instance.fetch_materializations(wanted, limit=1).records:
        yield dg.AssetMaterialization(SNAPSHOTS, partition=partition, description="captured by itself")
