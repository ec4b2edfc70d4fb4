"""Every file that is reachable from a metadata document (Iceberg table specification, "Table Metadata").

Files come leaves first: everything that a file leads to comes before it, and the root metadata file comes
last. A deletion in this order can stop anywhere and start again from the root. Files of snapshots that
expired before are not reachable; they are orphans.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from floecat.errors import (
    BadRequestError,
    FileMissingError,
    FloecatError,
    ForbiddenError,
    InvalidMetadataError,
    LocationNotAllowedError,
    PayloadTooLargeError,
)
from floecat.iceberg.metadata.snapshots import SnapshotSummary
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.values.bounds import DEFAULT_BOUNDS, Bounds, exceeded
from floecat.purge.location_set import LocationSet
from floecat.storage.catalog_storage import CatalogStorage

__all__ = ["FileKind", "ReachableFile", "ReachableFiles", "Unreadable"]


class FileKind(IntEnum):
    """What a file is. A kind only leads to files of lower kinds."""

    DATA = 0
    """A data file, a delete file, or a Puffin file with deletion vectors."""
    MANIFEST = 1
    MANIFEST_LIST = 2
    STATISTICS = 3
    """Statistics or partition statistics."""
    OLD_METADATA = 4
    """A file of the metadata log."""
    ROOT_METADATA = 5


class ReachableFile(NamedTuple):
    """A file, and the one that leads to it."""

    location: str
    """As its parent writes it."""
    kind: FileKind
    parent: str | None
    """None for the root. A file with several parents comes once, with the first of them."""
    complete: bool = True
    """False if what it leads to could not be read; the file must stay then."""


class Unreadable(NamedTuple):
    """A file that leads to others and could not be read."""

    location: str
    kind: FileKind
    error: FloecatError


class ReachableFiles:
    """Walks what metadata leads to; reads manifest lists and manifests, and no data files.

    Attributes:
        missing: manifest lists and manifests that are gone. What they led to cannot be found; after a
            deletion that stopped halfway it is gone too.
        unreachable: those that are not read because they lie outside the allowed locations, or where this
            storage has nothing.
        unreadable: those that exist and cannot be read.
    """

    def __init__(
        self,
        storage: CatalogStorage,
        metadata_location: str,
        metadata: TableMetadata,
        bounds: Bounds = DEFAULT_BOUNDS,
    ) -> None:
        """Takes what to walk.

        Args:
            storage: of the catalog; nothing outside its allowed locations is read.
            metadata_location: where the document was read from.
            metadata: the document.
            bounds: of manifest lists and manifests.
        """
        self._storage = storage
        self._bounds = bounds
        self._root = metadata_location
        self._metadata = metadata
        self.missing: list[str] = []
        self.unreachable: list[str] = []
        self.unreadable: list[Unreadable] = []

    def __iter__(self) -> Iterator[ReachableFile]:
        """Yields every file once, leaves first.

        Raises:
            StorageUnavailableError: storage fails.
            InvalidMetadataError: the document has a broken part.
        """
        with LocationSet() as seen:
            # metadata may name the root as one of its own files; it still comes last
            seen.add(self._root)
            for snapshot in self._metadata.snapshots:
                yield from self._snapshot(snapshot, seen)
            for location in self._statistics():
                if seen.add(location):
                    yield ReachableFile(location, FileKind.STATISTICS, self._root)
            for entry in self._metadata.metadata_log:
                if seen.add(entry.metadata_file):
                    yield ReachableFile(entry.metadata_file, FileKind.OLD_METADATA, self._root)
        yield ReachableFile(self._root, FileKind.ROOT_METADATA, None, complete=not self.unreadable)

    def _statistics(self) -> Iterator[str]:
        for statistics in self._metadata.statistics:
            yield statistics.statistics_path
        for partition_statistics in self._metadata.partition_statistics:
            yield partition_statistics.statistics_path

    def _snapshot(self, snapshot: SnapshotSummary, seen: LocationSet) -> Iterator[ReachableFile]:
        from floecat.iceberg.manifests.lists import read_manifest_list

        for manifest in snapshot.manifests or ():
            yield from self._manifest(manifest, self._root, seen)
        location = snapshot.manifest_list
        if not location or not seen.add(location):
            return
        data = self._read(location, FileKind.MANIFEST_LIST)
        if data is None:
            return
        failures = len(self.unreadable)
        try:
            for listed in read_manifest_list(data, location=location, bounds=self._bounds):
                yield from self._manifest(listed.manifest_path, location, seen)
        except InvalidMetadataError as error:
            self.unreadable.append(Unreadable(location, FileKind.MANIFEST_LIST, error))
        complete = len(self.unreadable) == failures
        yield ReachableFile(location, FileKind.MANIFEST_LIST, self._root, complete)

    def _manifest(self, location: str, parent: str, seen: LocationSet) -> Iterator[ReachableFile]:
        from floecat.iceberg.manifests.reader import read_file_paths

        if not seen.add(location):
            return
        data = self._read(location, FileKind.MANIFEST)
        if data is None:
            return
        complete = True
        try:
            for path in read_file_paths(data, location=location, bounds=self._bounds):
                if seen.add(path):
                    yield ReachableFile(path, FileKind.DATA, location)
        except InvalidMetadataError as error:
            self.unreadable.append(Unreadable(location, FileKind.MANIFEST, error))
            complete = False
        yield ReachableFile(location, FileKind.MANIFEST, parent, complete)

    def _read(self, location: str, kind: FileKind) -> bytes | None:
        try:
            self._storage.allowed.check(location)
            return self._storage.files(location).read(location, max_bytes=self._bounds.manifest_bytes)
        except FileMissingError:
            self.missing.append(location)
        except PayloadTooLargeError:
            what = "manifest" if kind is FileKind.MANIFEST else "manifest list"
            error = exceeded(self._bounds, "manifest_bytes", f"{what} {location}", "it has more bytes than")
            self.unreadable.append(Unreadable(location, kind, error))
        except (LocationNotAllowedError, BadRequestError):
            self.unreachable.append(location)
        except ForbiddenError as refusal:
            self.unreadable.append(Unreadable(location, kind, refusal))
        return None
