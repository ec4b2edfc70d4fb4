"""Events of a captured table: of its partition of `statistics/targets`, and of the table's own asset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

import dagster as dg
from dagster._core.events import AssetObservationData

from floecat_assets.defs.asset_keys import SNAPSHOTS, TARGETS
from floecat_assets.defs.statistics.metadata import own_numbers, report_metadata
from floecat_assets.table_keys import table_asset_key

if TYPE_CHECKING:
    from floecat.events.live_entries import LiveEntry
    from floecat.runtime import Kernel
    from floecat.statistics.capture.reports import TableReport

__all__ = ["ReportedTable", "first_of_snapshots", "news_of", "of_table", "report_history"]

_NO_RUN: Final = ""
"""Job and run of an event that belongs to none."""


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
        most_files: see `TableReports.of`.
    """
    entry = kernel.events.live_entries.get(entry_id)
    report = None if entry is None else kernel.statistics.pipeline.reports.of(entry_id, most_files=most_files)
    if entry is None or report is None:
        return None
    shared = report_metadata(entry.qualified_name, entry_id, report)
    return ReportedTable(report, shared, [_own_event(entry, report)])


def report_history(
    instance: dg.DagsterInstance, kernel: Kernel, entry: LiveEntry, snapshot_ids: Iterable[int]
) -> bool:
    """Reports some snapshots to the table's own asset, at the times of their commits: plots show them there.

    It does so itself, as what a tick returns is stored with the time of the tick. Something must follow at
    that time: of an asset, Dagster shows the event that was stored last, and hides it after a wipe if that is
    older.

    Returns:
        Whether there was one; the newest snapshot is left out.

    Raises:
        FloecatError: the store does not answer.
    """
    reports = kernel.statistics.pipeline.reports.history(entry.entry_id, snapshot_ids)
    for report in reports:
        event = dg.DagsterEvent(
            dg.DagsterEventType.ASSET_OBSERVATION.value,
            _NO_RUN,
            event_specific_data=AssetObservationData(_own_event(entry, report)),
        )
        instance.report_dagster_event(event, _NO_RUN, timestamp=report.committed_at_ms / 1000)
    return bool(reports)


def _own_event(entry: LiveEntry, report: TableReport) -> dg.AssetObservation:
    return dg.AssetObservation(
        table_asset_key(entry.catalog_name, entry.identifier),
        description=f"statistics of snapshot {report.snapshot_id}: {report.rows:,} rows",
        metadata=own_numbers(entry.entry_id, report),
    )


def first_of_snapshots(instance: dg.DagsterInstance, partition: str) -> Iterator[dg.AssetMaterialization]:
    """An event of a partition of `catalog/snapshots`, if it has none yet.

    Commits are captured without it, but Dagster calls an asset unsynced whose input was never materialized.
    """
    wanted = dg.AssetRecordsFilter(asset_key=SNAPSHOTS, asset_partitions=[partition])
    if not instance.fetch_materializations(wanted, limit=1).records:
        yield dg.AssetMaterialization(SNAPSHOTS, partition=partition, description="captured by itself")


def news_of(
    instance: dg.DagsterInstance,
    kernel: Kernel,
    entry_id: UUID,
    partition: str,
    *,
    most_files: int,
    again: bool = False,
) -> Iterator[dg.AssetMaterialization | dg.AssetObservation]:
    """Events of a table, if it was captured since it was reported last.

    Args:
        instance: Dagster's.
        kernel: the kernel.
        entry_id: the table.
        partition: its key.
        most_files: see `TableReports.of`.
        again: otherwise, too, the event of its own asset.

    Raises:
        FloecatError: a manifest cannot be read, or the store does not answer.
    """
    # a report reads all manifests
    version = kernel.statistics.pipeline.reports.version(entry_id)
    is_known = version == _newest_version(instance, partition)
    if version is None or (is_known and not again):
        return
    reported = of_table(kernel, entry_id, most_files=most_files)
    if reported is None:
        return
    yield from reported.own_events
    if is_known:
        return
    yield from first_of_snapshots(instance, partition)
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
