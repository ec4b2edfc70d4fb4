"""Files that must stay below a folder: all that live tables, views, open purges and staged tables need.

A commit can make a file needed at any time, so whoever deletes asks again before each batch; the commit log
says which entries have to be read again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from urllib.parse import unquote
from uuid import UUID

from floecat.clock import Clock
from floecat.entries.areas import folder_area, overlaps
from floecat.entries.formats import is_derived
from floecat.errors import BadRequestError, InvalidMetadataError
from floecat.fileio.locations import is_plain_name, normalize_location
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.values.bounds import Bounds
from floecat.purge.purge_jobs import PURGE, payload_of
from floecat.purge.sharing.live_tables import LiveTables
from floecat.purge.sharing.location_set import LocationSet, lies_below
from floecat.purge.sharing.reachable_files import ReachableFiles
from floecat.purge.sharing.shared_files import SharedFiles, SharedFilesUnknownError
from floecat.storage.catalog_storage import CatalogStorage
from floecat.storage.catalog_storages import CatalogStorages
from floecat.store.catalogs import catalogs
from floecat.store.database.engine import Store
from floecat.store.entries import staged_tables
from floecat.store.entries.documents import decompress
from floecat.store.jobs import jobs
from floecat.store.jobs.jobs import JobFilter, JobRow

__all__ = ["FolderNeeds", "NeededFiles", "NeededFilesReader"]

_NOT_PURGED = [(PURGE, state) for state in (*jobs.OPEN_STATES, "failed")]
_SCHEME_AND_AUTHORITY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")


class NeededFiles(LocationSet):
    """Files that must stay, and the paths of those whose spelling may hide a file below the folder.

    Locations are compared by storage and key: `s3`, `s3a` and `s3n` are one scheme. Another scheme or bucket
    usually means another file, but it may also be an alias that only the writer knew.
    """

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._root = normalize_location(folder)
        self._odd_paths = LocationSet()
        self._is_odd_folder = lru_cache(maxsize=4096)(self._differs)

    def add(self, location: str) -> bool:
        """Adds a file; see `LocationSet.add`."""
        folder, _, name = location.rpartition("/")
        plain = is_plain_name(name)
        if self._is_odd_folder(folder) or (not plain and self._differs(location)):
            self._odd_paths.add(_path_alone(location))
        return super().add(location)

    def is_in_doubt(self, location: str) -> bool:
        """Whether a file that is not in the set has the path of one that is, under another spelling."""
        return len(self._odd_paths) > 0 and _path_alone(location) in self._odd_paths

    def close(self) -> None:
        """Frees memory and disk."""
        self._odd_paths.close()
        super().close()

    def _differs(self, location: str) -> bool:
        if "%" in location:
            return True
        try:
            found = normalize_location(location)
        except BadRequestError:
            return True
        return (found.scheme, found.authority) != (self._root.scheme, self._root.authority)


class FolderNeeds:
    """The files that must stay below one folder, brought up to date as commits come. Used by one thread.

    Attributes:
        files: everything that must stay.
    """

    def __init__(self, reader: NeededFilesReader, storage: CatalogStorage, folder: str) -> None:
        self.files = NeededFiles(folder)
        self._reader = reader
        self._storage = storage
        self._folder = folder
        self._live = reader.live
        self._positions: Mapping[UUID, int] | None = None

    def refresh(self) -> bool:
        """Adds what became needed since the last call; the first one reads everything.

        Returns:
            Whether anything was committed in between.

        Raises:
            SharedFilesUnknownError: a live table that may need files cannot be read.
            StorageUnavailableError: storage fails.
        """
        seen, self._positions = self._positions, self._live.positions()
        if seen == self._positions:
            return False
        only = seen and {table.entry_id for table in self._live.changed(seen, self._positions)}
        self._reader.add(self.files, self._storage, self._folder, only)
        return seen is not None

    def close(self) -> None:
        """Frees memory and disk."""
        self.files.close()


class NeededFilesReader:
    """Reads what must stay. Safe to share between threads.

    Attributes:
        live: tables of all catalogs.
    """

    def __init__(
        self,
        store: Store,
        storages: CatalogStorages,
        live: LiveTables,
        shared: SharedFiles,
        clock: Clock,
        bounds: Bounds,
    ) -> None:
        self.live = live
        self._store = store
        self._storages = storages
        self._shared = shared
        self._clock = clock
        self._bounds = bounds

    def add(
        self, files: NeededFiles, storage: CatalogStorage, folder: str, only: Collection[UUID] | None
    ) -> None:
        """Adds what must stay below a folder; of live tables all, or `only` some."""
        self._shared.add_files_below(files, storage, folder, only)
        for job in self._unfinished_purges():
            self._add_purged(files, storage, folder, job)
        for location in self._staged_locations():
            if overlaps(folder_area([folder]), folder_area([location])):
                files.add_folder(location)

    def add_reachable(
        self, files: NeededFiles, storage: CatalogStorage, location: str, document: bytes
    ) -> None:
        """Adds everything that a metadata document leads to.

        Raises:
            SharedFilesUnknownError: a file that it leads to cannot be read.
        """
        try:
            reachable = ReachableFiles(storage, location, TableMetadata.parse(document), self._bounds)
            for file in reachable:
                files.keep(file.location)
        except InvalidMetadataError as error:
            raise _unreadable(location, error.message) from error
        if reachable.unreadable:
            raise _unreadable(location, reachable.unreadable[0].error.message)

    def _unfinished_purges(self) -> Iterator[JobRow]:
        with self._store.read() as conn:
            rows = catalogs.list_all_accounts(conn)
            found = [jobs.list_all(conn, JobFilter(row.id, _NOT_PURGED)) for row in rows]
        for of_catalog in found:
            yield from of_catalog

    def _add_purged(self, files: NeededFiles, storage: CatalogStorage, folder: str, job: JobRow) -> None:
        """A purge deletes leaves first; if their parents went before, it would lose them."""
        payload = payload_of(job)
        with self._store.read() as conn:
            its_storage = self._storages.by_id(conn, job.catalog_id)
            document = jobs.attachment(conn, job.id)
        if its_storage is None or not storage.shares_below(payload.location, its_storage):
            return
        if not overlaps(folder_area([folder]), folder_area([payload.location])):
            return
        if lies_below(payload.location, folder) or is_derived(payload.format) or document is None:
            files.add_folder(payload.location)
        if document is not None and not is_derived(payload.format):
            try:
                self.add_reachable(files, its_storage, payload.metadata_location, decompress(document))
            except SharedFilesUnknownError:
                if job.account_id == storage.account_id:
                    raise
                raise SharedFilesUnknownError(
                    "Cannot tell which files a purge of another account deletes in the same location"
                ) from None

    def _staged_locations(self) -> Iterator[str]:
        with self._store.read() as conn:
            bodies = staged_tables.list_live(conn, self._clock.now_ms())
        for body in bodies:
            with suppress(InvalidMetadataError):  # it cannot be committed either
                yield TableMetadata.parse(decompress(body)).location


def _path_alone(location: str) -> str:
    """The path of a location without scheme, authority, percent-encoding and repeated slashes."""
    return re.sub("/{2,}", "/", unquote(_SCHEME_AND_AUTHORITY.sub("", location, count=1))).lstrip("/")


def _unreadable(location: str, reason: str) -> SharedFilesUnknownError:
    return SharedFilesUnknownError(f"Cannot tell which files the table of {location} needs: {reason}")
