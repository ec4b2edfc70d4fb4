"""Delta tables in the catalog: brought up to date before they are loaded, and never committed to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import compress
from typing import TYPE_CHECKING
from uuid import UUID

from floecat.auth.authorizer import Privilege
from floecat.delta import delta_rows as delta_tables
from floecat.delta.delta_rows import DeltaTableRow, NamedDeltaTable
from floecat.delta.refresh.delta_table import DeltaTableEntry
from floecat.entries.calls import Call, Catalog
from floecat.entries.lookup import Entries, Entry
from floecat.entries.names import existing_entry, missing_table
from floecat.errors import (
    IllegalArgumentError,
    LeftToPipelineError,
    UnavailableError,
    UnsupportedOperationError,
)
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.identifiers.namespace import TableIdentifier
from floecat.store.database.engine import Store
from floecat.store.entries.tables import EntryRow

if TYPE_CHECKING:
    from floecat.delta.refresh.refresh_service import DeltaRefreshService

__all__ = ["DeltaLoads", "DeltaTableService"]

_PAGE = 500


class DeltaLoads:
    """The table format `delta`: read-only, with metadata that the engine makes."""

    files_have_partition_columns = False

    def __init__(self, entries: Entries, open_engine: Callable[[], DeltaRefreshService]) -> None:
        """`open_engine` returns the one engine; the first table that must be refreshed calls it."""
        self._entries = entries
        self._open_engine = open_engine
        self._engine: DeltaRefreshService | None = None

    def is_current(self, row: EntryRow) -> bool:
        """Whether the entry of a Delta table can be answered without a refresh."""
        return row.has_metadata and not self.due(row)

    def check_writable(self, _row: EntryRow, identifier: TableIdentifier, /) -> None:
        """Refuses every commit.

        Raises:
            UnsupportedOperationError: always.
        """
        raise UnsupportedOperationError(
            f"Table {identifier} is a Delta table and is read-only here: write it with Delta"
        )

    def due(self, row: EntryRow) -> bool:
        """Whether the log and artifacts of a table must be checked before its entry is answered."""
        return self._engine is None or self._engine.due(row)

    def current(self, call: Call, entry: Entry[TableMetadata]) -> Entry[TableMetadata] | None:
        """The entry with its newest Delta version; `None` if it was dropped or renamed meanwhile.

        Raises:
            FloecatError: as `DeltaRefreshService.refresh`. A stale entry is never answered.
        """
        if self.is_current(entry.row):
            return entry
        try:
            changed = self.refresh(call, entry.identifier, entry.row)
        except LeftToPipelineError as refusal:
            changed = self._await_pipeline(call, entry, refusal)
        if not changed and entry.row.has_metadata:
            return entry
        found = self._entries.find_table(call, entry.identifier, Privilege.READ_TABLE)
        if found is not None and not found.row.has_metadata:
            raise UnavailableError(f"Table {entry.identifier} is being read for the first time")
        return found

    def refresh(self, call: Call, identifier: TableIdentifier, row: EntryRow) -> bool:
        """See `DeltaRefreshService.refresh`."""
        table = self.delta_entry(call.catalog, identifier, row, call.principal.name)
        return self._opened().refresh(table)

    def _await_pipeline(self, call: Call, entry: Entry[TableMetadata], refusal: LeftToPipelineError) -> bool:
        table = self.delta_entry(call.catalog, entry.identifier, entry.row, call.principal.name)
        return self._opened().await_pipeline(table, refusal)

    def materialise(
        self,
        call: Call,
        identifier: TableIdentifier,
        row: EntryRow,
        progress: Callable[[int, int], None],
    ) -> bool:
        """See `DeltaRefreshService.materialise`."""
        table = self.delta_entry(call.catalog, identifier, row, call.principal.name)
        return self._opened().materialise(table, progress)

    def delta_entry(
        self, catalog: Catalog, identifier: TableIdentifier, row: EntryRow, principal: str
    ) -> DeltaTableEntry:
        """The table for the engine, which alone may write to the locations of artifacts."""
        return DeltaTableEntry(row, identifier, catalog.storage.with_artifacts, principal)

    def _opened(self) -> DeltaRefreshService:
        if self._engine is None:
            self._engine = self._open_engine()
        return self._engine


class DeltaTableService:
    """Delta tables for operators and the pipeline. Readers just load them."""

    def __init__(self, store: Store, loads: DeltaLoads) -> None:
        self._store = store
        self._loads = loads

    def list(self, call: Call) -> Iterator[NamedDeltaTable]:
        """The Delta tables of the catalog that the principal may see, in order of registration.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        after: UUID | None = None
        while True:
            with self._store.read() as conn:
                page = delta_tables.list_all(conn, call.catalog.id, after, _PAGE)
            names = [TableIdentifier(table.namespace, table.name) for table in page]
            yield from compress(
                page, call.allowed([(Privilege.LIST_TABLE, call.on_entry("table", name)) for name in names])
            )
            if len(page) < _PAGE:
                return
            after = page[-1].entry_id

    def materialise(
        self, call: Call, identifier: TableIdentifier, progress: Callable[[int, int], None]
    ) -> DeltaTableRow:
        """Adds every version of the log of a table, however long it takes.

        Args:
            progress: called with the number of versions done, and of all.

        Returns:
            The table with its newest version.

        Raises:
            ForbiddenError: the principal may not read the table.
            NoSuchTableError: the table does not exist.
            IllegalArgumentError: it is not a Delta table.
            FloecatError: the log cannot be read; see `DeltaRefreshService`.
        """
        row = self._row(call, identifier)
        self._loads.materialise(call, identifier, row, progress)
        with self._store.read() as conn:
            delta = delta_tables.get(conn, row.id)
        if delta is None:
            raise missing_table(identifier)
        return delta

    def _row(self, call: Call, identifier: TableIdentifier) -> EntryRow:
        row = existing_entry(self._store, call, "table", identifier, Privilege.READ_TABLE)
        if row.format != "delta":
            raise IllegalArgumentError(f"Table {identifier} is not a Delta table")
        return row
