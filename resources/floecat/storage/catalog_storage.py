"""Storage as one catalog uses it: its files, its allowed locations, and the settings for clients."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from floecat.errors import BadRequestError
from floecat.fileio.base import DeleteFailure, DeleteOutcome, FileIO
from floecat.fileio.locations import AllowedLocations, Location, normalize_location
from floecat.fileio.options import ObjectStoreOptions
from floecat.storage.access import StorageAccess

__all__ = ["CatalogStorage"]


class CatalogStorage:
    """Answers by location, with the access of the longest prefix that holds it.

    Safe to share between threads.

    Attributes:
        allowed: the locations that the catalog may read, write and delete.
        account_id: whose catalog it is.
    """

    def __init__(
        self,
        allowed: AllowedLocations,
        access: StorageAccess,
        prefixes: Mapping[str, StorageAccess] | None = None,
        artifact_locations: Sequence[str] = (),
        account_id: UUID | None = None,
    ) -> None:
        self.allowed: Final = allowed
        self.account_id: Final = account_id
        self._access = access
        by_prefix = {normalize_location(prefix): found for prefix, found in (prefixes or {}).items()}
        self._prefixes = sorted(by_prefix.items(), key=lambda item: len(item[0].path), reverse=True)
        self._stores = [access.stores, *((prefix, found.stores) for prefix, found in self._prefixes)]
        self._with_artifacts = self._widened(artifact_locations) if artifact_locations else self

    def files(self, location: str) -> FileIO:
        """The storage that holds a location."""
        return self._access_of(location).files

    def opener(self, location: str) -> Callable[[], FileIO]:
        """Opens `files` in another process. It can be pickled, and then holds the keys."""
        return self._access_of(location).opener

    def options(self, location: str) -> ObjectStoreOptions:
        """The options of the storage of a location, with the keys."""
        return self._access_of(location).options

    def client_config(self, location: str) -> Mapping[str, str]:
        """Settings of the storage of a location that a client may know, without credentials."""
        return self._access_of(location).client_config.of(location)

    def delete_many(self, locations: Iterable[str]) -> DeleteOutcome:
        """Deletes files of any of the storages; see `FileIO.delete_many`."""
        if not self._prefixes:
            return self._access.files.delete_many(locations, self.allowed)
        by_files: dict[FileIO, list[str]] = {}
        for location in locations:
            by_files.setdefault(self.files(location), []).append(location)
        outcomes = [
            files.delete_many(its_locations, self.allowed) for files, its_locations in by_files.items()
        ]
        failures: tuple[DeleteFailure, ...] = sum((outcome.failures for outcome in outcomes), ())
        return DeleteOutcome(sum(outcome.deleted for outcome in outcomes), failures)

    @property
    def with_artifacts(self) -> CatalogStorage:
        """The same with the locations where engines of other formats keep what they make.

        What lies there is read like the files of the catalog, and written by such an engine alone.
        """
        return self._with_artifacts

    def shares(self, location: str | Location, other: CatalogStorage) -> bool:
        """Whether a location means the same file here and in the storage of another catalog."""
        if self._stores == other._stores:
            return True
        try:
            found = location if isinstance(location, Location) else normalize_location(location)
        except BadRequestError:
            return True  # no file has it
        return self._store(found) == other._store(found)

    def shares_below(self, folder: str | Location, other: CatalogStorage) -> bool:
        """Whether a location in a folder can mean the same file here and in the storage of another catalog.

        A prefix below the folder may lie on another store than the folder itself.
        """
        if self.shares(folder, other):
            return True
        found = folder if isinstance(folder, Location) else normalize_location(folder)
        prefixes = [prefix for prefix, _ in (*self._prefixes, *other._prefixes)]
        return any(found.contains(prefix) and self.shares(prefix, other) for prefix in prefixes)

    @property
    def store_key(self) -> str:
        """A key that is equal for storages in which every location means the same file, in any process."""
        return repr(self._stores)

    @property
    def access_key(self) -> Hashable:
        """A key that is equal for storages that reach every location in the same way."""
        return self._access, *self._prefixes

    def with_neighbours(self, others: Iterable[CatalogStorage]) -> CatalogStorage:
        """The same with the locations of other catalogs, as far as they mean the same files here."""
        return self._widened(
            str(root) for other in others for root in other.allowed.roots if self.shares(root, other)
        )

    def _widened(self, locations: Iterable[str]) -> CatalogStorage:
        allowed = AllowedLocations((*map(str, self.allowed.roots), *locations))
        prefixes = {str(prefix): found for prefix, found in self._prefixes}
        return CatalogStorage(allowed, self._access, prefixes, account_id=self.account_id)

    def _access_of(self, location: str) -> StorageAccess:
        if not self._prefixes:
            return self._access
        try:
            return self._access_at(normalize_location(location))
        except BadRequestError:
            return self._access  # which refuses it

    def _access_at(self, location: Location) -> StorageAccess:
        return next((found for prefix, found in self._prefixes if prefix.contains(location)), self._access)

    def _store(self, location: Location) -> str:
        return self._access_at(location).stores.of(location.scheme)
