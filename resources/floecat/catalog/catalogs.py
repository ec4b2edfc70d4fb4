"""Catalogs, found by prefix or by warehouse, and the calls on them, for every front end."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from itertools import compress
from uuid import UUID

import msgspec
import uuid_utils.compat as uuids

from floecat.auth.actors import Actor
from floecat.auth.authorizer import Authorizer, Check, Privilege, Securable, check_allowed
from floecat.auth.principals import Principal
from floecat.clock import Clock
from floecat.entries.calls import Call, Catalog, Page, RequestKey
from floecat.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    FloecatError,
    LocationNotAllowedError,
    NoSuchWarehouseError,
)
from floecat.fileio.locations import check_bounds, check_new_location, normalize_location
from floecat.memory_budget import LruCache, MemoryBudget
from floecat.storage.catalog_storage import CatalogStorage
from floecat.storage.catalog_storages import CatalogStorages
from floecat.store import page_tokens
from floecat.store.catalogs import accounts, catalogs
from floecat.store.database.engine import Connection, Store
from floecat.store.database.errors import DuplicateKeyError, ForeignKeyError
from floecat.store.record_pages import fetch_records

__all__ = ["RESERVED_NAMES", "CallContext", "CatalogService"]


RESERVED_NAMES = frozenset({"config", "oauth", "namespaces", "tables", "views", "transactions"})
"""Names that follow `/v1/` where the prefix is left out; no catalog of such a name could be addressed."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_CACHED_S = 5.0


