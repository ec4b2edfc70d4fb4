"""A change of one entry, worked out and not yet made, and the rows that its transaction writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeAlias, TypeVar
from uuid import UUID

import msgspec
import uuid_utils.compat as uuids

from floecat.compression.pieces import Piece
from floecat.entries.calls import Catalog, EntryKind
from floecat.errors import ConflictError
from floecat.iceberg.metadata.properties import table_type
from floecat.iceberg.metadata.refs_and_logs import SnapshotRef
from floecat.iceberg.metadata.snapshots import SnapshotSummary
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.views.view_metadata import ViewMetadata
from floecat.identifiers.encoding import physical_name
from floecat.identifiers.namespace import TableIdentifier
from floecat.storage.catalog_storages import CatalogStorages
from floecat.store.commits import commit_log
from floecat.store.database.engine import Connection
from floecat.store.entries import entry_changes, entry_paths, snapshots, staged_tables, tables
from floecat.store.entries.documents import compress_pieces, has_metadata
from floecat.store.entries.snapshots import RefRow
from floecat.store.entries.tables import EntryRow, EntryState
from floecat.store.jobs import jobs

__all__ = [
    "AnyPrepared",
    "EncodedDocument",
    "MetadataDocument",
    "PointerMovedError",
    "Prepared",
    "SnapshotRowChanges",
    "check_not_purged",
    "compressed",
    "is_purged",
    "write_rows",
]

_PURGE = "purge"


class MetadataDocument(Protocol):
    """A metadata document, encoded."""

    @property
    def size_bytes(self) -> int:
        """Length of the document."""
        ...

    def pieces(self) -> Sequence[Piece]:
        """The document in pieces."""
        ...


class EncodedDocument(msgspec.Struct, frozen=True):
    """A document that is written as it is, without being read."""

    data: bytes

    @property
    def size_bytes(self) -> int:
        """Length of the document."""
        return len(self.data)

    def pieces(self) -> Sequence[Piece]:
        """The document in one piece."""
        return (self.data,)


V_co = TypeVar("V_co", bound=MetadataDocument, covariant=True)


class SnapshotRowChanges(msgspec.Struct, frozen=True):
    """The changes to the snapshot and ref rows of a table as its metadata changes."""

    added: Sequence[SnapshotSummary] = ()
    removed_ids: Sequence[int] = ()
    refs: Mapping[str, SnapshotRef] | None = None
    """All refs after the change; `None` when they stay."""


class Prepared(msgspec.Struct, Generic[V_co], frozen=True):
    """The successor of an entry, or a new entry."""

    identifier: TableIdentifier
    kind: EntryKind
    operation: str
    """Name in the commit log."""
    metadata: V_co
    metadata_location: str
    object_uuid: str
    location: str
    format_version: int
    """Version of the Iceberg metadata."""
    base: EntryRow | None
    """The row that is replaced; `None` creates one."""
    namespace_id: UUID
    snapshot_id: int | None = None
    snapshots: SnapshotRowChanges = SnapshotRowChanges()
    writes_file: bool = True
    """Whether the metadata file is ours to write; a registered one is there already."""
    completes_staged: bool = False
    """Whether this consumes the table that is staged under the name."""
    obsolete_files: Sequence[str] = ()
    """Metadata files that drop out of the metadata log; deleted once the change is made."""
    format: str = "iceberg"
    """Table format of a new entry; an existing one keeps its own."""
    folders: Sequence[str] = ()
    """Folders in object storage that the entry gets beside those it has: see `entries.overlaps`."""
    new_id: UUID = msgspec.field(default_factory=uuids.uuid7)
    """Id of the entry, if it is a new one."""

    @property
    def state(self) -> EntryState:
        """The state of the entry once the change is made."""
        if self.base is None:
            return EntryState(self.new_id, 0, self.metadata_location)
        version = self.base.version + 1 if self.changed else self.base.version
        return EntryState(self.base.id, version, self.metadata_location)

    @property
    def changed(self) -> bool:
        """Whether there is anything to do."""
        return self.base is None or self.base.metadata_location != self.metadata_location


AnyPrepared: TypeAlias = Prepared[TableMetadata] | Prepared[ViewMetadata]
"""A change of a table or of a view."""


class PointerMovedError(Exception):
    """Another commit changed an entry first; the transaction is rolled back."""


def write_rows(
    conn: Connection,
    catalog_id: UUID,
    principal: str,
    changes: Sequence[tuple[Prepared[MetadataDocument], bytes | None]],
    now_ms: int,
    transaction_id: UUID,
    owner: Callable[[Connection], UUID | None] | None = None,
) -> bool:
    """Swaps every pointer and writes what goes with it; the commit log comes last, under the catalog's lock.

    Args:
        conn: a transaction.
        catalog_id: the catalog of all the entries.
        principal: who commits, for the log.
        changes: each with its document as `compressed` makes it; `None` for an entry that does not change.
            That one must still have the version on which its requirements were checked.
        now_ms: the time of the commit.
        transaction_id: names this try in the log.
        owner: gives the owner of new entries.

    Returns:
        Whether a purge may be deleting a batch of files: see `entries.purge_guard`.

    Raises:
        PointerMovedError: a compare-and-set failed.
        DuplicateKeyError: a name is taken.
        ForeignKeyError: the namespace of a new entry was dropped.
    """
    # one lock order over all transactions, so that they never deadlock
    ordered = sorted(changes, key=lambda row: _lock_order(row[0]))
    entries = []
    created_in = {change.namespace_id for change, _ in ordered if change.base is None}
    owner_id = owner(conn) if created_in and owner is not None else None
    for change, body in ordered:
        if body is not None:
            entries.append(_write_row(conn, catalog_id, principal, change, body, now_ms, owner_id))
        elif change.base is not None and not entry_changes.lock(conn, change.base.id, change.base.version):
            raise PointerMovedError
    if not entries:
        return False
    appended = commit_log.append(
        conn, catalog_id, entries, now_ms, transaction_id=transaction_id, contents_of=created_in
    )
    return appended.purging


def check_not_purged(
    conn: Connection, storages: CatalogStorages, catalog: Catalog, change: AnyPrepared
) -> None:
    """Refuses to register files that are being deleted.

    Called after `write_rows`, whose lock on the catalog orders this against the drop that makes the job.

    Raises:
        ConflictError: a purge of the table is open.
    """
    if is_purged(conn, storages, catalog, change, change.metadata_location):
        raise ConflictError(
            f"Cannot register {change.identifier}: the files of {change.metadata_location} are being deleted"
        )


def is_purged(
    conn: Connection,
    storages: CatalogStorages,
    catalog: Catalog,
    change: Prepared[MetadataDocument],
    location: str,
) -> bool:
    """Whether files of a table are being deleted, in a store that its catalog shares.

    Args:
        storages: of all catalogs.
        change: the table; a purge of another table of its UUID counts too.
        location: what a purge job of its format names as its resource.
    """
    for catalog_id in jobs.catalogs_with_open_job(conn, _PURGE, change.object_uuid.lower(), location):
        other = storages.by_id(conn, catalog_id)
        if other is None or catalog.storage.shares(location, other):
            return True
    return False


def compressed(change: Prepared[MetadataDocument]) -> bytes:
    """The document of a change as the store keeps it."""
    return compress_pieces(change.metadata.pieces())


def _lock_order(change: Prepared[MetadataDocument]) -> tuple[bytes, str]:
    return (change.base.id.bytes if change.base else b"\xff" * 16, str(change.identifier))


def _write_row(
    conn: Connection,
    catalog_id: UUID,
    principal: str,
    change: Prepared[MetadataDocument],
    body: bytes,
    now_ms: int,
    owner_id: UUID | None,
) -> commit_log.CommitLogEntry:
    if change.base is None:
        entry_id = _insert(conn, catalog_id, change, body, now_ms, owner_id)
    else:
        entry_id = change.base.id
        _swap(conn, change.base, change, body, now_ms)
    if change.folders:
        entry_paths.add(conn, entry_id, change.folders)
    _write_history(conn, entry_id, change.snapshots, is_new=change.base is None)
    if change.completes_staged:
        identifier = change.identifier
        staged_tables.delete(conn, catalog_id, physical_name(identifier.namespace), identifier.name)
    return commit_log.CommitLogEntry(
        entry_id=entry_id,
        kind=change.kind,
        operation=change.operation,
        namespace=change.identifier.namespace,
        name=change.identifier.name,
        snapshot_id=change.snapshot_id,
        metadata_location=_logged(change.metadata_location),
        previous_metadata_location=_logged(change.base.metadata_location) if change.base else None,
        principal=principal,
    )


def _logged(metadata_location: str) -> str | None:
    return metadata_location if has_metadata(metadata_location) else None


def _write_history(conn: Connection, entry_id: UUID, changes: SnapshotRowChanges, *, is_new: bool) -> None:
    if changes.removed_ids:
        snapshots.delete_many(conn, entry_id, changes.removed_ids)
    if changes.added:
        snapshots.insert_many(conn, entry_id, [snapshots.row_of(summary) for summary in changes.added])
    if changes.refs is not None:
        refs = [RefRow(name, ref.type, ref.snapshot_id) for name, ref in changes.refs.items()]
        write = snapshots.insert_refs if is_new else snapshots.replace_refs
        write(conn, entry_id, refs)


def _insert(
    conn: Connection,
    catalog_id: UUID,
    change: Prepared[MetadataDocument],
    body: bytes,
    now_ms: int,
    owner_id: UUID | None,
) -> UUID:
    row = tables.EntryRow(
        id=change.new_id,
        catalog_id=catalog_id,
        namespace_id=change.namespace_id,
        name=change.identifier.name,
        kind=change.kind,
        object_uuid=change.object_uuid,
        location=change.location,
        metadata_location=change.metadata_location,
        version=change.state.version,
        format_version=change.format_version,
        created_at_ms=now_ms,
        updated_at_ms=now_ms,
        format=change.format,
        owner_id=owner_id,
    )
    metadata = change.metadata
    entry_changes.insert(conn, row, body, metadata.size_bytes, table_type=_table_type(metadata))
    return row.id


def _swap(
    conn: Connection,
    base: tables.EntryRow,
    change: Prepared[MetadataDocument],
    body: bytes,
    now_ms: int,
) -> None:
    swapped = entry_changes.swap(
        conn,
        base.id,
        base.version,
        metadata_location=change.metadata_location,
        document=body,
        size_bytes=change.metadata.size_bytes,
        location=change.location,
        format_version=change.format_version,
        object_uuid=change.object_uuid,
        table_type=_table_type(change.metadata),
        now_ms=now_ms,
    )
    if not swapped:
        raise PointerMovedError


def _table_type(document: MetadataDocument) -> str | None:
    return table_type(document.properties) if isinstance(document, TableMetadata) else None
