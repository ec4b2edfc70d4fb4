"""Listings of the tables or the views of a namespace."""

from __future__ import annotations

from floecat.auth.authorizer import Privilege
from floecat.entries.calls import Call, EntryKind, Page, PageRequest
from floecat.entries.names import missing_namespace
from floecat.entries.paging import Paging
from floecat.identifiers.encoding import physical_name
from floecat.identifiers.namespace import Namespace, TableIdentifier
from floecat.store import namespaces, tables
from floecat.store.database.engine import Store

__all__ = ["EntryListing"]


class EntryListing:
    """Lists entries by name. A listing reads no metadata, so a broken table cannot fail it."""

    def __init__(self, store: Store, paging: Paging) -> None:
        """Takes the store, page sizes and tokens."""
        self._store = store
        self._paging = paging

    def list(
        self, call: Call, namespace: Namespace, kind: EntryKind, page: PageRequest
    ) -> Page[TableIdentifier]:
        """Identifiers of one kind that the principal may see, ordered by name.

        Raises:
            ForbiddenError: the principal may not use the namespace.
            NoSuchNamespaceError: the namespace does not exist.
            BadRequestError: the page token is not one of this listing.
        """
        scope = f"{kind}s|{call.catalog.id}|{physical_name(namespace)}"
        call.check((Privilege.USE_SCHEMA, call.on_namespace(namespace)))
        listed = Privilege.LIST_TABLE if kind == "table" else Privilege.LIST_VIEW
        with self._store.read() as conn:
            row = namespaces.get(conn, call.catalog.id, namespace)
            if row is None:
                raise missing_namespace(namespace)
            return self._paging.page(
                scope,
                page,
                lambda after, limit: [
                    (name, TableIdentifier(namespace, name))
                    for name in tables.list_names(conn, row.id, kind, after, limit)
                ],
                lambda found: call.allowed([(listed, call.on_entry(kind, name)) for name in found]),
            )
