"""The table format `followed`: tables and views of other catalogs, as a connector read them last."""

from __future__ import annotations

from floecat.entries.formats import IcebergFormat
from floecat.errors import UnsupportedOperationError
from floecat.identifiers.namespace import TableIdentifier
from floecat.store.database.engine import Store
from floecat.store.entries import followed_entries
from floecat.store.entries.tables import EntryRow

__all__ = ["FOLLOWED", "FollowedFormat"]

FOLLOWED = "followed"
"""Name of the format."""


class FollowedFormat(IcebergFormat):
    """Answered as the store has them; a connector brings them up to date."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def check_writable(self, row: EntryRow, identifier: TableIdentifier, /) -> None:
        """Refuses every commit.

        Raises:
            UnsupportedOperationError: always; the message says where the table is written.
        """
        with self._store.read() as conn:
            found = followed_entries.upstream_of(conn, row.id)
        where = "" if found is None else f": commit at {found.address}"
        by = "" if found is None or found.connector is None else f" (connector {found.connector})"
        raise UnsupportedOperationError(
            f"{row.kind.capitalize()} {identifier} follows another catalog and is read-only here{by}{where}"
        )
