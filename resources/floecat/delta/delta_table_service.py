"""The Delta tables of a catalog: how far each is read, and reading all of it at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import compress
from uuid import UUID

from floecat.auth.authorizer import Privilege
from floecat.delta import delta_rows as delta_tables
from floecat.delta.delta_format import DeltaLoads
from floecat.delta.delta_rows import DeltaTableRow, NamedDeltaTable
from floecat.entries.calls import Call
from floecat.entries.names import existing_entry, missing_table
from floecat.errors import IllegalArgumentError
from floecat.identifiers.namespace import TableIdentifier
from floecat.store.database.engine import Store
from floecat.store.tables import EntryRow

__all__ = ["DeltaTableService"]

_PAGE = 500


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
