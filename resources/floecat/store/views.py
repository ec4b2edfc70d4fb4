"""Views: entries of the other kind, with the rows and the writes of `floecat.store.tables`."""

from __future__ import annotations

from uuid import UUID

from floecat.identifiers.namespace import TableIdentifier
from floecat.store import tables
from floecat.store.connections import Connection
from floecat.store.tables import EntryRow, EntryState

__all__ = ["find", "list_names", "load"]


def find(conn: Connection, catalog_id: UUID, identifier: TableIdentifier) -> EntryRow | None:
    """The view of this name, without its document; `None` also when a table has the name."""
    return _view(tables.find(conn, catalog_id, identifier))


def load(
    conn: Connection, catalog_id: UUID, identifier: TableIdentifier, known: EntryState | None
) -> EntryRow | None:
    """The view of this name, with its document as `tables.load` gives it."""
    return _view(tables.load(conn, catalog_id, identifier, known))


def list_names(conn: Connection, namespace_id: UUID, after: str | None, limit: int | None) -> list[str]:
    """Names of the views of a namespace, ordered by code points."""
    return tables.list_names(conn, namespace_id, "view", after, limit)


def _view(row: EntryRow | None) -> EntryRow | None:
    return row if row is not None and row.kind == "view" else None
