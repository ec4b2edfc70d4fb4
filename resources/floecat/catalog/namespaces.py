"""Namespaces: listing, creation, properties, removal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

import msgspec
import uuid_utils.compat as uuids

from floecat.auth.authorizer import Check, Privilege
from floecat.catalog.property_bounds import check_property_bytes
from floecat.clock import Clock
from floecat.entries.calls import Call, Page, PageRequest
from floecat.entries.entry_locations import check_not_chosen, namespace_location
from floecat.entries.idempotency_keys import Finish, IdempotencyKeys, JsonAnswer
from floecat.entries.listing import Paging
from floecat.entries.names import existing_namespace, missing_namespace, protected
from floecat.errors import (
    AlreadyExistsError,
    BadRequestError,
    LocationNotAllowedError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    UnprocessableError,
)
from floecat.fileio.locations import check_new_location
from floecat.identifiers.encoding import physical_name
from floecat.identifiers.namespace import Namespace, check_name, check_namespace
from floecat.identifiers.schema_names import may_hold_separator
from floecat.store.access import grants
from floecat.store.catalogs import catalogs, namespaces
from floecat.store.catalogs.audits import Audit
from floecat.store.commits.confirmed_transactions import ConfirmedTransactions, leave_trace
from floecat.store.database.engine import Connection, Store
from floecat.store.database.errors import DuplicateKeyError, ForeignKeyError

__all__ = ["DescribedNamespace", "NamespaceInfo", "NamespaceService", "PropertiesUpdated"]


class NamespaceInfo(msgspec.Struct, frozen=True):
    """A namespace and its properties; `location` is among them, by default the folder of new tables."""

    namespace: Namespace
    properties: dict[str, str]


class DescribedNamespace(NamedTuple):
    """A namespace, and who created and changed it."""

    info: NamespaceInfo
    audit: Audit


class PropertiesUpdated(msgspec.Struct, frozen=True):
    """The result of a change of properties, by key."""

    updated: list[str]
    removed: list[str]
    missing: list[str]


class NamespaceService:
    """Namespaces of a catalog."""

    def __init__(
        self,
        store: Store,
        transactions: ConfirmedTransactions,
        clock: Clock,
        keys: IdempotencyKeys,
        paging: Paging,
        *,
        reserved: str,
        separator: str | None,
        most_property_bytes: int,
    ) -> None:
        """Wires the service.

        Args:
            store: where namespaces are kept.
            paging: page sizes and tokens.
            reserved: characters that no level may hold, since they separate levels on the wire.
            separator: of schemas, if no level of flat catalogs may hold it either.
            most_property_bytes: of all keys and values of a namespace.
        """
        self._store = store
        self._transactions = transactions
        self._clock = clock
        self._keys = keys
        self._paging = paging
        self._reserved = reserved
        self._separator = separator
        self._most_property_bytes = most_property_bytes

    def list(self, call: Call, parent: Namespace | None, page: PageRequest) -> Page[Namespace]:
        """Direct children of a namespace, or the top level, that the principal may see; full names, ordered.

        Raises:
            ForbiddenError: the principal may not use the parent.
            NoSuchNamespaceError: the parent does not exist.
            BadRequestError: the page token is not one of this listing.
        """
        scope = f"namespaces|{call.catalog.id}|{physical_name(parent) if parent else ''}"
        if parent is not None:
            call.check((Privilege.USE_SCHEMA, call.on_namespace(parent)))
        with self._store.read() as conn:
            if parent is not None and namespaces.get(conn, call.catalog.id, parent) is None:
                raise missing_namespace(parent)
            return self._paging.page(
                scope,
                page,
                lambda after, limit: [
                    (row.physical_name, row.levels)
                    for row in namespaces.children(conn, call.catalog.id, parent, after, limit)
                ],
                lambda found: call.allowed(
                    [(Privilege.LIST_SCHEMA, call.on_namespace(child)) for child in found]
                ),
            )

    def walk(self, call: Call, parent: Namespace | None = None) -> Iterator[Namespace]:
        """All namespaces below one, or of the catalog, that the principal may see; parents first.

        Raises:
            ForbiddenError: the principal may not use one of the parents.
            NoSuchNamespaceError: the parent does not exist.
        """
        for child in self.list(call, parent, PageRequest()).items:
            yield child
            yield from self.walk(call, child)

    def create(self, call: Call, namespace: Namespace, properties: Mapping[str, str]) -> NamespaceInfo:
        """Creates a namespace, together with parents that are missing, in one transaction.

        Raises:
            BadRequestError: a level cannot be addressed or stored, or `location` is malformed or lies outside
                the allowed locations.
            ForbiddenError: the principal may not create it, or not a parent that is missing.
            AlreadyExistsError: it exists.
            CommitStateUnknownError: it may have been created.
        """

        def work(finish: Finish[NamespaceInfo]) -> NamespaceInfo:
            check_namespace(namespace, reserved=self._reserved)
            self._check_properties(properties)
            _check_location(call, namespace, properties)
            chain = [namespace[:depth] for depth in range(1, len(namespace) + 1)]
            checks = [(Privilege.CREATE_SCHEMA, call.on_namespace(levels)) for levels in chain]
            allowed = call.allowed(checks)
            if not allowed[-1]:
                raise call.refusal(checks[-1])
            refused = {
                levels: check for levels, check, may in zip(chain, checks, allowed, strict=True) if not may
            }
            created = _info(call, namespace, properties)

            def insert(conn: Connection, transaction_id: UUID) -> None:
                self._insert_chain(conn, call, namespace, properties, refused)
                self._leave_trace(conn, transaction_id)
                finish(conn, created)

            for _ in range(2):
                try:
                    self._transactions.run(call.catalog.id, insert)
                except DuplicateKeyError:  # another request created it or a parent: check again
                    continue
                except ForeignKeyError:  # another request dropped a parent
                    continue
                return created
            raise _existing(namespace)

        needed = (Privilege.CREATE_SCHEMA, call.on_namespace(namespace))
        return self._keys.run(call, JsonAnswer(NamespaceInfo), work, needed)

    def ensure(self, call: Call, namespace: Namespace) -> bool:
        """Makes sure that a namespace exists, with its parents; safe when several processes do it at once.

        Returns:
            Whether it was created.

        Raises:
            BadRequestError: a level cannot be addressed or stored.
            ForbiddenError: the principal may not use it, or not create it.
        """
        try:
            self.exists(call, namespace)
        except NoSuchNamespaceError:
            try:
                self.create(call, namespace, {})
            except AlreadyExistsError:
                return False
            return True
        return False

    def load(self, call: Call, namespace: Namespace) -> NamespaceInfo:
        """A namespace and its properties.

        Raises:
            ForbiddenError: the principal may not use it.
            NoSuchNamespaceError: it does not exist.
        """
        return self.describe(call, namespace).info

    def describe(
        self, call: Call, namespace: Namespace, privilege: Privilege = Privilege.USE_SCHEMA
    ) -> DescribedNamespace:
        """A namespace and its audit; arguments and errors as of `load`.

        Args:
            privilege: what it is looked up for.
        """
        row = existing_namespace(self._store, call, namespace, privilege)
        return DescribedNamespace(_info(call, namespace, row.properties), row.audit)

    def exists(self, call: Call, namespace: Namespace) -> None:
        """Fails unless the namespace exists.

        Raises:
            ForbiddenError: the principal may not use it.
            NoSuchNamespaceError: it does not.
        """
        existing_namespace(self._store, call, namespace, Privilege.USE_SCHEMA)

    def drop(self, call: Call, namespace: Namespace) -> None:
        """Removes an empty namespace.

        Raises:
            ForbiddenError: the principal may not drop it.
            NoSuchNamespaceError: it does not exist.
            ConflictError: it is protected.
            NamespaceNotEmptyError: it holds a table, a view or a namespace.
            CommitStateUnknownError: it may have been removed.
        """

        def work(finish: Finish[None]) -> None:
            call.check((Privilege.DROP_SCHEMA, call.on_namespace(namespace)))

            def delete(conn: Connection, transaction_id: UUID) -> None:
                row = namespaces.get(conn, call.catalog.id, namespace, for_update=True)
                if row is None:
                    raise missing_namespace(namespace)
                if row.protected:
                    raise protected(call.on_namespace(namespace))
                if namespaces.has_content(conn, row.id):
                    raise _not_empty(namespace, namespaces.content(conn, row.id))
                if not namespaces.delete(conn, row):
                    raise missing_namespace(namespace)
                grants.delete_of_securable(conn, row.id)
                self._leave_trace(conn, transaction_id)
                finish(conn, None)

            try:
                self._transactions.run(call.catalog.id, delete)
            except ForeignKeyError:  # something was created in it meanwhile
                raise _not_empty(namespace) from None

        self._keys.run(call, JsonAnswer(type(None)), work)

    def update_properties(
        self, call: Call, namespace: Namespace, removals: Sequence[str], updates: Mapping[str, str]
    ) -> PropertiesUpdated:
        """Sets and removes properties.

        Raises:
            BadRequestError: `location` is set to one that is malformed or outside the allowed locations.
            ForbiddenError: the principal may not alter it.
            NoSuchNamespaceError: it does not exist.
            UnprocessableError: a key is in both lists, or twice in the removals.
            CommitStateUnknownError: they may have been changed.
        """

        def work(finish: Finish[PropertiesUpdated]) -> PropertiesUpdated:
            _check_change(removals, updates)
            _check_location(call, namespace, updates)
            call.check((Privilege.ALTER_SCHEMA, call.on_namespace(namespace)))

            def change(conn: Connection, transaction_id: UUID) -> PropertiesUpdated:
                row = namespaces.get(conn, call.catalog.id, namespace, for_update=True)
                if row is None:
                    raise missing_namespace(namespace)
                removed = [key for key in removals if key in row.properties]
                gone = set(removed)
                changed = {key: value for key, value in row.properties.items() if key not in gone}
                changed.update(updates)
                self._check_properties(changed)
                if changed != row.properties:
                    now_ms = self._clock.now_ms()
                    namespaces.set_properties(conn, row.id, changed, now_ms, call.principal.name)
                missing = [key for key in removals if key not in row.properties]
                answer = PropertiesUpdated(list(updates), removed, missing)
                self._leave_trace(conn, transaction_id)
                finish(conn, answer)
                return answer

            return self._transactions.run(call.catalog.id, change)

        needed = (Privilege.ALTER_SCHEMA, call.on_namespace(namespace))
        return self._keys.run(call, JsonAnswer(PropertiesUpdated), work, needed)

    def _check_properties(self, properties: Mapping[str, str]) -> None:
        check_property_bytes(properties, self._most_property_bytes)
        if "" in properties:
            raise BadRequestError("Invalid properties: a key is empty")

    def _leave_trace(self, conn: Connection, transaction_id: UUID) -> None:
        leave_trace(conn, transaction_id, self._clock.now_ms())

    def _insert_chain(
        self,
        conn: Connection,
        call: Call,
        namespace: Namespace,
        properties: Mapping[str, str],
        refused: Mapping[Namespace, Check],
    ) -> None:
        """Inserts the namespace and the parents it lacks, outermost first, unless one of them is refused."""
        if namespaces.get(conn, call.catalog.id, namespace) is not None:
            raise _existing(namespace)
        parent = None
        made: list[str] = []
        now_ms = self._clock.now_ms()
        owner_id = call.owner(conn)  # of the parents, too
        for depth in range(1, len(namespace) + 1):
            levels = namespace[:depth]
            # in one that was just made, nothing is
            is_known = not made and depth < len(namespace)
            row = namespaces.get(conn, call.catalog.id, levels) if is_known else None
            if row is None:
                made.append(levels[-1])
                if levels in refused:
                    raise call.refusal(refused[levels])
                row = namespaces.NamespaceRow(
                    id=uuids.uuid7(),
                    catalog_id=call.catalog.id,
                    parent_id=parent,
                    physical_name=physical_name(levels),
                    levels=levels,
                    properties=dict(properties) if depth == len(namespace) else {},
                    created_at_ms=now_ms,
                    updated_at_ms=now_ms,
                    owner_id=owner_id,
                    created_by=call.principal.name,
                )
                namespaces.insert(conn, row)
            parent = row.id
        if any(map(may_hold_separator, made)):
            reserved = catalogs.separator(conn, call.catalog.id) or self._separator or ""
            for level in made:
                check_name(level, "namespace level", reserved=reserved)


def _info(call: Call, namespace: Namespace, properties: Mapping[str, str]) -> NamespaceInfo:
    location = namespace_location(call.catalog, namespace, properties)
    return NamespaceInfo(namespace, {**properties, "location": location})


def _existing(namespace: Namespace) -> AlreadyExistsError:
    return AlreadyExistsError(f"Namespace already exists: {'.'.join(namespace)}")


def _not_empty(
    namespace: Namespace, content: Mapping[str, int] = MappingProxyType({})
) -> NamespaceNotEmptyError:
    held = ", ".join(f"{count} {kind if count == 1 else f'{kind}s'}" for kind, count in content.items())
    return NamespaceNotEmptyError(
        f"Namespace {'.'.join(namespace)} is not empty{f': it holds {held}' if held else ''}"
    )


def _check_change(removals: Sequence[str], updates: Mapping[str, str]) -> None:
    both = sorted(set(removals) & set(updates))
    if both:
        raise UnprocessableError(f"Invalid properties: set and removed in one request: {', '.join(both)}")
    if len(set(removals)) != len(removals):
        raise UnprocessableError("Invalid properties: a key is removed twice in one request")


def _check_location(call: Call, namespace: Namespace, properties: Mapping[str, str]) -> None:
    location = properties.get("location")
    try:
        if location is not None:
            is_given = location == namespace_location(call.catalog, namespace, {})
            check_not_chosen(call.catalog, location, {}, is_given=is_given)
            call.catalog.allowed.check(location)
            check_new_location(location)
    except LocationNotAllowedError as error:
        raise BadRequestError(f"Invalid property location: {error.message}") from None
