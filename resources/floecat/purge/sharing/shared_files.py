"""Files of a dropped table that others still need.

A file belongs to every table that reaches it: tables are registered twice from one metadata file, share data
files that were added to both, or live inside each other's locations. Sharing is exact: it
is the files that a live table reaches, read from its own metadata, and for a Delta table everything below it:
its metadata here does not name files that Delta has added since. Only tables whose area overlaps that of the
dropped one, or that have its UUID, are read in full; without an overlap there is nothing to share. Metadata
files of views are never deleted with a table, even if its metadata names them.

Areas are found once for each state of an entry and kept in the store, so a purge reads the metadata of the
tables that were changed since the last one, and not of all.

What metadata names is read only inside the locations that some catalog may use: a document can name any file.
Catalogs on different stores share no file, whatever their locations are. A table whose area cannot be found
may need any file on its store: clients add files from wherever they can read, so its own locations do not
bound what it needs. No other table of its account there is purged until the table can be read, or is dropped.
For other accounts, it needs what lies below the allowed locations of its catalog, and nothing of it is named.
So does a table of another account that takes long to read, where the locations do not overlap.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple, TypeAlias
from uuid import UUID

from floecat.entries.areas import (
    Area,
    AreaReader,
    FoundArea,
    file_area,
    folder_area,
    folder_text,
    overlaps,
)
from floecat.errors import (
    BoundExceededError,
    FloecatError,
    ForbiddenError,
    InvalidMetadataError,
)
from floecat.fileio.locations import cut_location
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.values.bounds import DEFAULT_BOUNDS, Bounds
from floecat.purge.sharing.earlier_snapshots import NOTHING_EARLIER, Earlier
from floecat.purge.sharing.kept_files import KeptFiles
from floecat.purge.sharing.live_tables import LiveTable, LiveTables, NearTable, is_foreign
from floecat.purge.sharing.location_set import LocationSet, lies_below
from floecat.purge.sharing.reachable_files import ReachableFiles
from floecat.storage.catalog_storage import CatalogStorage
from floecat.store.entries.documents import has_metadata
from floecat.store.entries.entry_areas import StoredArea
from floecat.store.jobs.job_claims import Lease

__all__ = ["PurgeTurns", "SharedFiles", "SharedFilesUnknownError"]

_log = logging.getLogger(__name__)

_OTHERS_S = 10.0
_OTHERS_AT_A_BATCH = 0.05
"""Share of it before a batch is announced, and again while commits wait for it."""

_RULES = "2"
"""Changes when the same files get another area, since areas are kept in the store."""


class SharedFilesUnknownError(FloecatError):
    """A live table may need files of the dropped one, and cannot be read. Nothing may be deleted."""


class _Scopes:
    """The conditions of an indexed area: the store, and, if files were skipped, the allowed locations."""

    def __init__(self, storages: Mapping[UUID, CatalogStorage], bounds: Bounds) -> None:
        self._of_store: dict[CatalogStorage, str] = {}
        self._of_roots: dict[CatalogStorage, str] = {}
        for storage in set(storages.values()):
            roots = sorted(map(str, storage.allowed.roots))
            self._of_store[storage] = _digest(_RULES, storage.store_key)
            # what exceeds a bound today may be read under another
            self._of_roots[storage] = _digest(_RULES, storage.store_key, *roots, repr(bounds))

    @property
    def valid(self) -> Collection[str]:
        """The conditions of all areas."""
        return {*self._of_store.values(), *self._of_roots.values()}

    def of_store(self, storage: CatalogStorage) -> str:
        """The condition of an area for which every file was read."""
        return self._of_store[storage]

    def of_roots(self, storage: CatalogStorage) -> str:
        """The condition of an area without the files outside the allowed locations."""
        return self._of_roots[storage]


class _OtherAccounts:
    """The time to read the tables of other accounts, which their owners change while a purge runs.

    One that takes longer is unknown, and needs what lies below its own locations.
    """

    def __init__(self, live: LiveTables, account_id: UUID | None, area: Area, time_s: float) -> None:
        self._live = live
        self._account_id = account_id
        self._area = area
        self._apart: dict[UUID, bool] = {}
        self.give(time_s)

    def give(self, time_s: float) -> None:
        """Gives all of them together so much time from now on."""
        self._ends_at = time.monotonic() + time_s
        self._apart.clear()

    def are_apart(self, catalog_id: UUID) -> bool | None:
        """Whether the locations of a catalog of another account lie elsewhere; None for the same account."""
        if catalog_id not in self._apart:
            own = self._live.own_storages().get(catalog_id)
            if own is None or own.account_id == self._account_id:
                return None
            self._apart[catalog_id] = not overlaps(self._area, folder_area(map(str, own.allowed.roots)))
        return self._apart[catalog_id]

    def check(self, table: LiveTable, storage: CatalogStorage) -> None:
        """Ends the reading of a table that takes too long.

        Raises:
            SharedFilesUnknownError: see above.
        """
        if (
            time.monotonic() > self._ends_at
            and storage.account_id != self._account_id
            and self.are_apart(table.catalog_id)
        ):
            raise _unknown(table, "it takes too long")


class _Dropped(NamedTuple):
    """The table that is purged, beside the storages of all catalogs."""

    storage: CatalogStorage
    table_uuid: str
    area: Area
    storages: Mapping[UUID, CatalogStorage]
    scopes: _Scopes
    others: _OtherAccounts


_AddNeeded: TypeAlias = Callable[[LocationSet, _Dropped, LiveTable, CatalogStorage], None]
"""Adds what a live table needs, given the dropped table and the storage of the live one."""


class SharedFiles:
    """Finds the files that live tables need. Safe to share between threads."""

    def __init__(
        self,
        live: LiveTables,
        owned_folders: Mapping[str, Callable[[LiveTable], Sequence[str]]] = MappingProxyType({}),
        *,
        bounds: Bounds = DEFAULT_BOUNDS,
        area_bytes: int = 0,
        others_s: float = _OTHERS_S,
    ) -> None:
        """Puts it together.

        Args:
            live: the tables.
            owned_folders: by name of a format: the folders of a live table whose files are all needed, as its
                metadata does not name them all. Formats that are left out have none.
            bounds: of the manifest lists and manifests of a table.
            area_bytes: memory for the areas of manifests.
            others_s: how long tables of other accounts are read before the first batch.
        """
        self._others_s = others_s
        self._bounds = bounds
        self._owned_folders = owned_folders
        self._live = live
        self._areas = AreaReader(bounds, cached_bytes=area_bytes)

    def collect(
        self,
        storage: CatalogStorage,
        metadata_location: str,
        metadata: TableMetadata,
        lease: Lease | None = None,
        sidecars: Iterable[str] = (),
        earlier: Earlier = NOTHING_EARLIER,
    ) -> KeptFiles:
        """Every file that the dropped table could have in common with a live one.

        Args:
            storage: of the catalog of the dropped table.
            metadata_location: root metadata file of the dropped table.
            metadata: what it says.
            sidecars: further files of the dropped table, which its metadata does not name.
            earlier: what its earlier metadata files name.

        Returns:
            The files that must stay.

        Raises:
            SharedFilesUnknownError: a live table that may need files cannot be read.
            ForbiddenError: storage refuses a file of the dropped table.
            StorageUnavailableError: storage fails.
        """
        storages = self._live.storages()
        readable = storage.with_neighbours(storages.values())
        found = self._areas.area(
            readable, metadata.location, metadata_location, metadata, expired=earlier.snapshots
        )
        area = found.folders | file_area(chain(sidecars, earlier.statistics))
        dropped = self._dropped(storage, metadata.table_uuid, area, storages)
        return self._collect(dropped, self._add_reachable_and_owned, lease)

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

        Returns:
            The files that must stay.

        Raises:
            SharedFilesUnknownError: a live table that may need files cannot be read.
            StorageUnavailableError: storage fails.
        """

        def add(kept: LocationSet, dropped: _Dropped, table: LiveTable, its_storage: CatalogStorage) -> None:
            folder = shared_folder(table)
            if folder is None:
                self._add_reachable(kept, dropped, table, its_storage)
            elif dropped.storage.shares_below(folder, its_storage):
                kept.add_folder(folder)

        dropped = self._dropped(storage, table_uuid, folder_area(folders), self._live.storages())
        return self._collect(dropped, add, lease)

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
            only: entries to read; all if None.

        Raises:
            SharedFilesUnknownError: a table that may have files there cannot be read.
            StorageUnavailableError: storage fails.
        """

        def add(kept: LocationSet, dropped: _Dropped, table: LiveTable, its_storage: CatalogStorage) -> None:
            if dropped.storage.shares_below(table.location, its_storage) and (
                lies_below(table.location, folder) or self._is_foreign(table)
            ):
                kept.add_folder(table.location)
            self._add_owned(kept, dropped, table, its_storage)
            if has_metadata(table.metadata_location):
                self._add_reachable(kept, dropped, table, its_storage, complete=True)

        area = folder_area([folder])
        self._add_needed(files, self._dropped(storage, "", area, self._live.storages()), add, only)

    def _is_foreign(self, table: LiveTable) -> bool:
        """Whether its metadata names none of its files, as that of a Lance table."""
        metadata = self._metadata(table)
        return metadata is not None and is_foreign(metadata)

    def _dropped(
        self,
        storage: CatalogStorage,
        table_uuid: str,
        area: Area,
        storages: Mapping[UUID, CatalogStorage],
    ) -> _Dropped:
        others = _OtherAccounts(self._live, storage.account_id, area, self._others_s)
        return _Dropped(storage, table_uuid, area, storages, _Scopes(storages, self._bounds), others)

    def _collect(self, dropped: _Dropped, add: _AddNeeded, lease: Lease | None) -> KeptFiles:
        kept, positions = LocationSet(), self._live.positions()

        def catch_up(kept: LocationSet) -> None:
            nonlocal positions
            dropped.others.give(self._others_s * _OTHERS_AT_A_BATCH)
            seen, positions = positions, self._live.positions()
            changed = self._live.changed(seen, positions) if positions != seen else ()
            self._add_near(kept, dropped, add, [NearTable(table) for table in changed])

        try:
            self._add_needed(kept, dropped, add)
        except BaseException:
            kept.close()
            raise
        turns = (
            None if lease is None else PurgeTurns(self._live, lease, sorted(map(folder_text, dropped.area)))
        )
        return KeptFiles(kept, catch_up, turns)

    def _add_needed(
        self, kept: LocationSet, dropped: _Dropped, add: _AddNeeded, only: Collection[UUID] | None = None
    ) -> None:
        for page in self._live.near(dropped.area, dropped.table_uuid, dropped.scopes.valid):
            asked = [near for near in page if only is None or near.table.entry_id in only]
            self._add_near(kept, dropped, add, asked)

    def _add_near(
        self, kept: LocationSet, dropped: _Dropped, add: _AddNeeded, asked: Sequence[NearTable]
    ) -> None:
        """Adds what those of some entries need that may share a file."""
        found: list[StoredArea] = []
        try:
            neighbours = [near.table for near in asked if self._is_neighbour(dropped, near, found)]
        finally:
            self._live.remember(found)
        for table in neighbours:
            its_storage = dropped.storages[table.catalog_id]
            if table.kind == "table":
                with self._of_account(dropped, table):
                    add(kept, dropped, table, its_storage)
            elif dropped.storage.shares(table.metadata_location, its_storage):
                kept.keep(table.metadata_location)

    def _is_neighbour(self, dropped: _Dropped, near: NearTable, found: list[StoredArea]) -> bool:
        with self._of_account(dropped, near.table):
            return self._may_share(dropped, near, found)
        return False

    @contextmanager
    def _of_account(self, dropped: _Dropped, table: LiveTable) -> Iterator[None]:
        """A block that reads a live table. One of another account that is unknown needs its own locations."""
        try:
            yield
        except SharedFilesUnknownError:
            are_apart = dropped.others.are_apart(table.catalog_id)
            if are_apart is None:
                raise
            if not are_apart:
                raise SharedFilesUnknownError(
                    "Cannot tell which files a table of another account needs in a location that both may use"
                ) from None

    def _may_share(self, dropped: _Dropped, near: NearTable, found: list[StoredArea]) -> bool:
        table = near.table
        its_storage = dropped.storages.get(table.catalog_id)
        if its_storage is None:
            raise SharedFilesUnknownError("A catalog was made meanwhile: try again")
        common = Area(folder for folder in dropped.area if dropped.storage.shares_below(folder, its_storage))
        if dropped.area and not common:
            return False  # on another store
        if near.problem is not None:
            raise _unknown(table, near.problem)
        is_twin = table.table_uuid.lower() == dropped.table_uuid.lower()
        if near.is_indexed or is_twin:
            return True
        dropped.others.check(table, its_storage)
        return overlaps(common, self._read(dropped, table, its_storage, found))

    def _read(
        self, dropped: _Dropped, table: LiveTable, storage: CatalogStorage, found: list[StoredArea]
    ) -> Area:
        """The area of a live entry, which also goes to `found`, unless it may soon be another one."""
        scopes = dropped.scopes
        if table.kind == "view":
            area = FoundArea(file_area([table.metadata_location]))
        else:
            try:
                area = self._areas.area(
                    storage,
                    table.location,
                    table.metadata_location,
                    self._metadata(table),
                    table.entry_id,
                    check=lambda: dropped.others.check(table, storage),
                )
            except BoundExceededError as error:
                found.append(StoredArea(table.state, scopes.of_roots(storage), (), error.message))
                raise _unknown(table, error.message) from error
            except ForbiddenError as error:
                raise _unknown(table, error.message) from error
        if area.is_settled:
            scope = scopes.of_roots(storage) if area.depends_on_roots else scopes.of_store(storage)
            found.append(StoredArea(table.state, scope, [folder_text(folder) for folder in area.folders]))
        return area.folders

    def _metadata(self, table: LiveTable) -> TableMetadata | None:
        document = self._live.document(table)
        with suppress(InvalidMetadataError):
            return None if document is None else TableMetadata.parse(document)
        return None

    def _add_reachable_and_owned(
        self, kept: LocationSet, dropped: _Dropped, table: LiveTable, its_storage: CatalogStorage
    ) -> None:
        self._add_owned(kept, dropped, table, its_storage)
        if has_metadata(table.metadata_location):
            self._add_reachable(kept, dropped, table, its_storage)

    def _add_owned(
        self, kept: LocationSet, dropped: _Dropped, table: LiveTable, its_storage: CatalogStorage
    ) -> None:
        owned = self._owned_folders.get(table.format)
        for folder in () if owned is None else owned(table):
            if dropped.storage.shares_below(folder, its_storage):
                kept.add_folder(folder)

    def _add_reachable(
        self,
        kept: LocationSet,
        dropped: _Dropped,
        table: LiveTable,
        its_storage: CatalogStorage,
        *,
        complete: bool = False,
    ) -> None:
        """Adds what the metadata reaches; `complete`: a missing file makes the table unknown."""
        dropped.others.check(table, its_storage)
        document = self._live.document(table)
        if document is None:
            return
        try:
            metadata = TableMetadata.parse(document)
            reachable = ReachableFiles(its_storage, table.metadata_location, metadata, self._bounds)
            for location in chain((file.location for file in reachable), self._live.sidecars(table)):
                dropped.others.check(table, its_storage)
                if dropped.storage.shares(location, its_storage):
                    kept.keep(location)
        except InvalidMetadataError as error:
            raise _unknown(table, error.message) from error
        # a missing manifest leads to no file, so a neighbour that lost one does not stop a purge
        if reachable.unreadable:
            raise _unknown(table, reachable.unreadable[0].error.message)
        lost = (*reachable.missing, *reachable.unreachable)
        if lost and (complete or any(map(cut_location, reachable.unreachable))):
            raise _unknown(table, f"{lost[0]} cannot be read")
        _log.info("files shared with live table %s stay", table.entry_id)


class PurgeTurns(NamedTuple):
    """Announces the batches of one purge, or of another job that deletes files."""

    live: LiveTables
    lease: Lease
    folders: Sequence[str]

    def begin(self) -> bool:
        """See `BatchTurns.begin`."""
        return self.live.begin_batch(self.lease, self.folders)

    def end(self) -> None:
        """See `BatchTurns.end`."""
        self.live.end_batch(self.lease)


def _digest(*parts: str) -> str:
    return blake2b("\n".join(parts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _unknown(table: LiveTable, reason: str) -> SharedFilesUnknownError:
    return SharedFilesUnknownError(f"Cannot tell which files the live table {table.entry_id} needs: {reason}")
