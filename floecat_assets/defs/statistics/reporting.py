"""Events of a captured table: of its partition of `statistics/targets`, and of the table's own asset."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

import dagster as dg

from floecat_assets.defs.statistics.metadata import own_numbers, report_metadata
from floecat_assets.table_keys import table_asset_key

if TYPE_CHECKING:
    from floecat.runtime import Kernel
    from floecat.statistics.capture.reports import TableReport

__all__ = ["ReportedTable", "of_table"]


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
