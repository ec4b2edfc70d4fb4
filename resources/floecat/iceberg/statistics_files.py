"""Statistics files that table metadata refers to (table specification, "Table Statistics")."""

from __future__ import annotations

import msgspec

from floecat.iceberg.json_values import Int64

__all__ = ["PartitionStatisticsFile", "StatisticsFile"]


class PartitionStatisticsFile(msgspec.Struct, frozen=True, rename="kebab"):
    """A partition statistics file."""

    snapshot_id: Int64
    statistics_path: str
    file_size_in_bytes: Int64


class _Blob(msgspec.Struct, frozen=True, rename="kebab"):
    type: str
    snapshot_id: Int64
    sequence_number: Int64
    fields: tuple[int, ...]
    properties: dict[str, str] | None = None


class StatisticsFile(msgspec.Struct, frozen=True, rename="kebab"):
    """A Puffin file with statistics."""

    snapshot_id: Int64
    statistics_path: str
    file_size_in_bytes: Int64
    file_footer_size_in_bytes: Int64
    blob_metadata: tuple[_Blob, ...]
