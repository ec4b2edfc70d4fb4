"""Delta tables in the catalog: brought up to date before they are loaded, and never committed to."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from floecat.auth.authorizer import Privilege
from floecat.entries.calls import Call, Catalog
from floecat.entries.lookup import Entries, Entry
from floecat.errors import LeftToPipelineError, UnavailableError, UnsupportedOperationError
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.identifiers.namespace import TableIdentifier
from floecat.store.tables import EntryRow

if TYPE_CHECKING:
    from floecat.delta.refresh.delta_table import CompatTable
    from floecat.delta.refresh.refresh_service import DeltaCompat

__all__ = ["DeltaLoads"]


class DeltaLoads:
    """The table format `delta`: read-only, and read from metadata that the engine makes."""

    derives_metadata = True

    def __init__(self, entries: Entries, engine: DeltaCompat | None) -> None:
        """Takes its company.

        Args:
            entries: look-ups by name.
            engine: brings tables up to date; `None` where Delta tables are turned off.
        """
        self._entries = entries
        self._engine = engine

    def check_enabled(self) -> None:
        """Fails where Delta tables are turned off.

        Raises:
            UnsupportedOperationError: they are.
        """
        if self._engine is None:
            raise UnsupportedOperationError(
                "Delta tables are turned off: floecat.gateway.delta-compat.enabled is false"
            )

    def is_current(self, row: EntryRow) -> bool:
        """Whether the entry of a Delta table can be answered as it is."""
        return self._engine is not None and row.has_metadata and not self.due(row)

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
        return self._engine is not None and self._engine.due(row)

    def current(self, call: Call, entry: Entry[TableMetadata]) -> Entry[TableMetadata] | None:
        """The entry with its newest Delta version; `None` if it was dropped or renamed meanwhile.

        Raises:
            UnsupportedOperationError: Delta tables are turned off.
            FloecatError: whatever `DeltaCompat.refresh` raises. What could not be brought up to date is not
                answered.
        """
        self.check_enabled()
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
        """Has the engine look at a table now; see `DeltaCompat.refresh`."""
        self.check_enabled()
        table = self.compat_table(call.catalog, identifier, row, call.principal.name)
        return self._engine is not None and self._engine.refresh(table)

    def _await_pipeline(self, call: Call, entry: Entry[TableMetadata]) -> bool:
        table = self.compat_table(call.catalog, entry.identifier, entry.row, call.principal.name)
        return self._engine is not None and self._engine.await_pipeline(table)

    def materialise(
        self,
        call: Call,
        identifier: TableIdentifier,
        row: EntryRow,
        progress: Callable[[int, int], None],
    ) -> bool:
        """Has the engine bring in all versions of a table; see `DeltaCompat.materialise`."""
        self.check_enabled()
        table = self.compat_table(call.catalog, identifier, row, call.principal.name)
        return self._engine is not None and self._engine.materialise(table, progress)

    def compat_table(
        self, catalog: Catalog, identifier: TableIdentifier, row: EntryRow, principal: str
    ) -> CompatTable:
        """The table as the engine wants it: it alone may write where artifacts go."""
        from floecat.delta.refresh.delta_table import CompatTable

        return CompatTable(row, identifier, catalog.storage.with_artifacts, principal)
