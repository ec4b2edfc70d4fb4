"""Snapshots of tables, as requests name them."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from floecat.auth.authorizer import Privilege
from floecat.entries.calls import Call, PageRequest
from floecat.entries.lookup import Entries, Entry
from floecat.entries.names import missing_table
from floecat.errors import NotFoundError
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.identifiers.namespace import TableIdentifier
from floecat.planning.table_states import CurrentTables, named_snapshot_id

__all__ = [
    "ALL",
    "LARGEST_PAGE",
    "Snapshots",
    "TableSnapshot",
    "size_of",
]

LARGEST_PAGE = 1_000
"""Records in one answer."""

ALL = PageRequest()
"""The first page, as large as pages may be."""

_LAST_ID = 2**63 - 1
_LONGEST_ID = len(str(_LAST_ID))


class TableSnapshot(NamedTuple):
    """A snapshot of a table."""

    entry: Entry[TableMetadata]
    snapshot_id: int

    @property
    def entry_id(self) -> UUID:
        """The table."""
        return self.entry.row.id


class Snapshots:
    """Looks snapshots up."""

    def __init__(self, entries: Entries, tables: CurrentTables) -> None:
        self._entries = entries
        self._tables = tables

    def read(self, call: Call, identifier: TableIdentifier, snapshot: str | None) -> TableSnapshot:
        """A snapshot of a table, brought up to date.

        Args:
            snapshot: an id, or the name of a branch or tag; `None` for the current one.

        Raises:
            ForbiddenError: the principal may not read the table.
            NoSuchTableError: the table does not exist.
            NotFoundError: it has no such snapshot.
        """
        return _resolve(self.table(call, identifier), snapshot)

    def table(self, call: Call, identifier: TableIdentifier) -> Entry[TableMetadata]:
        """A table, brought up to date.

        Raises:
            ForbiddenError: the principal may not read the table.
            NoSuchTableError: the table does not exist.
        """
        return self._tables.load(call, identifier)

    def write(
        self, call: Call, identifier: TableIdentifier, snapshot: str | None, *, strict: bool = True
    ) -> TableSnapshot:
        """A snapshot of a table of which something is put.

        Args:
            snapshot: as of `read`.
            strict: whether the table must have the snapshot; otherwise an unknown id is taken too.

        Raises:
            ForbiddenError: the principal may not write the table.
            NoSuchTableError: the table does not exist.
            NotFoundError: it has no such snapshot.
        """
        entry = self._entries.find_table(call, identifier, Privilege.WRITE_TABLE)
        if entry is None:
            raise missing_table(identifier)
        is_id = snapshot is not None and snapshot.isdecimal() and len(snapshot) <= _LONGEST_ID
        if not strict and snapshot is not None and is_id and int(snapshot) <= _LAST_ID:
            return TableSnapshot(entry, int(snapshot))
        return _resolve(entry, snapshot)


def size_of(request: PageRequest) -> int:
    """The number of records in a page."""
    return min(request.size or LARGEST_PAGE, LARGEST_PAGE)


def _resolve(entry: Entry[TableMetadata], snapshot: str | None) -> TableSnapshot:
    found = named_snapshot_id(entry.document.parsed(), snapshot) if entry.row.has_metadata else None
    if found is None:
        raise NotFoundError(f"Table {entry.identifier} has no snapshot")
    return TableSnapshot(entry, found)
