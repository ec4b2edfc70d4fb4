"""Tables and views of other catalogs that appear here, and stay as they are there.

What a connector finds becomes an entry of the format `followed`, by its metadata document. The entry keeps
its identity while the UUID is the same upstream, also when it is renamed there. What is dropped there is
readable here for a while, and then removed; no file is ever deleted. What was made anew under the same name
is another table, and gets another identity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, Protocol
from uuid import UUID

from floecat.auth.authorizer import Privilege
from floecat.catalog.open_catalog import CatalogServices
from floecat.commits.table_registration import checked_table, read_metadata_file, snapshot_changes
from floecat.commits.view_commits import checked_view
from floecat.connectors.followed_format import FOLLOWED
from floecat.connectors.spi import DiscoveredTable, UpstreamDocument
from floecat.entries.calls import Call, EntryKind
from floecat.entries.names import namespace_for
from floecat.entries.open_entries import EntryParts
from floecat.entries.overlaps import entry_folders
from floecat.entries.prepared_changes import (
    AnyPrepared,
    PointerMovedError,
    Prepared,
    check_not_purged,
    compressed,
    write_rows,
)
from floecat.errors import (
    AlreadyExistsError,
    ConflictError,
    NoSuchTableError,
    NoSuchViewError,
    UnavailableError,
)
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.views.view_metadata import ViewMetadata
from floecat.identifiers.namespace import TableIdentifier
from floecat.store.database.engine import Connection
from floecat.store.database.errors import DuplicateKeyError, ForeignKeyError
from floecat.store.entries import followed_entries, tables
from floecat.store.entries.documents import decompress
from floecat.store.entries.followed_entries import FollowedEntry
from floecat.store.entries.tables import EntryRow
from floecat.working_memory import take_memory

__all__ = [
    "AnyDocument",
    "DropTable",
    "FetchedDocument",
    "Followed",
    "FollowedTables",
    "FollowingChange",
    "uuid_of",
]

FollowingChange = Literal["new", "changed", "unchanged", "renamed", "gone", "removed"]
"""What a scan did about an entry."""

_ATTEMPTS = 5
_REGISTER: Mapping[EntryKind, Privilege] = {
    "table": Privilege.REGISTER_TABLE,
    "view": Privilege.REGISTER_VIEW,
}


AnyDocument = TableMetadata | ViewMetadata
"""The document of a table or of a view."""


class DropTable(Protocol):
    """The service that removes tables."""

    def __call__(
        self, call: Call, identifier: TableIdentifier, /, *, purge: bool, check: Callable[[EntryRow], None]
    ) -> None:
        """Removes a table that `check` does not refuse; with `purge`, its files go, too."""
        ...


class Followed(NamedTuple):
    """What became of a table or view."""

    change: FollowingChange
    identifier: TableIdentifier
    """Its name here."""
    entry_id: UUID
    address: str
    object_uuid: str
    snapshot_id: int | None = None
    """Current snapshot, where the document was read."""


class FetchedDocument(NamedTuple):
    """A document of another catalog, not looked at yet."""

    metadata_location: str
    state: str
    """See `UpstreamDocument.state`."""
    data: bytes

    def read(self, call: Call, kind: EntryKind) -> AnyDocument:
        """The document, normalised and checked.

        Raises:
            FloecatError: it is none, or names locations that are not allowed.
        """
        return checked_table(call, self.data) if kind == "table" else checked_view(call, self.data)


class FollowedTables:
    """Makes, changes and removes entries that follow other catalogs. Thread-safe."""

    def __init__(
        self,
        parts: EntryParts,
        catalog: CatalogServices,
        drop_table: DropTable,
        *,
        grace_ms: int,
    ) -> None:
        """Puts the service together.

        Args:
            catalog: makes namespaces, renames and drops.
            drop_table: removes a table.
            grace_ms: how long an entry stays that is gone upstream.
        """
        self.store = parts.store
        self.clock = parts.clock
        self._parts = parts
        self._namespaces = catalog.namespaces
        self._tables = catalog.tables
        self._views = catalog.views
        self._drop_table = drop_table
        self.grace_ms = grace_ms

    def put(
        self,
        call: Call,
        connector_id: UUID,
        found: DiscoveredTable,
        identifier: TableIdentifier,
        document: FetchedDocument,
        metadata: AnyDocument,
        known: FollowedEntry | None,
    ) -> Followed:
        """Makes an entry for a document, or points the one that is known at it.

        Args:
            identifier: name of a new entry.
            document: as it was fetched.
            metadata: what its `read` made of it.
            known: the entry, whose document has the same UUID.

        Raises:
            FloecatError: the document cannot be taken; nothing was changed.
        """
        if known is None:
            self._namespaces.ensure(call, identifier.namespace)
        for _ in range(_ATTEMPTS):
            change = self._prepared(call, found, identifier, document.metadata_location, metadata, known)
            if self._commit(call, connector_id, found, document, change):
                made: FollowingChange = (
                    "new" if change.base is None else "changed" if change.changed else "unchanged"
                )
                entry_id = change.state.id
                return Followed(
                    made,
                    change.identifier,
                    entry_id,
                    found.location,
                    change.object_uuid,
                    change.snapshot_id,
                )
        raise UnavailableError(f"{identifier} keeps being changed by others; nothing was changed")

    def fetch(self, call: Call, document: UpstreamDocument) -> FetchedDocument:
        """The bytes of a document, read at its location unless the connector has them.

        Raises:
            FloecatError: its location is not allowed, or there is nothing.
        """
        location, data = document.metadata_location, document.document
        call.catalog.allowed.check(location)
        if data is None:
            data = read_metadata_file(self._parts.files, call, location)
        else:
            take_memory(len(data))
        return FetchedDocument(location, document.state, data)

    def rename(self, call: Call, known: FollowedEntry, identifier: TableIdentifier) -> None:
        """Gives an entry the name that it has upstream by now.

        Raises:
            FloecatError: the name is taken, or cannot be had.
        """
        row, _ = self.current(known.entry_id)
        if row is None or row.format != FOLLOWED:
            raise ConflictError(f"{known.identifier} was dropped or adopted meanwhile")
        self._namespaces.ensure(call, identifier.namespace)
        services = self._tables if known.kind == "table" else self._views
        services.rename(call, known.identifier, identifier)

    def remove(self, call: Call, known: FollowedEntry) -> None:
        """Removes an entry and leaves every file.

        Raises:
            ConflictError: it is protected.
        """

        def check(row: EntryRow) -> None:
            if row.id != known.entry_id or row.format != FOLLOWED:
                raise NoSuchTableError(f"{known.identifier} is another one, or was adopted")

        try:
            if known.kind == "table":
                self._drop_table(call, known.identifier, purge=False, check=check)
            else:
                self._views.drop(call, known.identifier, check=check)
        except (NoSuchTableError, NoSuchViewError):
            return  # somebody dropped, renamed or adopted it meanwhile

    def _prepared(
        self,
        call: Call,
        found: DiscoveredTable,
        identifier: TableIdentifier,
        location: str,
        metadata: AnyDocument,
        known: FollowedEntry | None,
    ) -> AnyPrepared:
        base, before = (None, None) if known is None else self.current(known.entry_id)
        if base is None:
            namespace_id = namespace_for(self.store, call, found.kind, identifier, _REGISTER[found.kind]).id
            self._check_not_here(call, identifier, metadata)
        else:
            if base.format != FOLLOWED:
                raise ConflictError(f"{identifier} was adopted meanwhile, and follows no catalog any more")
            namespace_id = base.namespace_id
            identifier = known.identifier if known is not None else identifier
        common: dict[str, Any] = {
            "identifier": identifier,
            "kind": found.kind,
            "operation": "register" if base is None else "refresh",
            "metadata": metadata,
            "metadata_location": location,
            "object_uuid": uuid_of(metadata),
            "location": metadata.location,
            "format_version": metadata.format_version,
            "base": base,
            "folders": entry_folders(metadata.location, metadata.properties, location),
            "namespace_id": namespace_id,
            "writes_file": False,
            "format": FOLLOWED,
        }
        if isinstance(metadata, ViewMetadata):
            return Prepared(**common)
        changes = snapshot_changes(before, metadata)
        return Prepared(**common, snapshot_id=metadata.current_snapshot_id, snapshots=changes)

    def current(self, entry_id: UUID) -> tuple[EntryRow | None, TableMetadata | None]:
        """An entry and, of a table, its document; `None` if it was dropped."""
        with self.store.read() as conn:
            row = tables.get(conn, entry_id)
            body = tables.document(conn, entry_id) if row is not None else None
        is_table = row is not None and row.kind == "table" and body is not None
        return row, TableMetadata.parse(decompress(body or b"")) if is_table else None

    def _check_not_here(self, call: Call, identifier: TableIdentifier, metadata: AnyDocument) -> None:
        """Refuses a table that the catalog has: its own that comes back, or one of another connector."""
        with self.store.read() as conn:
            here = followed_entries.name_of_uuid(conn, call.catalog.id, uuid_of(metadata))
        if here is not None:
            raise AlreadyExistsError(
                f"Cannot follow {identifier}: its UUID is that of {here}, which this catalog has already: two"
                " connectors find it, it comes from here, or it was adopted and is still there"
            )

    def _commit(
        self,
        call: Call,
        connector_id: UUID,
        found: DiscoveredTable,
        document: FetchedDocument,
        change: AnyPrepared,
    ) -> bool:
        """Tries once; `False` if the name, the entry or the namespace was changed meanwhile."""
        rows = [(change, compressed(change))] if change.changed else []
        entry_id, is_new = change.state.id, change.base is None

        def work(conn: Connection, transaction_id: UUID) -> bool:
            purging = bool(rows) and write_rows(
                conn,
                call.catalog.id,
                call.principal.name,
                rows,
                self.clock.now_ms(),
                transaction_id,
                call.owner,
            )
            if is_new:
                # after `write_rows`: its lock on the catalog orders this against the drop that makes the job
                check_not_purged(conn, self._parts.storages, call.catalog, change)
            if rows:
                self._parts.overlaps.check(conn, call.catalog, {entry_id: change.folders})
            upstream = TableIdentifier(found.namespace, found.name)
            followed_entries.put(
                conn,
                entry_id,
                connector_id,
                upstream,
                found.location,
                document.state,
                is_new=is_new,
            )
            return purging

        try:
            if rows:
                self._parts.guard.run(call.catalog.id, [change], work)
            else:
                self.store.run(lambda conn: work(conn, entry_id))
        except (PointerMovedError, DuplicateKeyError, ForeignKeyError):
            return False
        return True


def uuid_of(document: AnyDocument) -> str:
    """The UUID of a table or view."""
    return document.view_uuid if isinstance(document, ViewMetadata) else document.table_uuid