class CatalogService:
    """Creates, lists and finds catalogs. What is found is kept for some seconds."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        memory: MemoryBudget,
        storages: CatalogStorages,
        *,
        clients_choose: bool = True,
        schema_separator: str | None,
    ) -> None:
        """Finds nothing yet.

        Args:
            storages: of catalogs.
            clients_choose: whether clients choose locations.
            schema_separator: of new catalogs; None for flat ones.
        """
        self._store = store
        self._clock = clock
        self._storages = storages
        self._clients_choose = clients_choose
        self._schema_separator = schema_separator
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

    def storage_of(self, account_id: UUID, prefix: str) -> str:
        """A key, equal for catalogs on one storage, for all that is known without asking the store."""
        cached = self._cache.get((account_id, prefix))  # however old: storage of a catalog seldom changes
        if cached is None:
            return prefix
        catalog = cached[1]
        return f"{catalog.storage_location.partition(':')[0]} {catalog.storage.store_key}"

    def forget(self, catalog: Catalog) -> None:
        """Asks the store for a catalog again, as it was changed."""
        self._cache.drop((catalog.account_id, catalog.name))

    def holding(self, account_id: UUID, location: str) -> Sequence[Catalog]:
        """The catalogs of the account in whose locations a storage URI lies, by name."""
        return [catalog for catalog in self.list(account_id) if _holds(catalog, location)]

    def list(self, account_id: UUID) -> list[Catalog]:
        """All catalogs of the account, by name."""
        with self._store.read() as conn:
            return [self._catalog(row) for row in catalogs.list_all(conn, account_id)]

    def page(self, account_id: UUID, token: str | None, limit: int) -> Page[Catalog]:
        """A page of the catalogs of the account, by name, as large as one answer may be.

        Args:
            token: of the page before; None or empty for the first.
            limit: most catalogs.

        Raises:
            BadRequestError: the token is of another listing.
            WorkingMemoryError: others held the memory all the time.
        """
        scope = f"catalogs {account_id}"
        after = page_tokens.decode(token, scope) if token else ""
        found = fetch_records(
            self._store,
            lambda conn, count: catalogs.page_sizes(conn, account_id, after, count),
            lambda conn, count: catalogs.page(conn, account_id, after, count),
            limit,
        )
        next_token = page_tokens.encode(found.rows[-1].name, scope) if found.has_more else None
        return Page([self._catalog(row) for row in found.rows], next_token)

    def create(
        self,
        account_id: UUID,
        name: str,
        storage_location: str,
        *,
        allowed_locations: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        try_writing: bool = False,
        creator: Actor | None = None,
    ) -> Catalog:
        """Creates a catalog; the account is made with its first one.

        Args:
            account_id: the owner.
            name: what the prefix and the warehouse will be: letters, digits, `_`, `-` and `.`.
            storage_location: absolute URI under which default locations lie.
            allowed_locations: further URIs under which tables may lie.
            properties: free properties.
            try_writing: whether to write a small file at the storage location first, and to delete it again.
            creator: will own it; None where the service makes it by itself.

        Raises:
            BadRequestError: the name or a location is malformed, or files cannot be written there.
            AlreadyExistsError: the account has a catalog of this name.
            ConflictError: the account was deleted at the same time.
        """
        row = self.new_row(account_id, name, storage_location, allowed_locations, properties, creator)
        if try_writing:
            _try_writing(self._storages.of(row), row.storage_location)

        def insert(conn: Connection) -> None:
            accounts.ensure(conn, account_id, row.created_at_ms)
            owner_id = None if creator is None else creator.owner(conn)
            catalogs.insert(conn, msgspec.structs.replace(row, owner_id=owner_id))

        try:
            self._store.run(insert)
        except DuplicateKeyError:
            raise AlreadyExistsError(f"Catalog already exists: {name}") from None
        except ForeignKeyError:
            raise ConflictError(
                f"Catalog {name} was not created: its account was deleted meanwhile"
            ) from None
        return self._catalog(row)

    def new_row(
        self,
        account_id: UUID,
        name: str,
        storage_location: str,
        allowed_locations: Sequence[str],
        properties: Mapping[str, str] | None = None,
        creator: Actor | None = None,
    ) -> catalogs.CatalogRow:
        """The row of a new catalog, as `create` inserts it with an owner.

        Raises:
            BadRequestError: the name or a location is malformed.
        """
        if not _NAME.fullmatch(name) or name.lower() in RESERVED_NAMES:
            raise BadRequestError(f"Invalid catalog name: {name!r}")
        check_new_location(storage_location)
        now_ms = self._clock.now_ms()
        return catalogs.CatalogRow(
            id=uuids.uuid7(),
            account_id=account_id,
            name=name,
            storage_location=str(normalize_location(storage_location)),
            allowed_locations=tuple(str(normalize_location(location)) for location in allowed_locations),
            properties=dict(properties or {}),
            commit_version=0,
            created_at_ms=now_ms,
            updated_at_ms=now_ms,
            schema_separator=self._schema_separator,
            created_by=None if creator is None else creator.principal.name,
        )

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
            row.allowed_locations,
            row.protected,
            self._clients_choose,
            row.schema_separator,
            row.audit,
        )


class CallContext:
    """Makes calls."""

    def __init__(self, catalogs: CatalogService, authorizer: Authorizer) -> None:
        self._catalogs = catalogs
        self._authorizer = authorizer

    def open(self, principal: Principal, catalog: str, request: RequestKey | None = None) -> Call:
        """A call on a catalog.

        Args:
            principal: who asks.
            catalog: name of the catalog, as prefixes and warehouses are.
            request: idempotency key of a change.

        Raises:
            ForbiddenError: the principal may not use the catalog, whether or not it exists.
            NoSuchWarehouseError: the account has no such catalog.
        """
        check_allowed(self._authorizer, principal, [_use(catalog)])
        found = self._catalogs.by_prefix(principal.account_id, catalog)
        return Call(principal, self._authorizer, found, request)

    def open_warehouse(self, principal: Principal, warehouse: str) -> Call:
        """A call on the catalog that a `warehouse` names, or in whose locations a storage URI lies.

        Raises:
            BadRequestError: the location is too long or percent-encoded too many times.
            ForbiddenError: the warehouse is a name, and the principal may not use that catalog.
            NoSuchWarehouseError: there is no such catalog, or none that the principal may use.
        """
        if "://" not in warehouse and not warehouse.startswith(("/", "file:")):
            return self.open(principal, warehouse)
        check_bounds(warehouse)
        holding = self._catalogs.holding(principal.account_id, warehouse)
        allowed = self._authorizer.allowed(principal, [_use(catalog.name) for catalog in holding])
        for catalog in compress(holding, allowed):
            return Call(principal, self._authorizer, catalog)
        raise NoSuchWarehouseError(f"Warehouse does not exist: {warehouse}")

    def remembered(self, principal: Principal, catalog: str) -> Call | None:
        """A call for a fast look-up, if the catalog is known without asking the store.

        Whether the principal may use the catalog is asked by that look-up.
        """
        found = self._catalogs.remembered(principal.account_id, catalog)
        return None if found is None else Call(principal, self._authorizer, found)

    def open_as_operator(self, name: str, account_id: UUID, catalog: str) -> Call:
        """A call of an operator, who works on the store directly and may do everything.

        Args:
            name: what the commit log calls the operator.
            account_id: the account of the catalog.
            catalog: its name.

        Raises:
            NoSuchWarehouseError: the account has no such catalog.
        """
        found = self._catalogs.by_prefix(account_id, catalog)
        return Call.of_service(name, found)


def _try_writing(storage: CatalogStorage, location: str) -> None:
    files = storage.files(location)
    file = f"{location.rstrip('/')}/floecat-{uuids.uuid7().hex}"
    try:
        files.write_new(file, b"Written to find out whether files can be, and deleted.", unique_name=True)
        files.delete(file)
    except FloecatError as error:
        raise BadRequestError(f"Files cannot be written and deleted at {location}: {error.message}") from None


def _weight(row: catalogs.CatalogRow) -> int:
    texts = [row.storage_location, *row.allowed_locations, *row.properties, *row.properties.values()]
    return 2048 + sum(200 + 3 * len(text) for text in texts)


def _holds(catalog: Catalog, location: str) -> bool:
    try:
        catalog.allowed.check(location)
    except (BadRequestError, LocationNotAllowedError):
        return False
    return True


def _use(catalog: str) -> Check:
    return Privilege.USE_CATALOG, Securable("catalog", catalog)
