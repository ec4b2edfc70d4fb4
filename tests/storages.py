"""Storage of a catalog for tests that build services by hand."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from floecat.entries.calls import Call
from floecat.fileio.base import FileIO
from floecat.fileio.locations import AllowedLocations
from floecat.fileio.opening import open_fileio
from floecat.fileio.options import ObjectStoreOptions
from floecat.runtime import Kernel
from floecat.storage.access import StorageAccess
from floecat.storage.catalog_storage import CatalogStorage
from floecat.storage.catalog_storages import CatalogStorages

__all__ = ["call_on", "storage_at", "storages_at"]


def storage_at(
    allowed: AllowedLocations | Sequence[str], files: FileIO | None = None, endpoint: str | None = None
) -> CatalogStorage:
    """Storage of a catalog that may use some locations."""
    roots = allowed if isinstance(allowed, AllowedLocations) else AllowedLocations(allowed)
    return CatalogStorage(roots, _access(files, endpoint))


def storages_at(files: FileIO | None = None, shared_locations: Sequence[str] = ()) -> CatalogStorages:
    """Storages of catalogs that all have the same files."""
    return CatalogStorages(_access(files, None), shared_locations=shared_locations)


def call_on(kernel: Kernel, call: Call) -> Call:
    """The call of one kernel on another one over the same store: with that one's storage."""
    return msgspec.structs.replace(call, catalog=kernel.catalog.catalogs.by_id(call.catalog.id))


def _access(files: FileIO | None, endpoint: str | None) -> StorageAccess:
    return StorageAccess.of(ObjectStoreOptions(endpoint=endpoint), files=files or open_fileio(fsync=False))
