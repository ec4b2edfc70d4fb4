"""Files that only earlier metadata files of a dropped table name: of expired snapshots, and old statistics.

A commit that expires a snapshot need not delete its files, and whoever sets statistics anew may leave the old
file. The earlier metadata files go with the table, so they are read before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from floecat.entries.metadata_files import MetadataFiles
from floecat.errors import (
    BadRequestError,
    FileMissingError,
    InvalidMetadataError,
    LocationNotAllowedError,
    PayloadTooLargeError,
)
from floecat.iceberg.metadata.snapshots import SnapshotSummary
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.normalization import read_metadata_file
from floecat.iceberg.values.bounds import Bounds
from floecat.storage.catalog_storage import CatalogStorage

__all__ = ["NOTHING_EARLIER", "Earlier", "EarlierFile", "is_metadata_file", "read_earlier", "statistics_of"]

_MOST_FOUND: Final = 100_000
"""Snapshots and statistics files that are held, of some 500 bytes each."""


class EarlierFile(NamedTuple):
    """An earlier metadata file, and what no later one names."""

    location: str
    snapshots: Sequence[SnapshotSummary]
    statistics: Sequence[tuple[str, int]]
    """Location and size of each statistics file."""


class Earlier(NamedTuple):
    """The content of earlier metadata files."""

    files: Sequence[EarlierFile] = ()
    is_whole: bool = True
    """False if there are more files than may be read."""

    @property
    def snapshots(self) -> Sequence[SnapshotSummary]:
        """All snapshots."""
        return [snapshot for file in self.files for snapshot in file.snapshots]

    @property
    def statistics(self) -> Sequence[str]:
        """Locations of all statistics files."""
        return [location for file in self.files for location, _ in file.statistics]


NOTHING_EARLIER: Final = Earlier()


def is_metadata_file(location: str) -> bool:
    """Whether a file is a metadata file by its name."""
    return location.endswith((".metadata.json", ".metadata.json.gz"))


def statistics_of(metadata: TableMetadata) -> Iterator[tuple[str, int]]:
    """Location and size of each statistics file that a document names."""
    for statistics in metadata.statistics:
        yield statistics.statistics_path, statistics.file_size_in_bytes
    for partition_statistics in metadata.partition_statistics:
        yield partition_statistics.statistics_path, partition_statistics.file_size_in_bytes


def read_earlier(
    files: MetadataFiles,
    storage: CatalogStorage,
    metadata_location: str,
    metadata: TableMetadata,
    further: Iterable[str],
    bounds: Bounds,
) -> Earlier:
    """Reads the earlier metadata files of a table, newest first. Those that cannot be read name nothing.

    A file of another table is left out: a log can name any file.

    Args:
        files: reads metadata files.
        metadata_location: the current metadata file.
        metadata: what it says.
        further: files of the table; those that have the name of a metadata file are read.
        bounds: how many are read.

    Raises:
        InvalidMetadataError: the current document has a broken part.
        ForbiddenError: storage refuses a file.
        StorageUnavailableError: storage fails.
    """
    snapshots = {_key(snapshot) for snapshot in metadata.snapshots}
    statistics = {location for location, _ in statistics_of(metadata)}
    seen, found, number = {metadata_location}, list[EarlierFile](), 0
    logged = (entry.metadata_file for entry in reversed(metadata.metadata_log))
    for location in chain(logged, filter(is_metadata_file, further)):
        if location in seen:
            continue
        if len(seen) > bounds.earlier_metadata_files or number > _MOST_FOUND:
            return Earlier(found, is_whole=False)
        seen.add(location)
        file = _read(files, storage, location, metadata.table_uuid)
        if file is None:
            continue
        file = file._replace(
            snapshots=[each for each in file.snapshots if _key(each) not in snapshots],
            statistics=[each for each in file.statistics if each[0] not in statistics],
        )
        if file.snapshots or file.statistics:
            snapshots.update(map(_key, file.snapshots))
            statistics.update(each for each, _ in file.statistics)
            number += len(file.snapshots) + len(file.statistics)
            found.append(file)
    return Earlier(found)


def _read(
    files: MetadataFiles, storage: CatalogStorage, location: str, table_uuid: str
) -> EarlierFile | None:
    try:
        metadata = read_metadata_file(files.read(storage, location))
        if metadata.table_uuid.lower() != table_uuid.lower():
            return None
        return EarlierFile(location, metadata.snapshots, list(statistics_of(metadata)))
    except (
        FileMissingError,
        InvalidMetadataError,
        LocationNotAllowedError,
        PayloadTooLargeError,
        BadRequestError,
    ):
        return None


def _key(snapshot: SnapshotSummary) -> tuple[int, str | None]:
    return snapshot.snapshot_id, snapshot.manifest_list
