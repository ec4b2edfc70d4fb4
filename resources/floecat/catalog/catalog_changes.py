"""Changes of catalogs that exist: their allowed locations, their properties, and their removal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

from floecat.auth.authorizer import Privilege
from floecat.catalog.catalogs import CatalogService
from floecat.catalog.property_bounds import check_property_bytes
from floecat.clock import Clock
from floecat.credentials.authority_service import AuthorityService
from floecat.entries.calls import Call, Catalog
from floecat.entries.idempotency_keys import Finish, IdempotencyKeys, JsonAnswer
from floecat.entries.names import protected
from floecat.errors import BadRequestError, ConflictError, NoSuchWarehouseError
from floecat.fileio.locations import AllowedLocations, Location, normalize_location
from floecat.iceberg.values.bounds import process_bounds
from floecat.store.access import grants
from floecat.store.catalogs import catalogs, connectors, namespaces
from floecat.store.commits.confirmed_transactions import ConfirmedTransactions, leave_trace
from floecat.store.database.connections import Connection
from floecat.store.entries import tables
from floecat.store.jobs import jobs

__all__ = ["CatalogChanges"]

T = TypeVar("T")

_PAGE = 1000


class CatalogChanges:
    """Updates and deletes catalogs. Other processes see a change within five seconds."""

    def __init__(
        self,
        transactions: ConfirmedTransactions,
        clock: Clock,
        catalogs: CatalogService,
        authorities: AuthorityService,
        keys: IdempotencyKeys,
        *,
        shared_locations: Sequence[str],
        addable_locations: Sequence[str],
        most_locations: int,
    ) -> None:
        """Puts the service together.

        Args:
            catalogs: finds catalogs.
            authorities: make keys for what lies below their prefixes.
            keys: claims the keys of requests.
            shared_locations: those that every catalog may use.
            addable_locations: those below which anyone who manages a catalog may add one to it.
            most_locations: allowed locations of a catalog.
        """
        self._transactions = transactions
        self._clock = clock
        self._catalogs = catalogs
        self._authorities = authorities
        self._keys = keys
        self._shared = tuple(shared_locations)
        self._addable = AllowedLocations(addable_locations)
        self._most = most_locations

    def update(
        self, call: Call, *, add: Sequence[str] = (), remove: Sequence[str] = (), anywhere: bool = False
    ) -> Catalog:
        """Adds allowed locations to the catalog, and removes some that nothing lies in.

        Args:
            add: locations; those that it has are left as they are.
            remove: allowed locations of this catalog alone.
            anywhere: whether any location may be added, as by an operator. The service reads and writes with
                keys that reach more than one catalog may.

        Returns:
            The catalog with its new locations.

        Raises:
            BadRequestError: a location is malformed, is in both lists, or is to be removed and not there;
                or there would be too many.
            ForbiddenError: the principal may not manage the catalog, or not use the storage authority of an
                added location.
            LocationNotAllowedError: a location may not be added.
            ConflictError: a table, a view, a connector or an unfinished job lies in a removed location, and
                in no other of the catalog. The message has their numbers.
            CommitStateUnknownError: the catalog may have been changed.
        """
        call.check((Privilege.MANAGE_CATALOG, call.on_catalog()))
        check = normalize_location if anywhere else self._addable.check
        added = [str(check(location)) for location in add]
        if added:
            self._authorities.check_use(call, added)
        removed = [str(normalize_location(location)) for location in remove]
        if both := set(added) & set(removed):
            raise BadRequestError(f"Invalid locations: added and removed: {', '.join(sorted(both))}")

        def change(conn: Connection, transaction_id: UUID) -> None:
            row = self._locked(conn, call)
            for location in removed:
                if location not in row.allowed_locations:
                    raise BadRequestError(
                        f"Catalog {row.name} has no such allowed location of its own: {location}"
                    )
            kept = [location for location in row.allowed_locations if location not in removed]
            allowed = tuple(dict.fromkeys((*kept, *added)))
            if len(allowed) > max(self._most, len(row.allowed_locations)):
                raise BadRequestError(
                    f"Catalog {row.name} may have {self._most} allowed locations "
                    "(floecat.limits.catalog-locations)"
                )
            left = AllowedLocations((row.storage_location, *allowed, *self._shared)).roots
            if removed:
                _check_unused(conn, row, [normalize_location(location) for location in removed], left)
            now_ms = self._clock.now_ms()
            catalogs.set_allowed_locations(conn, row.id, allowed, now_ms, call.principal.name)
            leave_trace(conn, transaction_id, now_ms)

        self._run(call, change)
        return self._catalogs.by_prefix(call.catalog.account_id, call.catalog.name)

    def change_properties(self, call: Call, changes: Mapping[str, str | None]) -> Mapping[str, str]:
        """Sets and removes properties of the catalog.

        Args:
            changes: by key; None removes one.

        Returns:
            All properties of the catalog.

        Raises:
            BadRequestError: a key or a value is not valid Unicode, or they are too large together.
            ForbiddenError: the principal may not manage the catalog.
            NoSuchWarehouseError: it does not exist any more.
            CommitStateUnknownError: it may have been changed.
        """
        call.check((Privilege.MANAGE_CATALOG, call.on_catalog()))

        def work(finish: Finish[dict[str, str]]) -> dict[str, str]:
            def change(conn: Connection, transaction_id: UUID) -> dict[str, str]:
                row = self._locked(conn, call)
                left = {key: value for key, value in row.properties.items() if key not in changes}
                properties = left | {key: value for key, value in changes.items() if value is not None}
                check_property_bytes(properties, process_bounds.limits.namespace_property_bytes)
                now_ms = self._clock.now_ms()
                catalogs.set_properties(conn, row.id, properties, now_ms, call.principal.name)
                leave_trace(conn, transaction_id, now_ms)
                finish(conn, properties)
                return properties

            return self._run(call, change)

        return self._keys.run(call, JsonAnswer(dict[str, str]), work)

    def delete(self, call: Call) -> None:
        """Deletes the catalog with its commit log. No file is touched.

        Raises:
            ForbiddenError: the principal may not manage the catalog.
            NoSuchWarehouseError: it does not exist any more.
            ConflictError: it is protected, or has namespaces, connectors or unfinished jobs; the message has
                their numbers.
            CommitStateUnknownError: it may have been deleted.
        """
        call.check((Privilege.MANAGE_CATALOG, call.on_catalog()))

        def delete(conn: Connection, transaction_id: UUID) -> None:
            row = self._locked(conn, call)
            if row.protected:
                raise protected(call.on_catalog())
            _refuse_if_any(
                f"Catalog {row.name} is not empty",
                {
                    "namespaces": namespaces.count(conn, row.id),
                    "connectors": len(connectors.list_all(conn, row.id)),
                    "jobs": len(jobs.unfinished_resources(conn, row.id)),
                },
            )
            catalogs.delete(conn, row.id)
            grants.delete_of_securable(conn, row.id)
            leave_trace(conn, transaction_id, self._clock.now_ms())

        self._run(call, delete)

    def _run(self, call: Call, work: Callable[[Connection, UUID], T]) -> T:
        try:
            return self._transactions.run(call.catalog.id, work)
        finally:  # also where the outcome is unknown
            self._catalogs.forget(call.catalog)

    def _locked(self, conn: Connection, call: Call) -> catalogs.CatalogRow:
        row = catalogs.get(conn, call.catalog.id, for_update=True)
        if row is None:
            raise NoSuchWarehouseError(f"Warehouse does not exist: {call.catalog.name}")
        return row


def _check_unused(
    conn: Connection, row: catalogs.CatalogRow, removed: Sequence[Location], left: Sequence[Location]
) -> None:
    def count(places: Iterable[Sequence[str]]) -> int:
        return sum(any(_is_lost(place, removed, left) for place in each) for each in places)

    _refuse_if_any(
        f"In use, so not removed from catalog {row.name}: {', '.join(map(str, removed))}",
        {
            "tables and views": count(_entries(conn, row.id)),
            "connectors": count([each.location] for each in connectors.list_all(conn, row.id)),
            "jobs": count([each] for each in jobs.unfinished_resources(conn, row.id)),
        },
    )


def _entries(conn: Connection, catalog_id: UUID) -> Iterator[Sequence[str]]:
    """The places of each table and view."""
    after: UUID | None = None
    while True:
        page = tables.list_places(conn, catalog_id, after, _PAGE)
        yield from ((location, metadata_location) for _, location, metadata_location in page)
        if len(page) < _PAGE:
            return
        after = page[-1][0]


def _is_lost(place: str, removed: Sequence[Location], left: Sequence[Location]) -> bool:
    try:
        found = normalize_location(place)
    except BadRequestError:
        return False  # of a job without a location
    return any(root.contains(found) for root in removed) and not any(root.contains(found) for root in left)


def _refuse_if_any(message: str, counts: dict[str, int]) -> None:
    found = [f"{what}: {count}" for what, count in counts.items() if count]
    if found:
        raise ConflictError(f"{message} ({', '.join(found)})")
