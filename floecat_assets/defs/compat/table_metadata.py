"""What the UI shows of a Delta table that was made readable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from floecat.delta.refresh.pipeline_results import Materialised

if TYPE_CHECKING:
    from floecat.delta.refresh.verification import TableCounts
    from floecat_assets.defs.compat.runners import ChunkRunners

__all__ = ["table_metadata"]


def table_metadata(
    made: Materialised, numbers: TableCounts, *, seconds: float, runners: ChunkRunners
) -> dict[str, dg.MetadataValue]:
    """Metadata of a materialisation.

    Args:
        made: what was made.
        numbers: what was counted afterwards.
        seconds: how long it took to make.
        runners: who did the work.
    """
    counted = numbers.iceberg
    return {
        "dagster/table_name": dg.MetadataValue.text(made.name),
        "dagster/uri": dg.MetadataValue.text(made.location),
        "dagster/storage_kind": dg.MetadataValue.text("iceberg"),
        "dagster/row_count": dg.MetadataValue.int(counted.rows - counted.deleted_rows),
        "floecat/snapshot_id": dg.MetadataValue.text(str(made.version)),
        "floecat/metadata_location": dg.MetadataValue.path(made.metadata_location),
        "floecat/format_version": dg.MetadataValue.int(made.format_version),
        "floecat/changed": dg.MetadataValue.bool(made.changed),
        "delta/version": dg.MetadataValue.int(made.version),
        "delta/versions": dg.MetadataValue.int(made.versions),
        "delta/live_files": dg.MetadataValue.int(counted.files),
        "delta/rows": dg.MetadataValue.int(counted.rows),
        "delta/deleted_rows": dg.MetadataValue.int(counted.deleted_rows),
        "delta/files_with_deletes": dg.MetadataValue.int(counted.files_with_deletes),
        "floecat/seconds": dg.MetadataValue.float(round(seconds, 3)),
        "floecat/chunks_in_process": dg.MetadataValue.int(runners.in_process),
        "floecat/chunks_on_spark": dg.MetadataValue.int(runners.on_spark),
    }
