"""Manifests (Iceberg table specification, "Manifests"; format versions 1 to 3)."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

import msgspec

from floecat.errors import InvalidMetadataError
from floecat.iceberg.avro.records import Projection, read_records

__all__ = [
    "DataFile",
    "FileContent",
    "ManifestEntry",
    "ManifestEntryStatus",
    "read_file_paths",
    "read_manifest",
]


class ManifestEntryStatus(IntEnum):
    """What a snapshot did to a file."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


class FileContent(IntEnum):
    """What a file holds. A deletion vector is position deletes in a Puffin file."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


class DataFile(msgspec.Struct, frozen=True):
    """A data file, a delete file, or a deletion vector inside a Puffin file."""

    file_path: str
    file_format: str
    record_count: int
    file_size_in_bytes: int
    content: FileContent = FileContent.DATA
    first_row_id: int | None = None
    referenced_data_file: str | None = None
    """Of delete files: the data file they apply to, if it is only one. Always set for deletion vectors."""
    content_offset: int | None = None
    """Of deletion vectors: where in the Puffin file the blob starts."""
    content_size_in_bytes: int | None = None


class ManifestEntry(msgspec.Struct, frozen=True):
    """An entry of a manifest. What is `None` is inherited from the manifest's entry in the manifest list."""

    status: ManifestEntryStatus
    data_file: DataFile
    snapshot_id: int | None = None
    sequence_number: int | None = None
    """Data sequence number."""
    file_sequence_number: int | None = None


_DATA_FILE_ID = 2

_ENTRY_PROJECTION: Projection = {
    0: "status",
    1: "snapshot_id",
    3: "sequence_number",
    4: "file_sequence_number",
    _DATA_FILE_ID: (
        "data_file",
        {
            134: "content",
            100: "file_path",
            101: "file_format",
            103: "record_count",
            104: "file_size_in_bytes",
            142: "first_row_id",
            143: "referenced_data_file",
            144: "content_offset",
            145: "content_size_in_bytes",
        },
    ),
}

_PATH_PROJECTION: Projection = {_DATA_FILE_ID: ("data_file", {100: "file_path"})}


def read_manifest(data: bytes, *, location: str) -> Iterator[ManifestEntry]:
    """Yields the entries of a manifest in the order of the file, those of deleted files included.

    Args:
        data: the whole file.
        location: where it is, for messages.

    Raises:
        InvalidMetadataError: it is no manifest, or is damaged. Entries before the damage
            may have been yielded.
    """
    for record in read_records(data, _ENTRY_PROJECTION, location=location, what="manifest"):
        try:
            yield msgspec.convert(record, ManifestEntry)
        except msgspec.ValidationError as error:
            raise InvalidMetadataError(f"Cannot read manifest {location}: {error}") from None


def read_file_paths(data: bytes, *, location: str) -> Iterator[str]:
    """Yields the path of every entry of a manifest, whatever its status and content.

    Much faster than `read_manifest`. Paths repeat: several deletion vectors share one Puffin file.

    Args:
        data: the whole file.
        location: where it is, for messages.

    Raises:
        InvalidMetadataError: it is no manifest, or is damaged. Paths before the damage may have
            been yielded.
    """
    for record in read_records(data, _PATH_PROJECTION, location=location, what="manifest"):
        data_file = record.get("data_file")
        path = data_file.get("file_path") if isinstance(data_file, dict) else None
        if not isinstance(path, str):
            raise InvalidMetadataError(f"Cannot read manifest {location}: an entry has no file path")
        yield path
