"""Tables and views of other catalogs that appear here, and stay as they are there.

What a connector finds becomes an entry of the format `followed`, by its metadata document. The entry keeps
its identity while the UUID is the same upstream, also when it is renamed there. What is dropped there is
readable here for a while, and then removed; no file is ever deleted. What was made anew under the same name
is another table, and gets another identity.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple, Protocol
from uuid import UUID

from floecat.auth.authorizer import Privilege
from floecat.catalog.open_catalog import CatalogServices
from floecat.commits.table_registration import checked_table, read_metadata_file, snapshot_changes
from floecat.commits.view_commits import checked_view
from floecat.connectors.followed_format import FOLLOWED
from floecat.connectors.spi import DiscoveredTable, LoadsTables, UpstreamDocument
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
    BadRequestError,
    FloecatError,
    NoSuchTableError,
    NoSuchViewError,
    UnavailableError,
)
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.views.view_metadata import ViewMetadata
from floecat.identifiers.namespace import TableIdentifier
from floecat.store.catalogs.connectors import ConnectorRow
from floecat.store.database.engine import Connection
from floecat.store.database.errors import DuplicateKeyError, ForeignKeyError
from floecat.store.entries import followed_entries, tables
from floecat.store.entries.documents import decompress
from floecat.store.entries.followed_entries import FollowedEntry
from floecat.store.entries.tables import EntryRow

__all__ = ["DropTable", "Followed", "FollowedTables", "Following", "FollowingChange"]

FollowingChange = Literal["new", "changed", "unchanged", "renamed", "gone", "removed"]
"""What a scan did about an entry."""

_ATTEMPTS = 5
_REGISTER: Mapping[EntryKind, Privilege] = {
    "table": Privilege.REGISTER_TABLE,
    "view": Privilege.REGISTER_VIEW,
}


class DropTable(Protocol):
    """The service that removes tables."""

    def __call__(self, call: Call, identifier: TableIdentifier, /, *, purge: bool) -> None:
        """Removes a table; with `purge`, its files go, too."""
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
        document: UpstreamDocument,
        known: FollowedEntry | None,
    ) -> Followed:
        """Makes an entry for a document, or points the one that is known at it.

        Args:
            identifier: name of a new entry.
            known: the entry, whose document has the same UUID.

        Raises:
            FloecatError: the document cannot be taken; nothing was changed.
        """
        if known is None:
            self._namespaces.ensure(call, identifier.namespace)
        for _ in range(_ATTEMPTS):
            change = self._prepared(call, found, identifier, document, known)
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

    def read(self, call: Call, found: DiscoveredTable, document: UpstreamDocument) -> AnyDocument:
        """The document of a table or view, normalised and checked.

        Raises:
            FloecatError: it is none, or names locations that are not allowed.
        """
        allowed, location = call.catalog.allowed, document.metadata_location
        allowed.check(location)
        data = document.document
        if data is None:
            data = read_metadata_file(self._parts.files, call, location)
        return checked_table(call, data) if found.kind == "table" else checked_view(call, data)

    def rename(self, call: Call, known: FollowedEntry, identifier: TableIdentifier) -> None:
        """Gives an entry the name that it has upstream by now.

        Raises:
            FloecatError: the name is taken, or cannot be had.
        """
        self._namespaces.ensure(call, identifier.namespace)
        services = self._tables if known.kind == "table" else self._views
        services.rename(call, known.identifier, identifier)

    def remove(self, call: Call, known: FollowedEntry) -> None:
        """Removes an entry and leaves every file.

        Raises:
            ConflictError: it is protected.
        """
        try:
            if known.kind == "table":
                self._drop_table(call, known.identifier, purge=False)
            else:
                self._views.drop(call, known.identifier)
        except (NoSuchTableError, NoSuchViewError):
            return  # somebody dropped or renamed it meanwhile

    def _prepared(
        self,
        call: Call,
        found: DiscoveredTable,
        identifier: TableIdentifier,
        document: UpstreamDocument,
        known: FollowedEntry | None,
    ) -> AnyPrepared:
        metadata = self.read(call, found, document)
        base, before = (None, None) if known is None else self._current(known.entry_id)
        if base is None:
            namespace_id = namespace_for(self.store, call, found.kind, identifier, _REGISTER[found.kind]).id
            self._check_not_here(call, identifier, metadata)
        else:
            namespace_id = base.namespace_id
            identifier = known.identifier if known is not None else identifier
        location = document.metadata_location
        if isinstance(metadata, ViewMetadata):
            return Prepared(
                identifier=identifier,
                kind="view",
                operation="register" if base is None else "refresh",
                metadata=metadata,
                metadata_location=location,
                object_uuid=metadata.view_uuid,
                location=metadata.location,
                format_version=metadata.format_version,
                base=base,
                folders=entry_folders(metadata.location, metadata.properties, location),
                namespace_id=namespace_id,
                writes_file=False,
                format=FOLLOWED,
            )
        return Prepared(
            identifier=identifier,
            kind="table",
            operation="register" if base is None else "refresh",
            metadata=metadata,
            metadata_location=location,
            object_uuid=metadata.table_uuid,
            location=metadata.location,
            format_version=metadata.format_version,
            base=base,
            folders=entry_folders(metadata.location, metadata.properties, location),
            namespace_id=namespace_id,
            snapshot_id=metadata.current_snapshot_id,
            snapshots=snapshot_changes(before, metadata),
            writes_file=False,
            format=FOLLOWED,
        )

    def _current(self, entry_id: UUID) -> tuple[EntryRow | None, TableMetadata | None]:
        with self.store.read() as conn:
            row = tables.get(conn, entry_id)
            body = tables.document(conn, entry_id) if row is not None else None
        is_table = row is not None and row.kind == "table" and body is not None
        return row, TableMetadata.parse(decompress(body or b"")) if is_table else None

    def _check_not_here(self, call: Call, identifier: TableIdentifier, metadata: AnyDocument) -> None:
        """Refuses a table that the catalog has: its own that comes back, or one of another connector."""
        object_uuid = metadata.view_uuid if isinstance(metadata, ViewMetadata) else metadata.table_uuid
        with self.store.read() as conn:
            here = followed_entries.name_of_uuid(conn, call.catalog.id, object_uuid)
        if here is not None:
            raise AlreadyExistsError(
                f"Cannot follow {identifier}: its UUID is that of {here}, which this catalog has already; two"
                " connectors find it, or it comes from this catalog"
            )

    def _commit(
        self,
        call: Call,
        connector_id: UUID,
        found: DiscoveredTable,
        document: UpstreamDocument,
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


AnyDocument = TableMetadata | ViewMetadata
"""The document of a table or of a view."""


class Following:
    """One scan of a connector that finds tables and views of another catalog."""

    def __init__(
        self, followed: FollowedTables, call: Call, row: ConnectorRow, connector: LoadsTables
    ) -> None:
        """Reads what the connector follows already.

        Args:
            call: who scans; asked whether it may make entries.
            row: the connector.
            connector: loads what is found.
        """
        self._followed = followed
        self._call = call
        self._service = Call.of_service(call.principal.name, call.catalog)
        self._row = row
        self._connector = connector
        with followed.store.read() as conn:
            known = followed_entries.of_connector(conn, row.id)
        self._known = {each.upstream: each for each in known}
        self._by_uuid = {each.object_uuid.lower(): each for each in known}
        self._seen: set[UUID] = set()
        self._moved: list[tuple[DiscoveredTable, FollowedEntry]] = []

    def take(self, found: DiscoveredTable, identifier: TableIdentifier) -> Followed | None:
        """Follows a table or view that was found.

        Args:
            identifier: its name here, if it is new.

        Returns:
            What became of it; `None` if it may have been renamed upstream, which `finish` knows.

        Raises:
            FloecatError: it cannot be followed. An entry that there is stays as it was.
        """
        known = self._known.get(TableIdentifier(found.namespace, found.name))
        if known is None:
            return self._take_new(found, identifier)
        self._seen.add(known.entry_id)
        if found.state is not None and found.state == known.state and known.problem is None:
            return self._unchanged(known)
        try:
            document = self._connector.load(found, known.state if known.problem is None else None)
            if document is None:
                return self._unchanged(known)
            object_uuid = _uuid_of(self._followed.read(self._call, found, document))
            if object_uuid.lower() == known.object_uuid.lower():
                return self._followed.put(self._call, self._row.id, found, known.identifier, document, known)
            self._followed.remove(self._service, known)
            return self._followed.put(self._call, self._row.id, found, identifier, document, None)
        except FloecatError as error:
            self._note_problem(known, error.message)
            raise

    def finish(self, *, is_complete: bool) -> Iterator[Followed | tuple[TableIdentifier, str, FloecatError]]:
        """Renames what was renamed upstream, and marks or removes what is gone.

        Args:
            is_complete: whether everything upstream was found; otherwise nothing is gone.

        Yields:
            What became of each; or its name, its address and why that failed.
        """
        for found, known in self._moved:
            identifier = TableIdentifier((*self._row.namespace, *found.namespace), found.name)
            try:
                yield self._take_moved(found, identifier, known)
            except FloecatError as error:
                yield identifier, found.location, error
        if not is_complete:
            return
        now_ms = self._followed.clock.now_ms()
        missing = [each for each in self._known.values() if each.entry_id not in self._seen]
        newly = [each.entry_id for each in missing if each.gone_at_ms is None]
        if newly:
            self._followed.store.run(lambda conn: followed_entries.set_gone(conn, newly, now_ms))
        for each in missing:
            if now_ms - (each.gone_at_ms or now_ms) < self._followed.grace_ms:
                yield _followed("gone", each)
                continue
            try:
                self._followed.remove(self._service, each)
                yield _followed("removed", each)
            except FloecatError as error:
                yield each.identifier, each.address, error

    def _take_new(self, found: DiscoveredTable, identifier: TableIdentifier) -> Followed | None:
        document = self._connector.load(found, None)
        if document is None:
            raise BadRequestError(f"The connector has no metadata of {identifier}, which is new")
        object_uuid = _uuid_of(self._followed.read(self._call, found, document))
        moved = self._by_uuid.get(object_uuid.lower())
        if moved is not None and moved.entry_id not in self._seen:
            self._moved.append((found, moved))
            return None
        return self._followed.put(self._call, self._row.id, found, identifier, document, None)

    def _take_moved(
        self, found: DiscoveredTable, identifier: TableIdentifier, known: FollowedEntry
    ) -> Followed:
        is_renamed = known.entry_id not in self._seen
        document = self._connector.load(found, None)
        if document is None:
            raise BadRequestError(f"The connector has no metadata of {identifier}, which is new")
        if is_renamed:
            # who renamed it here keeps that name
            if known.identifier == TableIdentifier(
                (*self._row.namespace, *known.upstream.namespace), known.upstream.name
            ):
                self._followed.rename(self._service, known, identifier)
                known = known._replace(identifier=identifier)
            self._seen.add(known.entry_id)
        put = self._followed.put(
            self._call, self._row.id, found, identifier, document, known if is_renamed else None
        )
        return put._replace(change="renamed") if is_renamed else put

    def _unchanged(self, known: FollowedEntry) -> Followed:
        if known.gone_at_ms is not None:
            self._followed.store.run(lambda conn: followed_entries.set_gone(conn, [known.entry_id], None))
        return _followed("unchanged", known)

    def _note_problem(self, known: FollowedEntry, problem: str) -> None:
        since = known.differs_at_ms or self._followed.clock.now_ms()
        if problem != known.problem:
            self._followed.store.run(
                lambda conn: followed_entries.note_problem(conn, known.entry_id, problem[:1000], since)
            )


def _uuid_of(document: AnyDocument) -> str:
    return document.view_uuid if isinstance(document, ViewMetadata) else document.table_uuid


def _followed(change: FollowingChange, known: FollowedEntry) -> Followed:
    return Followed(change, known.identifier, known.entry_id, known.address, known.object_uuid)
