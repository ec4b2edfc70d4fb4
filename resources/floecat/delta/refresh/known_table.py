"""What the catalog holds of a Delta table when a refresh begins."""

from __future__ import annotations

from dataclasses import dataclass, replace

from msgspec.structs import replace as replace_struct

from floecat.delta import delta_rows as delta_tables
from floecat.delta.artifacts.artifact_paths import ArtifactPaths
from floecat.delta.delta_rows import DeltaTableRow
from floecat.delta.refresh.delta_table import CompatTable, DeltaState
from floecat.delta.translation.column_ids import FieldIds
from floecat.errors import NoSuchTableError
from floecat.store import tables
from floecat.store.database.engine import Store
from floecat.store.documents import decompress

__all__ = ["KnownTable", "read_document", "read_known_table"]


@dataclass(frozen=True)
class KnownTable:
    """What the catalog holds of a table.

    Attributes:
        table: the table with its current entry.
        delta: how far its log was read.
        document: table metadata of the entry; None if all versions are to be translated again.
        state: what the newest snapshot was made from; None likewise.
        generation: of the names of the artifacts that are made next.
        vectorized: attribute of the state. It outlives the state, as the data files do.
    """

    table: CompatTable
    delta: DeltaTableRow
    document: bytes | None
    state: DeltaState | None
    generation: int
    vectorized: bool = True

    @property
    def ids(self) -> FieldIds:
        """Field ids of its columns, to be changed."""
        return FieldIds.decode(self.delta.field_ids) if self.delta.field_ids else FieldIds()

    @property
    def paths(self) -> ArtifactPaths:
        """Where its artifacts go: for the life of the table where its first metadata file went."""
        folder = self.table.row.metadata_location.rpartition("/")[0]
        return ArtifactPaths(folder, self.generation)

    def untranslated(self, ids: FieldIds | None = None, *, generation: int | None = None) -> KnownTable:
        """The table without what was translated: the next refresh writes all artifacts under new names.

        Args:
            ids: field ids that its columns get; None for those that they have.
            generation: of the new names; None for the next one.
        """
        delta = self.delta if ids is None else replace_struct(self.delta, field_ids=ids.encode())
        generation = self.generation + 1 if generation is None else generation
        return replace(self, delta=delta, document=None, state=None, generation=generation)


def read_known_table(store: Store, table: CompatTable) -> KnownTable:
    """Reads what the catalog holds now.

    Raises:
        NoSuchTableError: the table was dropped.
    """
    with store.read() as conn:
        row = tables.get(conn, table.row.id)
        delta = delta_tables.get(conn, table.row.id)
    if row is None or delta is None:
        raise NoSuchTableError(f"Table does not exist: {table.identifier}")
    table = CompatTable(row, table.identifier, table.storage, table.principal)
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


def read_document(store: Store, table: CompatTable) -> bytes | None:
    """The table metadata of an entry; None if it has none."""
    with store.read() as conn:
        body = tables.document(conn, table.row.id)
    return decompress(body) if body is not None else None
