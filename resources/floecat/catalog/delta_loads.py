"""Delta tables in the catalog: brought up to date before they are loaded, and never committed to."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from floecat.catalog.calls import Call, Catalog
from floecat.catalog.entries import Entries, Entry
from floecat.errors import LeftToPipelineError, UnavailableError, UnsupportedOperationError
from floecat.fileio.locations import AllowedLocations
from floecat.iceberg.metadata import TableMetadata
from floecat.identifiers.namespace import TableIdentifier
from floecat.store.delta_tables import is_unread
from floecat.store.tables import EntryRow

if TYPE_CHECKING:
    from floecat.compat.compat_table import CompatTable

__all__ = ["CompatEngine", "DeltaLoads", "is_delta", "read_only_table", "unread_table"]


class CompatEngine(Protocol):
    """Makes Iceberg metadata of Delta logs; `floecat.compat.service` is one."""

    def due(self, row: EntryRow, /) -> bool:
        """Whether a load has to call `refresh` before it answers an entry; asks neither store nor storage.

        True as long as the last `refresh` of this process failed, and for an entry that it replaced.
        """
        ...

    def refresh(self, table: CompatTable, /) -> bool:
        """Brings the entry up to date with the newest Delta version, and rebuilds files that are missing.

        Returns:
            Whether the entry may be another one than `table.row` now.

        Raises:
            InvalidDeltaTableError: the log breaks its protocol, or a file that it needs is gone.
            UnsupportedDeltaTableError: the table has no exact equal in Iceberg.
            LocationNotAllowedError: the log leads outside the allowed locations.
            LeftToPipelineError: it is too much work for a request.
            UnavailableError: storage or the store is away, or others are still at work on the table.
        """
        ...

    def await_pipeline(self, table: CompatTable, /) -> bool:
        """Waits, for a bounded time, until the entry is another one than `table.row`.

        Returns:
            True.

        Raises:
            LeftToPipelineError: it still is not.
        """
        ...

    def materialise(self, table: CompatTable, progress: Callable[[int, int], None], /) -> bool:
        """Brings in every version that the log has, however long it takes; else as `refresh`.

        Args:
            table: the table.
            progress: told how many versions are done, of how many.
        """
        ...


class DeltaLoads:
    """Stands between loads and the engine."""

    def __init__(self, entries: Entries, engine: CompatEngine | None, compat_location: str | None) -> None:
        """Takes its company.

        Args:
            entries: look-ups by name.
            engine: brings tables up to date; `None` where Delta tables are turned off.
            compat_location: where artifacts go that do not lie beside their table.
        """
        self._entries = entries
        self._engine = engine
        self._compat_location = compat_location

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
        return self._engine is not None and not is_unread(row.metadata_location) and not self.due(row)

    def due(self, row: EntryRow) -> bool:
        """Whether log and artifacts of a table have to be looked at before its entry is answered."""
        return self._engine is not None and self._engine.due(row)

    def current(self, call: Call, entry: Entry[TableMetadata]) -> Entry[TableMetadata] | None:
        """The entry with its newest Delta version; `None` if it was dropped or renamed meanwhile.

        Raises:
            UnsupportedOperationError: Delta tables are turned off.
            FloecatError: whatever `CompatEngine.refresh` raises. What could not be brought up to date is not
                answered.
        """
        self.check_enabled()
        if self.is_current(entry.row):
            return entry
        try:
            changed = self.refresh(call, entry.identifier, entry.row)
        except LeftToPipelineError:
            changed = self._await_pipeline(call, entry)
        if not changed and not is_unread(entry.row.metadata_location):
            return entry
        found = self._entries.find_table(call.catalog, entry.identifier)
        if found is not None and is_unread(found.row.metadata_location):
            raise UnavailableError(f"Table {entry.identifier} is just being read for the first time")
        return found

    def refresh(self, call: Call, identifier: TableIdentifier, row: EntryRow) -> bool:
        """Has the engine look at a table now; see `CompatEngine.refresh`."""
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
        """Has the engine bring in all versions of a table; see `CompatEngine.materialise`."""
        self.check_enabled()
        table = self.compat_table(call.catalog, identifier, row, call.principal.name)
        return self._engine is not None and self._engine.materialise(table, progress)

    def compat_table(
        self, catalog: Catalog, identifier: TableIdentifier, row: EntryRow, principal: str
    ) -> CompatTable:
        """The table as the engine wants it: it alone may write where artifacts go."""
        from floecat.compat.compat_table import CompatTable

        return CompatTable(row, identifier, self._allowed(catalog), principal)

    def _allowed(self, catalog: Catalog) -> AllowedLocations:
        if self._compat_location is None:
            return catalog.allowed
        return AllowedLocations((*map(str, catalog.allowed.roots), self._compat_location))


def is_delta(row: EntryRow) -> bool:
    """Whether an entry is a Delta table."""
    return row.format == "delta"


def read_only_table(identifier: TableIdentifier) -> UnsupportedOperationError:
    """The error for a commit to a Delta table."""
    return UnsupportedOperationError(
        f"Table {identifier} is a Delta table and is read-only here: write it with Delta"
    )


def unread_table(identifier: TableIdentifier) -> UnsupportedOperationError:
    """The error for who wants the metadata of a Delta table that was never read."""
    return UnsupportedOperationError(
        f"Table {identifier} is a Delta table that was never read, so it has no metadata yet:"
        " load it first, or drop it"
    )
