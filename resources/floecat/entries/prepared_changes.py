"""A change of one entry, worked out and not yet made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic, Protocol, TypeAlias, TypeVar
from uuid import UUID

import msgspec
import uuid_utils.compat as uuids

from floecat.compression.pieces import Piece
from floecat.entries.calls import EntryKind
from floecat.iceberg.metadata.refs import SnapshotRef
from floecat.iceberg.metadata.snapshots import SnapshotSummary
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.views.metadata import ViewMetadata
from floecat.identifiers.namespace import TableIdentifier
from floecat.store.tables import EntryRow, EntryState

__all__ = ["AnyPrepared", "EncodedDocument", "MetadataDocument", "Prepared", "SnapshotChanges"]


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


class SnapshotChanges(msgspec.Struct, frozen=True):
    """How the snapshot and ref rows of a table follow its metadata."""

    added: Sequence[SnapshotSummary] = ()
    removed_ids: Sequence[int] = ()
    refs: Mapping[str, SnapshotRef] | None = None
    """All refs after the change; `None` when they stay."""


class Prepared(msgspec.Struct, Generic[V_co], frozen=True):
    """The successor of an entry, or a new entry."""

    identifier: TableIdentifier
    kind: EntryKind
    operation: str
    """How the commit log calls it."""
    metadata: V_co
    metadata_location: str
    object_uuid: str
    location: str
    format_version: int
    """Of the Iceberg metadata."""
    base: EntryRow | None
    """The row that is replaced; `None` creates one."""
    namespace_id: UUID
    snapshot_id: int | None = None
    snapshots: SnapshotChanges = SnapshotChanges()
    writes_file: bool = True
    """Whether the metadata file is ours to write; a registered one is there already."""
    completes_staged: bool = False
    """Whether what is staged under the name is used up by this."""
    obsolete_files: Sequence[str] = ()
    """Metadata files that fall out of the log, and go once the change is made."""
    format: str = "iceberg"
    """Format of the table, of a new entry; an entry keeps its format."""
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
