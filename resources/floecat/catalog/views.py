"""Views as entries: listing, existence, loading, rename, removal."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from floecat.auth.authorizer import Privilege
from floecat.catalog.load_table import etag_of
from floecat.credentials.vending import Vending
from floecat.entries.calls import Call, LoadedView, Page, PageRequest
from floecat.entries.drops_and_renames import DropsAndRenames
from floecat.entries.idempotency_keys import Finish, IdempotencyKeys, JsonAnswer
from floecat.entries.listing import EntryListing
from floecat.entries.lookup import Entries
from floecat.entries.names import existing_entry, missing_view
from floecat.identifiers.namespace import Namespace, TableIdentifier
from floecat.store.database.engine import Connection, Store
from floecat.store.entries import tables

__all__ = ["ViewService"]


class ViewService:
    """Everything about views that writes no metadata."""

    def __init__(
        self,
        store: Store,
        entries: Entries,
        listing: EntryListing,
        changes: DropsAndRenames,
        keys: IdempotencyKeys,
        vending: Vending,
    ) -> None:
        self._store = store
        self._entries = entries
        self._listing = listing
        self._changes = changes
        self._keys = keys
        self._vending = vending

    def list(self, call: Call, namespace: Namespace, page: PageRequest) -> Page[TableIdentifier]:
        """Views of a namespace, by name.

        Raises:
            NoSuchNamespaceError: the namespace does not exist.
        """
        return self._listing.list(call, namespace, "view", page)

    def list_all(self, call: Call, within: Namespace = ()) -> Iterator[tables.ListedTable]:
        """The views of all namespaces that the principal may see; see `EntryListing.list_all`."""
        return self._listing.list_all(call, "view", within)

    def exists(self, call: Call, identifier: TableIdentifier) -> None:
        """Fails unless the view exists.

        Raises:
            ForbiddenError: the principal may not read it.
            NoSuchViewError: it does not.
        """
        existing_entry(self._store, call, "view", identifier, Privilege.READ_VIEW)

    def load(self, call: Call, identifier: TableIdentifier) -> LoadedView:
        """A view by name.

        Raises:
            ForbiddenError: the principal may not read it.
            NoSuchViewError: the view, or its namespace, does not exist.
        """
        entry = self._entries.find_view(call, identifier, Privilege.READ_VIEW)
        if entry is None:
            raise missing_view(identifier)
        return LoadedView(
            entry.document.data,
            entry.row.metadata_location,
            self._vending.config(call, entry.row.location, entry.access_version),
            etag_of(entry.row.state, labels=entry.labels),
            entry.labels,
        )

    def rename(self, call: Call, source: TableIdentifier, destination: TableIdentifier) -> None:
        """Renames or moves a view; see `DropsAndRenames.rename`."""

        def work(finish: Finish[None]) -> None:
            self._changes.rename(call, source, destination, "view", lambda conn: finish(conn, None))

        self._keys.run(call, JsonAnswer(type(None)), work)

    def drop(
        self,
        call: Call,
        identifier: TableIdentifier,
        check: Callable[[tables.EntryRow], None] = lambda _row: None,
    ) -> None:
        """Removes the entry and leaves its metadata files.

        Args:
            check: raises if the view is not the one that is meant; called in the transaction.

        Raises:
            ForbiddenError: the principal may not drop it.
            NoSuchViewError: the view does not exist.
        """

        def work(finish: Finish[None]) -> None:
            def within(conn: Connection, row: tables.EntryRow) -> None:
                check(row)
                finish(conn, None)

            self._changes.remove(call, identifier, "view", [Privilege.DROP_VIEW], "drop", within)

        self._keys.run(call, JsonAnswer(type(None)), work)
