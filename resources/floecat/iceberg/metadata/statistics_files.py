"""Statistics files that table metadata refers to (table specification, "Table Statistics")."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from floecat.iceberg.values.encoded_json import Int32, Int64, RawJson, decode_json
from floecat.iceberg.values.text_limits import check_numbers

__all__ = ["PartitionStatisticsFile", "StatisticsFile", "check_statistics_file"]


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


class _ReadableBlob(msgspec.Struct, frozen=True, rename="kebab"):
    fields: tuple[Int32, ...]
    properties: dict[str, str] | msgspec.UnsetType = msgspec.UNSET


_Size: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class _ReadableFile(msgspec.Struct, frozen=True, rename="kebab"):
    file_size_in_bytes: _Size = 0
    file_footer_size_in_bytes: _Size = 0
    blob_metadata: tuple[_ReadableBlob, ...] = ()


def check_statistics_file(raw: RawJson, what: str) -> None:
    """Refuses a statistics file, of either kind, that readers cannot read although its structure is right.

    Raises:
        IllegalArgumentError: `properties` is null, a column id exceeds 32 bits (both refused by the reference
            implementation), a size is negative, or a number is too long for readers.
    """
    check_numbers(bytes(raw), what)
    decode_json(raw, _ReadableFile, what)
