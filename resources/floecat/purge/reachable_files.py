"""Every file that is reachable from a metadata document (Iceberg table specification, "Table Metadata").

Files come leaves first: everything that a file leads to comes before it, and the root metadata file comes
last. A deletion in this order can stop anywhere and start again from the root. Files of snapshots that
expired before are not reachable; they are orphans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress

from floecat.errors import InvalidMetadataError
from floecat.iceberg.metadata.snapshots import SnapshotSummary
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.values.bounds import DEFAULT_BOUNDS, Bounds
from floecat.purge.location_set import LocationSet
from floecat.purge.manifest_files import FileKind, ManifestFiles, ReachableFile
from floecat.storage.catalog_storage import CatalogStorage

__all__ = ["ReachableFiles"]


class ReachableFiles(ManifestFiles):
    """Walks what metadata leads to; reads manifest lists and manifests, and no data files."""

    def __init__(
        self,
        storage: CatalogStorage,
        metadata_location: str,
        metadata: TableMetadata,
        bounds: Bounds = DEFAULT_BOUNDS,
        *,
        renew: Callable[[], CatalogStorage] | None = None,
        large_file: AbstractContextManager[object] | None = None,
        sidecars: Iterable[str] = (),
    ) -> None:
        """Takes what to walk.

        Args:
            storage: of the catalog; nothing outside its allowed locations is read.
            metadata_location: where the document was read from.
            metadata: the document.
            bounds: of manifest lists and manifests.
            renew: finds the storage again, with the keys of this moment, if it refuses access.
            large_file: held while a large manifest is in memory.
            sidecars: further files of the table, which no metadata names.
        """
        super().__init__(storage, bounds, renew, large_file)
        self._root = metadata_location
        self._metadata = metadata
        self._sidecars = sidecars

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
            for location, size_bytes in self._statistics():
                if seen.add(location):
                    yield ReachableFile(location, FileKind.STATISTICS, self._root, size_bytes=size_bytes)
            for entry in self._metadata.metadata_log:
                if seen.add(entry.metadata_file):
                    yield ReachableFile(entry.metadata_file, FileKind.OLD_METADATA, self._root)
        yield ReachableFile(self._root, FileKind.ROOT_METADATA, None, complete=self.failures == 0)

    def manifests(self) -> Iterator[tuple[str, int]]:
        """Yields each manifest once, with the number of files that its list says it has.

        Lists that cannot be read are left out; `__iter__` reports them.
        """
        with LocationSet() as seen:
            for snapshot in self._metadata.snapshots:
                for manifest in snapshot.manifests or ():
                    if seen.add(manifest):
                        yield manifest, 0
                location = snapshot.manifest_list
                if location and seen.add(location):
                    yield from self._counted(location, seen)
        self.lost = self.failures = 0
        for problems in (self.missing, self.unreachable, self.unreadable):
            problems.clear()

    def _counted(self, location: str, seen: LocationSet) -> Iterator[tuple[str, int]]:
        data = self.list_bytes(location, keep=True)
        with suppress(InvalidMetadataError):
            for listed in self.listed(data, location) if data else ():
                if seen.add(listed.manifest_path):
                    counts = (
                        listed.added_files_count,
                        listed.existing_files_count,
                        listed.deleted_files_count,
                    )
                    yield listed.manifest_path, sum(filter(None, counts))

    def _statistics(self) -> Iterator[tuple[str, int]]:
        for statistics in self._metadata.statistics:
            yield statistics.statistics_path, statistics.file_size_in_bytes
        for partition_statistics in self._metadata.partition_statistics:
            yield partition_statistics.statistics_path, partition_statistics.file_size_in_bytes
        for location in self._sidecars:
            yield location, 0

    def _snapshot(self, snapshot: SnapshotSummary, seen: LocationSet) -> Iterator[ReachableFile]:
        for manifest in snapshot.manifests or ():
            yield from self.files_of(manifest, self._root, seen)
        location = snapshot.manifest_list
        if not location or not seen.add(location):
            return
        data = self.list_bytes(location)
        if data is None:
            return
        failures = self.failures
        try:
            for listed in self.listed(data, location):
                yield from self.files_of(listed.manifest_path, location, seen, listed.manifest_length)
        except InvalidMetadataError as error:
            self._fail(location, FileKind.MANIFEST_LIST, error)
        complete = self.failures == failures
        yield ReachableFile(location, FileKind.MANIFEST_LIST, self._root, complete, len(data))
