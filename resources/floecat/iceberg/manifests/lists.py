"""Manifest lists (Iceberg table specification, "Manifest Lists"; format versions 1 to 3)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from floecat.errors import InvalidMetadataError
from floecat.iceberg.avro.records import Projection, read_records

__all__ = ["DATA_MANIFEST", "DELETE_MANIFEST", "ManifestFile", "PartitionSummary", "read_manifest_list"]

DATA_MANIFEST = 0
"""`content` of a manifest of data files."""

DELETE_MANIFEST = 1
"""`content` of a manifest of delete files and deletion vectors."""


class PartitionSummary(msgspec.Struct, frozen=True):
    """What the values of one partition field span, over all entries of a manifest.

    Attributes:
        contains_null: whether a file has null.
        contains_nan: whether a file has NaN; None if unknown.
        lower_bound: least value but null and NaN, as a single value (appendix D); None if there is none.
        upper_bound: greatest such value.
    """

    contains_null: bool
    contains_nan: bool | None = None
    lower_bound: bytes | None = None
    upper_bound: bytes | None = None


class ManifestFile(msgspec.Struct, frozen=True):
    """An entry of a manifest list: a manifest and what is known of it without reading it.

    Counts are `None` where a format version 1 writer left them out.
    """

    manifest_path: str
    manifest_length: int
    partition_spec_id: int
    content: int = DATA_MANIFEST
    sequence_number: int = 0
    min_sequence_number: int = 0
    added_snapshot_id: int | None = None
    added_files_count: int | None = None
    existing_files_count: int | None = None
    deleted_files_count: int | None = None
    added_rows_count: int | None = None
    existing_rows_count: int | None = None
    deleted_rows_count: int | None = None
    partitions: tuple[PartitionSummary, ...] | None = None
    """A summary for each field of the partition spec; None where the writer made none."""
    first_row_id: int | None = None
    """Of data manifests since format version 3: row id of the first row whose file does not say its own."""


_PROJECTION: Projection = {
    500: "manifest_path",
    501: "manifest_length",
    502: "partition_spec_id",
    517: "content",
    515: "sequence_number",
    516: "min_sequence_number",
    503: "added_snapshot_id",
    504: "added_files_count",
    505: "existing_files_count",
    506: "deleted_files_count",
    512: "added_rows_count",
    513: "existing_rows_count",
    514: "deleted_rows_count",
    507: (
        "partitions",
        {509: "contains_null", 518: "contains_nan", 510: "lower_bound", 511: "upper_bound"},
    ),
    520: "first_row_id",
}


def read_manifest_list(data: bytes, *, location: str) -> Iterator[ManifestFile]:
    """Yields the entries of a manifest list in the order of the file.

    Args:
        data: the whole file.
        location: where it is, for messages.

    Raises:
        InvalidMetadataError: it is no manifest list, or is damaged. Entries before the damage
            may have been yielded.
    """
    for record in read_records(data, _PROJECTION, location=location, what="manifest list"):
        try:
            yield msgspec.convert(record, ManifestFile)
        except msgspec.ValidationError as error:
            raise InvalidMetadataError(f"Cannot read manifest list {location}: {error}") from None
