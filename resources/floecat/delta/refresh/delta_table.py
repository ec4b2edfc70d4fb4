"""A Delta table of the catalog, and its state between two refreshes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import msgspec
from msgspec.structs import replace as replace_struct

from floecat.delta import delta_rows as delta_tables
from floecat.delta.artifacts.artifact_paths import ArtifactPaths
from floecat.delta.delta_rows import DeltaTableRow
from floecat.delta.log.log_files import LogFault
from floecat.delta.protocol.actions import Metadata, Protocol
from floecat.delta.translation.column_ids import FieldIds
from floecat.errors import NoSuchTableError
from floecat.fileio.base import FileIO
from floecat.fileio.locations import AllowedLocations
from floecat.identifiers.namespace import TableIdentifier
from floecat.storage.catalog_storage import CatalogStorage
from floecat.store.database.engine import Store
from floecat.store.entries import tables
from floecat.store.entries.documents import decompress
from floecat.store.entries.tables import EntryRow

__all__ = ["DeltaState", "DeltaTableEntry", "KnownTable", "read_document", "read_known_table"]

_MOST_SHOWN: Final = 3


class DeltaTableEntry(msgspec.Struct, frozen=True):
    """A table whose entry has the format `delta`.

    Attributes:
        row: its entry.
        identifier: its name.
        storage: of its catalog, with the locations of artifacts.
        principal: on whose behalf it is refreshed, for the commit log.
    """

    row: EntryRow
    identifier: TableIdentifier
    storage: CatalogStorage
    principal: str

    @property
    def allowed(self) -> AllowedLocations:
        """Locations where its catalog may read and write, those of artifacts included."""
        return self.storage.allowed

    @property
    def files(self) -> FileIO:
        """The storage that holds the table."""
        return self.storage.files(self.row.location)


_TRANSLATION = 1
"""Version of the translation: a table of an older one is translated again."""


class _Kept(msgspec.Struct, frozen=True):
    protocol: Protocol
    history: list[tuple[int, Metadata]]
    complete: bool = False
    has_copies: bool = False
    faults: tuple[LogFault, ...] = ()
    translation: int = 0
    vectorized: bool = True


class _Completeness(msgspec.Struct, frozen=True):
    complete: bool = False
    translation: int = 0


class DeltaState(msgspec.Struct, frozen=True):
    """The state of a table at its newest snapshot, from which the next one is made.

    Attributes:
        version: the newest Delta version that is a snapshot.
        fingerprint: identifies the log file of that version; another one means that the table was replaced.
        protocol: in force at that version.
        history: every metadata that a snapshot has, with the version from which it is in force, oldest first.
        field_ids: ids of current and former columns.
        generation: of the names of artifacts; see `ArtifactPaths`.
        complete: whether every version of the log was tried: those without a snapshot cannot be read.
        has_copies: whether some data files of the newest snapshot may be copies.
        faults: damaged files of the log that were left out.
        is_outdated: whether an older version of the translation made it.
        vectorized: whether Spark's vectorised reader reads right all files whose footers were read.
    """

    version: int
    fingerprint: str
    protocol: Protocol
    history: list[tuple[int, Metadata]]
    field_ids: FieldIds
    generation: int = 0
    complete: bool = False
    has_copies: bool = False
    faults: tuple[LogFault, ...] = ()
    is_outdated: bool = False
    vectorized: bool = True

    @property
    def problem(self) -> str | None:
        """The damage of a readable table, in one sentence for its operator."""
        if not self.faults:
            return None
        shown = "; ".join(fault.message for fault in self.faults[:_MOST_SHOWN])
        return f"Read without damaged files of the log ({len(self.faults)}): {shown}"

    @property
    def metadata(self) -> Metadata:
        """The metadata in force at `version`."""
        return self.history[-1][1]

    def encode(self) -> bytes:
        """The attributes that have no column in the store."""
        translation = 0 if self.is_outdated else _TRANSLATION
        kept = _Kept(
            self.protocol,
            self.history,
            self.complete,
            self.has_copies,
            self.faults,
            translation,
            self.vectorized,
        )
        return msgspec.json.encode(kept)

    @classmethod
    def decode(
        cls, data: bytes, *, version: int, fingerprint: str, field_ids: FieldIds, generation: int
    ) -> DeltaState:
        """The state of `encode` and the columns."""
        kept = msgspec.json.decode(data, type=_Kept)
        return cls(
            version,
            fingerprint,
            kept.protocol,
            kept.history,
            field_ids,
            generation,
            kept.complete,
            kept.has_copies,
            kept.faults,
            kept.translation < _TRANSLATION,
            kept.vectorized,
        )

    @staticmethod
    def is_complete(data: bytes | None) -> bool:
        """Whether nothing is left to do, by the bytes of `encode`; False for a table that was never read."""
        kept = _Completeness() if data is None else msgspec.json.decode(data, type=_Completeness)
        return kept.complete and kept.translation >= _TRANSLATION


@dataclass(frozen=True)
class KnownTable:
    """The catalog's knowledge of a table.

    Attributes:
        table: the table with its current entry.
        delta: how far its log was read.
        document: table metadata of the entry; None if all versions must be translated again.
        state: of the newest snapshot; None in the same case.
        generation: of the names of the artifacts that are made next.
        vectorized: of the state. It outlives the state, as data files do.
    """

    table: DeltaTableEntry
    delta: DeltaTableRow
    document: bytes | None
    state: DeltaState | None
    generation: int
    vectorized: bool = True

    @property
    def ids(self) -> FieldIds:
        """Field ids of its columns, for the caller to change."""
        return FieldIds.decode(self.delta.field_ids) if self.delta.field_ids else FieldIds()

    @property
    def paths(self) -> ArtifactPaths:
        """The paths of its artifacts: always in the folder of the table's first metadata file."""
        folder = self.table.row.metadata_location.rpartition("/")[0]
        return ArtifactPaths(folder, self.generation)

    def untranslated(self, ids: FieldIds | None = None, *, generation: int | None = None) -> KnownTable:
        """The table as if never translated: the next refresh writes all artifacts under new names.

        Args:
            ids: field ids for its columns; None for the present ones.
            generation: of the new names; None for the next one.
        """
        delta = self.delta if ids is None else replace_struct(self.delta, field_ids=ids.encode())
        generation = self.generation + 1 if generation is None else generation
        return replace(self, delta=delta, document=None, state=None, generation=generation)


def read_known_table(store: Store, table: DeltaTableEntry) -> KnownTable:
    """Reads what the catalog holds now.

    Raises:
        NoSuchTableError: the table was dropped.
    """
    with store.read() as conn:
        row = tables.get(conn, table.row.id)
        delta = delta_tables.get(conn, table.row.id)
    if row is None or delta is None:
        raise NoSuchTableError(f"Table does not exist: {table.identifier}")
    table = DeltaTableEntry(row, table.identifier, table.storage, table.principal)
    if delta.version is None or delta.state is None:
        return KnownTable(table, delta, None, None, delta.generation)
    state = DeltaState.decode(
        delta.state,
        version=delta.version,
        fingerprint=delta.log_fingerprint or "",
        field_ids=FieldIds.decode(delta.field_ids),
        generation=delta.generation,
    )
    known = KnownTable(table, delta, read_document(store, table), state, delta.generation, state.vectorized)
    return known.untranslated() if state.is_outdated else known


def read_document(store: Store, table: DeltaTableEntry) -> bytes | None:
    """The table metadata of an entry; None if it has none."""
    with store.read() as conn:
        body = tables.document(conn, table.row.id)
    return decompress(body) if body is not None else None
