"""Live tables, and which files of a dropped table they still need.

A file belongs to every table that reaches it: tables are registered twice from one metadata file, share data
files that were added to both, or live inside each other's locations. Sharing is exact: it
is the files that a live table reaches, read from its own metadata, and for a Delta table everything below it:
its metadata here does not name files that Delta has added since. Only tables whose area overlaps that of the
dropped one, or that have its UUID, are read in full; without an overlap there is nothing to share. Metadata
files of views are never deleted with a table, even if its metadata names them.

What metadata names is read only inside the locations that some catalog may use: a document can name any file.
Catalogs on different stores share no file, whatever their locations are.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import NamedTuple, Protocol
from uuid import UUID

from floecat.errors import BoundExceededError, FloecatError, InvalidMetadataError
from floecat.fileio.locations import Location
from floecat.iceberg.metadata.properties import table_type
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.values.bounds import DEFAULT_BOUNDS, Bounds
from floecat.purge.areas import Area, AreaReader, folder_area, overlaps
from floecat.purge.kept_files import KeptFiles
from floecat.purge.location_set import LocationSet, lies_below
from floecat.purge.reachable_files import ReachableFiles
from floecat.storage.catalog_storage import CatalogStorage
from floecat.storage.catalog_storages import CatalogStorages
from floecat.store import tables
from floecat.store.database.engine import Store
from floecat.store.documents import decompress, has_metadata
from floecat.store.job_claims import Lease

__all__ = [
    "LiveTable",
    "LiveTables",
    "SharedFiles",
    "SharedFilesUnknownError",
    "StoredTables",
    "all_folders",
    "is_foreign",
]

_PAGE = 50
_VIEW_PAGE = 1000

_log = logging.getLogger(__name__)


class SharedFilesUnknownError(FloecatError):
    """A live table may need files of the dropped one, and cannot be read. Nothing may be deleted."""


class LiveTable(NamedTuple):
    """A table of some catalog."""

    entry_id: UUID
    catalog_id: UUID
    table_uuid: str
    location: str
    metadata_location: str
    version: int
    format: str = "iceberg"

    @property
    def state(self) -> tables.EntryState:
        """The state of its entry."""
        return tables.EntryState(self.entry_id, self.version, self.metadata_location)


def is_foreign(metadata: TableMetadata) -> bool:
    """Whether the table is of a format of which the metadata here names no file, as Lance."""
    return table_type(metadata.properties) not in (None, "iceberg")


def all_folders(table: LiveTable) -> Sequence[str]:
    """Folders of a live table of another format; its metadata here does not name every file that it needs."""
    return (table.location, table.metadata_location.rpartition("/")[0])


class LiveTables(Protocol):
    """All tables of all catalogs, the metadata files of views, and the storages."""

    def __iter__(self) -> Iterator[LiveTable]:
        """Yields them one by one."""
        ...

    def document(self, table: LiveTable) -> bytes | None:
        """The current metadata of a table, JSON; `None` if it is gone meanwhile."""
        ...

    def view_metadata_locations(self) -> Iterator[tuple[UUID, str]]:
        """Yields the catalog and the metadata file of every view."""
        ...

    def storages(self) -> Mapping[UUID, CatalogStorage]:
        """The storage of each catalog as of now, with locations of the others that mean the same files."""
        ...


class StoredTables:
    """The tables of a store, read page by page."""

    def __init__(self, store: Store, storages: CatalogStorages) -> None:
        self._store = store
        self._storages = storages

    def __iter__(self) -> Iterator[LiveTable]:
        """Yields the tables; one that is changed meanwhile comes as it was before or after."""
        for row in self._scan("table", _PAGE):
            yield LiveTable(
                row.id,
                row.catalog_id,
                row.object_uuid,
                row.location,
                row.metadata_location,
                row.version,
                row.format,
            )

    def document(self, table: LiveTable) -> bytes | None:
        """See `LiveTables.document`."""
        with self._store.read() as conn:
            stored = tables.document(conn, table.entry_id)
        return None if stored is None else decompress(stored)

    def view_metadata_locations(self) -> Iterator[tuple[UUID, str]]:
        """See `LiveTables.view_metadata_locations`."""
        for row in self._scan("view", _VIEW_PAGE):
            yield row.catalog_id, row.metadata_location

    def storages(self) -> Mapping[UUID, CatalogStorage]:
        """See `LiveTables.storages`."""
        with self._store.read() as conn:
            return self._storages.all_widened(conn)

    def _scan(self, kind: str, page: int) -> Iterator[tables.EntryRow]:
        after: UUID | None = None
        while True:
            with self._store.read() as conn:
                rows = tables.scan(conn, kind, after, page)
            yield from rows
            if len(rows) < page:
                return
            after = rows[-1].id


class SharedFiles:
    """Finds the files that live tables need. Safe to share between threads."""

    def __init__(
        self,
        live: LiveTables,
        owned_folders: Mapping[str, Callable[[LiveTable], Sequence[str]]] = MappingProxyType({}),
        *,
        bounds: Bounds = DEFAULT_BOUNDS,
        area_bytes: int = 0,
    ) -> None:
        """Puts it together.

        Args:
            live: the tables.
            owned_folders: by name of a format: the folders of a live table whose files are all needed, as its
                metadata does not name them all. Formats that are left out have none.
            bounds: of the manifest lists and manifests of a table.
            area_bytes: memory for the areas of tables.
        """
        self._bounds = bounds
        self._owned_folders = owned_folders
        self._live = live
        self._area_bytes = area_bytes
        self._areas = AreaReader(bounds, cached_bytes=area_bytes)
        self._read_from: Mapping[Hashable, tuple[Location, ...]] = {}
        self._lock = threading.Lock()

    def collect(
        self,
        storage: CatalogStorage,
        metadata_location: str,
        metadata: TableMetadata,
        lease: Lease | None = None,
    ) -> KeptFiles:
        """Every file that the dropped table could have in common with a live one.

        Args:
            storage: of the catalog of the dropped table.
            metadata_location: root metadata file of the dropped table.
            metadata: what it says.
            lease: of the purge job.

        Returns:
            The files that must stay.

        Raises:
            SharedFilesUnknownError: an overlapping live table cannot be read.
            StorageUnavailableError: storage fails.
        """
        storages = self._live.storages()
        areas = self._current_areas(storages)
        readable = storage.with_neighbours(storages.values())
        area = areas.area(readable, metadata.location, metadata_location, lambda: metadata)
        kept = LocationSet()
        try:
            for catalog_id, location in self._live.view_metadata_locations():
                if catalog_id not in storages or storage.shares(location, storages[catalog_id]):
                    kept.add(location)
            for table, its_storage in self._neighbours(storage, metadata.table_uuid, area, areas, storages):
                for folder in self._owned(table):
                    if storage.shares(folder, its_storage):
                        kept.add_folder(folder)
                if has_metadata(table.metadata_location):
                    self._add_files(kept, storage, table, its_storage)
        except BaseException:
            kept.close()
            raise
        return KeptFiles(kept, lease)

    def collect_in(
        self,
        storage: CatalogStorage,
        table_uuid: str,
        folders: Sequence[str],
        shared_folder: Callable[[LiveTable], str | None],
        lease: Lease | None = None,
    ) -> KeptFiles:
        """Every file in some folders that a live table needs.

        Args:
            storage: of the catalog of the dropped table.
            table_uuid: of the dropped table, of another format than Iceberg.
            folders: where its files are.
            shared_folder: the one folder in which a live table has files in common with the dropped one; None
                for a table of another format, which needs what its metadata reaches.
            lease: of the purge job.

        Returns:
            The files that must stay.

        Raises:
            SharedFilesUnknownError: an overlapping live table cannot be read.
            StorageUnavailableError: storage fails.
        """
        storages = self._live.storages()
        areas, area = self._current_areas(storages), folder_area(folders)
        kept = LocationSet()
        try:
            for table, its_storage in self._neighbours(storage, table_uuid, area, areas, storages):
                folder = shared_folder(table)
                if folder is None:
                    self._add_files(kept, storage, table, its_storage)
                elif storage.shares(folder, its_storage):
                    kept.add_folder(folder)
        except BaseException:
            kept.close()
            raise
        return KeptFiles(kept, lease)

    def add_files_below(
        self,
        files: LocationSet,
        storage: CatalogStorage,
        folder: str,
        only: Collection[UUID] | None = None,
    ) -> None:
        """Adds every file that a live table or view could need below a folder.

        Of tables that live below the folder everything is needed, also what no metadata names.

        Args:
            files: what to add to.
            storage: through which the folder is reached.
            folder: the folder.
            only: entries to read; all if None. Metadata files of views are always added.

        Raises:
            SharedFilesUnknownError: a table that may have files there cannot be read.
            StorageUnavailableError: storage fails.
        """
        storages = self._live.storages()
        areas, area = self._current_areas(storages), folder_area([folder])
        for catalog_id, location in self._live.view_metadata_locations():
            if catalog_id not in storages or storage.shares(location, storages[catalog_id]):
                files.add(location)
        for table, its_storage in self._neighbours(storage, "", area, areas, storages, only):
            for owned in self._owned(table):
                if storage.shares(owned, its_storage):
                    files.add_folder(owned)
            if storage.shares(table.location, its_storage) and (
                lies_below(table.location, folder) or self._is_foreign(table)
            ):
                files.add_folder(table.location)
            if has_metadata(table.metadata_location):
                self._add_files(files, storage, table, its_storage, complete=True)

    def _is_foreign(self, table: LiveTable) -> bool:
        """Whether its metadata names none of its files, as that of a Lance table."""
        document = self._live.document(table)
        with suppress(InvalidMetadataError):
            return document is not None and is_foreign(TableMetadata.parse(document))
        return False

    def _owned(self, table: LiveTable) -> Sequence[str]:
        owned = self._owned_folders.get(table.format)
        return () if owned is None else owned(table)

    def _neighbours(
        self,
        storage: CatalogStorage,
        table_uuid: str,
        area: Area,
        areas: AreaReader,
        storages: Mapping[UUID, CatalogStorage],
        only: Collection[UUID] | None = None,
    ) -> Iterator[tuple[LiveTable, CatalogStorage]]:
        """Live tables that may share a file with the dropped one, each with the storage of its catalog."""
        common = {
            catalog_id: Area(folder for folder in area if storage.shares(folder, other))
            for catalog_id, other in storages.items()
        }
        for table in self._live:
            if only is not None and table.entry_id not in only:
                continue
            if table.catalog_id not in storages:
                raise SharedFilesUnknownError(
                    f"The catalog of the live table {table.entry_id} is new: try again"
                )
            here, its_storage = common[table.catalog_id], storages[table.catalog_id]
            if area and not here:
                continue  # on another store
            is_twin = table.table_uuid.lower() == table_uuid.lower()
            if is_twin or self._overlaps(here, table, its_storage, areas):
                yield table, its_storage

    def _overlaps(self, area: Area, table: LiveTable, storage: CatalogStorage, areas: AreaReader) -> bool:
        try:
            return overlaps(area, self._area(table, storage, areas))
        except BoundExceededError as error:
            # it may need any file in the locations of its catalog, and none elsewhere
            if overlaps(area, folder_area(map(str, storage.allowed.roots))):
                raise _unknown(table, error) from error
            return False

    def _current_areas(self, storages: Mapping[UUID, CatalogStorage]) -> AreaReader:
        read_from = {storage.access_key: storage.allowed.roots for storage in storages.values()}
        with self._lock:
            # a file that was refused may be allowed now: areas are valid for one set of roots
            if read_from != self._read_from:
                self._areas = AreaReader(self._bounds, cached_bytes=self._area_bytes)
                self._read_from = read_from
            return self._areas

    def _area(self, table: LiveTable, storage: CatalogStorage, areas: AreaReader) -> Area:
        def load() -> TableMetadata | None:
            document = self._live.document(table)
            with suppress(InvalidMetadataError):
                return None if document is None else TableMetadata.parse(document)
            return None

        return areas.area(storage, table.location, table.metadata_location, load, table.state)

    def _add_files(
        self,
        kept: LocationSet,
        storage: CatalogStorage,
        table: LiveTable,
        its_storage: CatalogStorage,
        *,
        complete: bool = False,
    ) -> None:
        document = self._live.document(table)
        if document is None:
            return
        try:
            metadata = TableMetadata.parse(document)
            reachable = ReachableFiles(its_storage, table.metadata_location, metadata, self._bounds)
            for file in reachable:
                if storage.shares(file.location, its_storage):
                    kept.add(file.location)
        except InvalidMetadataError as error:
            raise _unknown(table, error) from error
        # a missing manifest leads to no file, so a neighbour that lost one does not stop a purge
        if reachable.unreadable:
            raise _unknown(table, reachable.unreadable[0].error)
        lost = (*reachable.missing, *reachable.unreachable)
        if complete and lost:
            raise SharedFilesUnknownError(
                f"Cannot tell which files the live table {table.entry_id} needs: {lost[0]} cannot be read"
            )
        _log.info("files shared with live table %s stay", table.entry_id)


def _unknown(table: LiveTable, error: FloecatError) -> SharedFilesUnknownError:
    return SharedFilesUnknownError(
        f"Cannot tell which files the live table {table.entry_id} needs: {error.message}"
    )
