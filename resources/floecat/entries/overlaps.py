"""Entries whose folders contain each other: keys for the outer one would open the files of the inner one.

Only object storage counts, since nobody makes keys for the local disk. Below a storage authority there are
no new ones. Where there are some, the outer one gets no keys.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from floecat.entries.areas import Area, folder_of_text, folder_text, folders_above, overlapping_ranges
from floecat.entries.calls import Catalog
from floecat.entries.entry_locations import named_locations
from floecat.errors import BadRequestError
from floecat.fileio.locations import Location, cut_location, normalize_location
from floecat.storage.catalog_storage import CatalogStorage
from floecat.storage.catalog_storages import CatalogStorages
from floecat.storage.own_folders import OwnFolders
from floecat.store.catalogs import storage_authorities
from floecat.store.database.engine import Connection
from floecat.store.entries import entry_paths
from floecat.store.entries.tables import EntryRow

__all__ = ["NO_ENTRY", "Overlaps", "entry_folders", "metadata_root", "own_folders"]

NO_ENTRY: Final = UUID(int=0)
"""Id of a table that is only staged."""

_LONGEST_BYTES = 2000
"""No key in object storage is longer, and no entry of an index of PostgreSQL may be much longer."""


def metadata_root(metadata_location: str) -> str:
    """The folder of the table that a metadata file belongs to: the one above `metadata`, else its own."""
    return metadata_location.rpartition("/")[0].removesuffix("/metadata")


def entry_folders(
    location: str, properties: Mapping[str, str], metadata_location: str | None = None
) -> tuple[str, ...]:
    """The folders in object storage that an entry names, without those that lie in another one of them.

    Args:
        location: of a table or view.
        properties: of the table or view.
        metadata_location: its metadata file, where it may lie elsewhere.
    """
    found = set(_objects(named_locations(location, properties)))
    if metadata_location is not None:
        found.update(_objects([metadata_root(metadata_location)]))
    outer = (each for each in found if not any(o != each and o.contains(each) for o in found))
    return tuple(sorted(map(folder_text, outer)))


def own_folders(row: EntryRow, properties: Mapping[str, str]) -> OwnFolders:
    """The folders of an entry whose files are read for it, without a question to the store.

    Args:
        properties: of the entry.
    """
    folders = entry_folders(row.location, properties)
    # a metadata file may have been registered from anywhere: it opens no folder that the entry lies in
    roots = entry_folders(metadata_root(row.metadata_location), {})
    beside = (root for root in roots if not any(each.startswith(f"{root}/") for each in folders))
    return OwnFolders(row.id, (*folders, *beside))


class Overlaps:
    """Finds entries in each other's folders, in all catalogs that mean the same store.

    All catalogs of an account mean the same one here: its authorities make keys for each of them, to one
    store, wherever the service itself has the files of a catalog.
    """

    def __init__(self, storages: CatalogStorages, *, refuses: bool) -> None:
        self._storages = storages
        self._refuses = refuses

    def check(self, conn: Connection, catalog: Catalog, new: Mapping[UUID, Sequence[str]]) -> None:
        """Refuses folders of an entry that overlap with those of another one, below a storage authority.

        The authority is one of the account of either: nobody takes the keys to a table from another account
        by making one inside.

        Args:
            conn: a transaction. One that adds the folders asks once it holds the lock of the catalog.
            new: `entry_folders` that entries get, by their ids, also of entries that are yet to be made.

        Raises:
            BadRequestError: they overlap. The message does not say with what.
        """
        if not self._refuses or not any(new.values()):
            return
        # also keeps other transactions of the account waiting, so that of two tables one sees the other
        own = storage_authorities.lock_prefixes(conn, catalog.account_id)
        for entry_id, folders in new.items():
            area = Area(_objects(folders))

            def is_guarded(account_id: UUID, area: Area = area) -> bool:
                others = [] if account_id == catalog.account_id else _prefixes(conn, account_id)
                return _touch([*own, *others], area)

            ranges = overlapping_ranges(area)
            if area and self._other_in(conn, catalog.storage, entry_id, ranges, is_guarded):
                raise BadRequestError(
                    "Invalid location: it is, contains or lies in a folder of another table or view, and keys"
                    " for one would open files of the other; choose another location"
                    " (floecat.storage.overlapping-locations)"
                )

    def check_read(
        self, conn: Connection, storage: CatalogStorage, entry_id: UUID, folders: Collection[str]
    ) -> None:
        """Refuses files for an entry that lie in a folder of another one, below a storage authority.

        The service reads with keys that open both, and would tell whoever writes the one what is in files of
        the other. One statement where there is no such folder.

        Args:
            storage: of the catalog of the entry.
            folders: that hold the files and are none of the entry: see `OwnFolders.others`.

        Raises:
            BadRequestError: there is such a folder. The message does not say whose.
        """
        if not self._refuses or not folders:
            return
        area = Area(map(folder_of_text, folders))
        ranges = [(text, text) for text in {above for each in area for above in folders_above(each)}]

        def is_guarded(account_id: UUID) -> bool:
            accounts = {each for each in (account_id, storage.account_id) if each is not None}
            return _touch([prefix for each in accounts for prefix in _prefixes(conn, each)], area)

        if self._other_in(conn, storage, entry_id, ranges, is_guarded):
            raise BadRequestError(
                "Cannot read the table: it names files in a folder of another table or view, which are not"
                " read for this one (floecat.storage.overlapping-locations)"
            )

    def others_inside(
        self, conn: Connection, catalog: Catalog, entry_id: UUID, locations: Iterable[str]
    ) -> bool:
        """Whether a folder of another entry is, or lies in, one of these: then no keys are made for them.

        Args:
            entry_id: the entry itself; `NO_ENTRY` for a table that is only staged, which takes no folder. So
                where no such table could be made now, a folder around these counts too.
        """
        area = Area(_objects(locations))
        if entry_id == NO_ENTRY and self._refuses:
            ranges = overlapping_ranges(area)
        else:
            texts = [folder_text(each) for each in area]
            ranges = [(text, text) for text in texts] + [(f"{text}/", f"{text}/\U0010ffff") for text in texts]
        return bool(area) and self._other_in(conn, catalog.storage, entry_id, ranges)

    def _other_in(
        self,
        conn: Connection,
        own: CatalogStorage,
        entry_id: UUID,
        ranges: Sequence[tuple[str, str]],
        counts: Callable[[UUID], bool] = lambda _: True,
    ) -> bool:
        """Whether there is one, in a catalog on the same store whose account counts."""
        elsewhere: set[UUID] = set()
        while found := entry_paths.other_in(conn, entry_id, ranges, elsewhere):
            storage = self._storages.by_id(conn, found.catalog_id)
            if storage is None or storage.account_id is None:
                return True
            is_same = storage.account_id == own.account_id or own.shares(found.folder, storage)
            if is_same and counts(storage.account_id):
                return True
            elsewhere.add(found.catalog_id)
        return False


def _objects(locations: Iterable[str]) -> Iterable[Location]:
    for each in locations:
        try:
            found = normalize_location(cut_location(each) or each)
        except BadRequestError:
            continue  # no file has it
        if found.scheme != "file" and len(folder_text(found).encode()) <= _LONGEST_BYTES:
            yield found


def _touch(prefixes: Iterable[str], area: Area) -> bool:
    """Whether a prefix of an authority holds a folder of an area, or lies in it."""
    found = list(_objects(prefixes))
    return any(each.contains(at) or at.contains(each) for each in found for at in area)


def _prefixes(conn: Connection, account_id: UUID) -> list[str]:
    return [each.prefix for each in storage_authorities.of_account(conn, account_id) if each.enabled]
