"""Catalogs, found by prefix or by warehouse."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from uuid import UUID

import uuid_utils.compat as uuids

from floecat.clock import Clock
from floecat.entries.calls import Catalog
from floecat.errors import AlreadyExistsError, BadRequestError, LocationNotAllowedError, NoSuchWarehouseError
from floecat.fileio.locations import normalize_location
from floecat.lru_cache import LruCache
from floecat.memory_budget import MemoryBudget
from floecat.storage.catalog_storages import CatalogStorages
from floecat.store import accounts, catalogs
from floecat.store.database.engine import Store
from floecat.store.database.errors import DuplicateKeyError

__all__ = ["RESERVED_NAMES", "CatalogService"]

RESERVED_NAMES = frozenset({"config", "oauth", "namespaces", "tables", "views", "transactions"})
"""What follows `/v1/` where the prefix is left out; a catalog of that name could not be addressed."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_CACHED_S = 5.0


class CatalogService:
    """Creates, lists and finds catalogs. What is found is kept for some seconds."""

    def __init__(self, store: Store, clock: Clock, memory: MemoryBudget, storages: CatalogStorages) -> None:
        self._store = store
        self._clock = clock
        self._storages = storages
        self._cache: LruCache[tuple[float, Catalog]] = memory.cache("catalogs")

    def by_prefix(self, account_id: UUID, prefix: str) -> Catalog:
        """The catalog that a path prefix names.

        Raises:
            NoSuchWarehouseError: the account has no such catalog.
        """
        cached = self.remembered(account_id, prefix)
        if cached is not None:
            return cached
        with self._store.read() as conn:
            row = catalogs.by_name(conn, account_id, prefix)
        if row is None:
            raise NoSuchWarehouseError(f"Warehouse does not exist: {prefix}")
        catalog = self._catalog(row)
        self._cache.put((account_id, prefix), (time.monotonic() + _CACHED_S, catalog), _weight(row))
        return catalog

    def by_id(self, catalog_id: UUID) -> Catalog:
        """The catalog of an id.

        Raises:
            NoSuchWarehouseError: there is none.
        """
        with self._store.read() as conn:
            row = catalogs.get(conn, catalog_id)
        if row is None:
            raise NoSuchWarehouseError(f"Warehouse does not exist: {catalog_id}")
        return self._catalog(row)

    def remembered(self, account_id: UUID, prefix: str) -> Catalog | None:
        """The catalog that a path prefix names, if that is known without asking the store."""
        cached = self._cache.get((account_id, prefix))
        return cached[1] if cached is not None and cached[0] > time.monotonic() else None

    def holding(self, account_id: UUID, location: str) -> Sequence[Catalog]:
        """The catalogs of the account in whose locations a storage URI lies, by name."""
        return [catalog for catalog in self.list(account_id) if _holds(catalog, location)]

    def list(self, account_id: UUID) -> list[Catalog]:
        """All catalogs of the account, by name."""
        with self._store.read() as conn:
            return [self._catalog(row) for row in catalogs.list_all(conn, account_id)]

    def create(
        self,
        account_id: UUID,
        name: str,
        storage_location: str,
        *,
        allowed_locations: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> Catalog:
        """Creates a catalog; the account is made with its first one.

        Args:
            account_id: the owner.
            name: what the prefix and the warehouse will be: letters, digits, `_`, `-` and `.`.
            storage_location: absolute URI under which default locations lie.
            allowed_locations: further URIs under which tables may lie.
            properties: free properties.

        Raises:
            BadRequestError: the name or a location is malformed.
            AlreadyExistsError: the account has a catalog of this name.
        """
        if not _NAME.fullmatch(name) or name.lower() in RESERVED_NAMES:
            raise BadRequestError(f"Invalid catalog name: {name!r}")
        now_ms = self._clock.now_ms()
        row = catalogs.CatalogRow(
            id=uuids.uuid7(),
            account_id=account_id,
            name=name,
            storage_location=str(normalize_location(storage_location)),
            allowed_locations=tuple(str(normalize_location(location)) for location in allowed_locations),
            properties=dict(properties or {}),
            commit_version=0,
            created_at_ms=now_ms,
            updated_at_ms=now_ms,
        )
        try:
            with self._store.write() as conn:
                accounts.ensure(conn, account_id, now_ms)
                catalogs.insert(conn, row)
        except DuplicateKeyError:
            raise AlreadyExistsError(f"Catalog already exists: {name}") from None
        return self._catalog(row)

    def ensure(self, account_id: UUID, name: str, storage_location: str) -> Catalog:
        """The catalog of this name, made where it is missing; safe when several processes start at once."""
        try:
            return self.by_prefix(account_id, name)
        except NoSuchWarehouseError:
            try:
                return self.create(account_id, name, storage_location)
            except AlreadyExistsError:
                return self.by_prefix(account_id, name)

    def _catalog(self, row: catalogs.CatalogRow) -> Catalog:
        return Catalog(
            row.id,
            row.account_id,
            row.name,
            row.storage_location.rstrip("/"),
            self._storages.of(row),
            row.properties,
        )


def _weight(row: catalogs.CatalogRow) -> int:
    texts = [row.storage_location, *row.allowed_locations, *row.properties, *row.properties.values()]
    return 2048 + sum(200 + 3 * len(text) for text in texts)


def _holds(catalog: Catalog, location: str) -> bool:
    try:
        catalog.allowed.check(location)
    except (BadRequestError, LocationNotAllowedError):
        return False
    return True
