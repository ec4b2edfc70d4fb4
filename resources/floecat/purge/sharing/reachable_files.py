"""Every file that is reachable from a metadata document (Iceberg table specification, "Table Metadata").

Files come leaves first: everything that a file leads to comes before it, and the root metadata file comes
last. A deletion in this order can stop anywhere and start again from the root. What only earlier metadata
files lead to is reachable if it was found before (`earlier_snapshots`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from itertools import chain

from floecat.errors import InvalidMetadataError
from floecat.iceberg.metadata.snapshots import SnapshotSummary
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.values.bounds import DEFAULT_BOUNDS, Bounds
from floecat.purge.sharing.earlier_snapshots import NOTHING_EARLIER, Earlier, is_metadata_file, statistics_of
from floecat.purge.sharing.location_set import LocationSet
from floecat.purge.sharing.manifest_files import FileKind, ManifestReader, ReachableFile
from floecat.storage.catalog_storage import CatalogStorage

__all__ = ["ReachableFiles"]


class ReachableFiles(ManifestReader):
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
        earlier: Earlier = NOTHING_EARLIER,
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
            earlier: what earlier metadata files name.
        """
        super().__init__(storage, bounds, renew, large_file)
        self._root = metadata_location
        self._metadata = metadata
        self._sidecars = sidecars
        self._earlier = earlier

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
                yield from self._snapshot(snapshot, seen, self._root)
            yield from self._statistics(statistics_of(self._metadata), seen, self._root)
            yield from self._expired(seen)
            for location in chain(
                self._sidecars, (entry.metadata_file for entry in self._metadata.metadata_log)
            ):
                if seen.add(location):
                    kind = FileKind.OLD_METADATA if is_metadata_file(location) else FileKind.STATISTICS
                    yield ReachableFile(location, kind, self._root)
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

    def _statistics(
        self, files: Iterable[tuple[str, int]], seen: LocationSet, parent: str
    ) -> Iterator[ReachableFile]:
        for location, size_bytes in files:
            if seen.add(location):
                yield ReachableFile(location, FileKind.STATISTICS, parent, size_bytes=size_bytes)

    def _expired(self, seen: LocationSet) -> Iterator[ReachableFile]:
        lost = self.lost
        for file in self._earlier.files:
            for snapshot in file.snapshots:
                yield from self._snapshot(snapshot, seen, file.location)
            yield from self._statistics(file.statistics, seen, file.location)
        self.lost = lost  # most expired snapshots have no files left

    def _snapshot(self, snapshot: SnapshotSummary, seen: LocationSet, parent: str) -> Iterator[ReachableFile]:
        for manifest in snapshot.manifests or ():
            yield from self.files_of(manifest, parent, seen)
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
        yield ReachableFile(location, FileKind.MANIFEST_LIST, parent, complete, len(data))
