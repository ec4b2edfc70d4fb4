"""Tables whose metadata file is gone from storage.

Loads are answered from the store and do not notice, but engines that read the file directly do.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol
from uuid import UUID

import msgspec

from floecat.errors import FileMissingError
from floecat.storage.catalog_storage import CatalogStorage
from floecat.storage.catalog_storages import CatalogStorages
from floecat.store.database.engine import Store
from floecat.store.entries import tables

__all__ = ["LostFile", "LostFiles", "MetadataFileLookup"]

_LOOKUPS = 16


class MetadataFileLookup(Protocol):
    """Looks for metadata files."""

    def check_exists(self, storage: CatalogStorage, location: str, /) -> None:
        """Raises `FileMissingError` if there is no file."""
        ...


class LostFile(msgspec.Struct, frozen=True):
    """A table, and where its metadata file should be."""

    entry_id: UUID
    name: str
    metadata_location: str


class LostFiles:
    """Finds metadata files that are gone."""

    def __init__(self, store: Store, files: MetadataFileLookup, storages: CatalogStorages) -> None:
        self._store = store
        self._files = files
        self._storages = storages

    def among(self, entry_ids: Iterable[UUID]) -> list[LostFile]:
        """The entries of these whose current metadata file is gone, in their order; unknown ids are left out.

        Raises:
            LocationNotAllowedError: an entry points outside the locations of its catalog.
            StorageUnavailableError: storage fails, so nothing can be said.
            StoreUnavailableError: the store does not answer.
        """
        with ThreadPoolExecutor(_LOOKUPS, thread_name_prefix="metadata-file") as lookups:
            return [lost for lost in lookups.map(self._lost, entry_ids) if lost is not None]

    def _lost(self, entry_id: UUID) -> LostFile | None:
        row = self._row(entry_id)
        while row is not None and row.has_metadata and not self._exists(row):
            again = self._row(entry_id)
            if again is not None and again.metadata_location == row.metadata_location:
                return LostFile(row.id, row.name, row.metadata_location)
            row = again  # a commit in between has made another file current, and may have deleted this one
        return None

    def _row(self, entry_id: UUID) -> tables.EntryRow | None:
        with self._store.read() as conn:
            return tables.get(conn, entry_id)

    def _exists(self, row: tables.EntryRow) -> bool:
        with self._store.read() as conn:
            storage = self._storages.by_id(conn, row.catalog_id)
        if storage is None:
            return True  # the catalog was dropped, and the table with it
        try:
            self._files.check_exists(storage.with_artifacts, row.metadata_location)
        except FileMissingError:
            return False
        return True
