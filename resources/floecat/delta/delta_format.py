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
from floecat.store.tables import EntryRow

if TYPE_CHECKING:
    from floecat.delta.refresh.refresh_service import DeltaRefreshService

__all__ = ["DeltaLoads", "DeltaTableService"]

_PAGE = 500


class DeltaLoads:
    """The table format `delta`: read-only, and read from metadata that the engine makes."""

    derives_metadata = True

    def __init__(self, entries: Entries, open_engine: Callable[[], DeltaRefreshService]) -> None:
        """Opens no engine: the first table that has to be looked at does.

        Args:
            entries: look-ups by name.
            open_engine: gives the engine, always the same one.
        """
        self._entries = entries
        self._open_engine = open_engine
        self._engine: DeltaRefreshService | None = None

    def is_current(self, row: EntryRow) -> bool:
        """Whether the entry of a Delta table can be answered as it is."""
        return row.has_metadata and not self.due(row)

    def check_writable(self, identifier: TableIdentifier, /) -> None:
        """Refuses every commit.

        Raises:
            UnsupportedOperationError: always.
        """
        raise UnsupportedOperationError(
            f"Table {identifier} is a Delta table and is read-only here: write it with Delta"
        )

    def due(self, row: EntryRow) -> bool:
        """Whether log and artifacts of a table have to be looked at before its entry is answered."""
        return self._engine is None or self._engine.due(row)

    def current(self, call: Call, entry: Entry[TableMetadata]) -> Entry[TableMetadata] | None:
        """The entry with its newest Delta version; `None` if it was dropped or renamed meanwhile.

        Raises:
            FloecatError: whatever `DeltaRefreshService.refresh` raises. What could not be brought up to date
                is not answered.
        """
        if self.is_current(entry.row):
            return entry
        try:
            changed = self.refresh(call, entry.identifier, entry.row)
        except LeftToPipelineError:
            changed = self._await_pipeline(call, entry)
        if not changed and entry.row.has_metadata:
            return entry
        found = self._entries.find_table(call, entry.identifier, Privilege.READ_TABLE)
        if found is not None and not found.row.has_metadata:
            raise UnavailableError(f"Table {entry.identifier} is just being read for the first time")
        return found

    def refresh(self, call: Call, identifier: TableIdentifier, row: EntryRow) -> bool:
        """Has the engine look at a table now; see `DeltaRefreshService.refresh`."""
        table = self.delta_entry(call.catalog, identifier, row, call.principal.name)
        return self._opened().refresh(table)

    def _await_pipeline(self, call: Call, entry: Entry[TableMetadata]) -> bool:
        table = self.delta_entry(call.catalog, entry.identifier, entry.row, call.principal.name)
        return self._opened().await_pipeline(table)

    def materialise(
        self,
        call: Call,
        identifier: TableIdentifier,
        row: EntryRow,
        progress: Callable[[int, int], None],
    ) -> bool:
        """Has the engine bring in all versions of a table; see `DeltaRefreshService.materialise`."""
        table = self.delta_entry(call.catalog, identifier, row, call.principal.name)
        return self._opened().materialise(table, progress)

    def delta_entry(
        self, catalog: Catalog, identifier: TableIdentifier, row: EntryRow, principal: str
    ) -> DeltaTableEntry:
        """The table as the engine wants it: it alone may write where artifacts go."""
        return DeltaTableEntry(row, identifier, catalog.storage.with_artifacts, principal)

    def _opened(self) -> DeltaRefreshService:
        if self._engine is None:
            self._engine = self._open_engine()
        return self._engine


class DeltaTableService:
    """What operators and the pipeline ask about Delta tables. Readers just load them."""

    def __init__(self, store: Store, loads: DeltaLoads) -> None:
        """Takes the store, and what has tables read."""
        self._store = store
        self._loads = loads

    def list(self, call: Call) -> Iterator[NamedDeltaTable]:
        """The Delta tables of the catalog that the principal may see, in the order of their registration.

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
        """Brings in every version that the log of a table has, however long it takes.

        Args:
            call: who asks.
            identifier: the table.
            progress: told how many versions are done, of how many.

        Returns:
            How far the table is read now.

        Raises:
            ForbiddenError: the principal may not read the table.
            NoSuchTableError: the table does not exist.
            IllegalArgumentError: it is no Delta table.
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
