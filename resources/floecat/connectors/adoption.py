"""Adoption: tables and views that follow another catalog become the catalog's own, where they are.

Two catalogs that both take commits to a table lose some of them. So the other catalog has to be told to stop
first, and the adoption looks there before and after: its pointer may not move.
"""

from __future__ import annotations

from uuid import UUID

import msgspec

from floecat.auth.authorizer import Privilege
from floecat.commits.normalized_files import write_normalized
from floecat.commits.table_registration import read_metadata_file
from floecat.connectors.connector_service import ConnectorService
from floecat.connectors.followed_tables import AnyDocument, FollowedTables
from floecat.connectors.one_at_a_time import OneAtATime
from floecat.connectors.spi import DiscoveredTable, LoadsTables
from floecat.entries.calls import Call
from floecat.entries.open_entries import EntryParts
from floecat.entries.prepared_changes import PointerMovedError, Prepared, compressed, write_rows
from floecat.errors import (
    BadRequestError,
    ConflictError,
    NoSuchTableError,
    NoSuchViewError,
    NotFoundError,
)
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.views.view_metadata import ViewMetadata
from floecat.identifiers.namespace import TableIdentifier
from floecat.store.database.engine import Connection
from floecat.store.entries import followed_entries, tables
from floecat.store.entries.documents import decompress
from floecat.store.entries.followed_entries import FollowedEntry

__all__ = ["Adopted", "Adoption"]

_RETRY_AFTER_S = 5


class Adopted(msgspec.Struct, frozen=True):
    """A table or view that is the catalog's own now."""

    identifier: TableIdentifier
    kind: str
    address: str
    """Where the other catalog has it."""
    is_gone: bool
    """Whether the other catalog does not have it any more."""


class Adoption:
    """Makes followed entries own ones. Thread-safe."""

    def __init__(self, parts: EntryParts, services: ConnectorService, followed: FollowedTables) -> None:
        """Puts the service together.

        Args:
            services: open connectors.
            followed: knows the entries.
        """
        self._parts = parts
        self._services = services
        self._followed = followed
        self._turns = OneAtATime(
            "Another table is being adopted: wait for its end", retry_after_s=_RETRY_AFTER_S
        )

    def adopt(self, call: Call, connector: str, identifier: TableIdentifier) -> Adopted:
        """Makes a table or view the catalog's own: it takes commits, and no scan changes it.

        Identity, owner, grants and statistics stay, and so do all files.

        Raises:
            ForbiddenError: the principal may not change connectors, or not register the table.
            NotFoundError: there is no such connector, or it does not follow a table or view of this name.
            ConflictError: the other catalog has a newer state, before or after; or the entry changed
                meanwhile.
            UnavailableError: the account adopts another one now.
            FloecatError: the other catalog cannot be asked.
        """
        with self._turns.of(call.catalog.account_id):
            return self._adopt(call, connector, identifier)

    def _adopt(self, call: Call, connector: str, identifier: TableIdentifier) -> Adopted:
        row = self._services.find(call, connector, Privilege.MANAGE_CONNECTORS)
        with self._parts.store.read() as conn:
            known = followed_entries.of_name(conn, row.id, call.catalog.id, identifier)
        if known is None:
            raise NotFoundError(f"Connector {connector} follows no table or view {identifier}")
        privilege = Privilege.REGISTER_TABLE if known.kind == "table" else Privilege.REGISTER_VIEW
        call.check((privilege, call.on_entry(known.kind, identifier)))
        opened = self._services.open(call, row)
        if not isinstance(opened, LoadsTables):
            raise BadRequestError(f"Connectors of kind {row.kind} follow no catalog")
        is_gone = _is_gone(opened, known)
        self._make_own(call, known)
        if not is_gone and not _still(opened, known):
            raise ConflictError(
                f"{identifier} is adopted, and the other catalog took a commit meanwhile, which is not here:"
                f" compare the two ({known.address}), and stop commits there"
            )
        return Adopted(identifier, known.kind, known.address, is_gone)

    def _make_own(self, call: Call, known: FollowedEntry) -> None:
        with self._parts.store.read() as conn:
            base = tables.get(conn, known.entry_id)
            body = tables.document(conn, known.entry_id)
        if base is None or body is None:
            raise _changed(known.identifier)
        data = decompress(body)
        metadata: AnyDocument = (
            TableMetadata.parse(data) if base.kind == "table" else ViewMetadata.parse(data)
        )
        location = base.metadata_location
        if isinstance(metadata, TableMetadata):
            # readers that open the file must find the document that the catalog answers
            file = read_metadata_file(self._parts.files, call, location)
            if not _is_same(file, data):
                metadata, location = write_normalized(self._parts.files, call, metadata, location)
        change = Prepared(
            identifier=known.identifier,
            kind=known.kind,
            operation="register",
            metadata=metadata,
            metadata_location=location,
            object_uuid=base.object_uuid,
            location=base.location,
            format_version=base.format_version,
            base=base,
            namespace_id=base.namespace_id,
            snapshot_id=metadata.current_snapshot_id if isinstance(metadata, TableMetadata) else None,
            writes_file=False,
        )
        rows = [(change, compressed(change))]

        def work(conn: Connection, transaction_id: UUID) -> bool:
            now_ms = self._parts.clock.now_ms()
            purging = write_rows(conn, call.catalog.id, call.principal.name, rows, now_ms, transaction_id)
            followed_entries.adopt(conn, known.entry_id)
            return purging

        try:
            self._parts.guard.run(call.catalog.id, [change], work)
        except PointerMovedError:
            raise _changed(known.identifier) from None


def _is_same(file: bytes, data: bytes) -> bool:
    """Whether a file holds a document, however it is written."""
    try:
        return bool(msgspec.json.decode(file) == msgspec.json.decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def _is_gone(connector: LoadsTables, known: FollowedEntry) -> bool:
    """Whether the other catalog has dropped it; otherwise it must have no newer state."""
    try:
        if not _still(connector, known):
            raise ConflictError(
                f"The other catalog has a newer state of {known.identifier}: stop commits there, scan the"
                " connector, and adopt then"
            )
    except (NoSuchTableError, NoSuchViewError):
        return True
    return False


def _still(connector: LoadsTables, known: FollowedEntry) -> bool:
    found = DiscoveredTable(
        known.upstream.name,
        known.address,
        known.upstream.namespace,
        format="iceberg",
        kind=known.kind,
    )
    document = connector.load(found, known.state)
    return document is None or document.state == known.state


def _changed(identifier: TableIdentifier) -> ConflictError:
    return ConflictError(f"{identifier} was changed meanwhile; nothing was adopted")
