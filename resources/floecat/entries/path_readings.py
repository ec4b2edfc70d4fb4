"""Names whose spelling in a path is ambiguous.

A raw `+` in a path is a plus to clients that follow RFC 3986 and a space to those that form-encode. The
literal reading is tried first, then the other; a path without one costs nothing here.
"""

from __future__ import annotations

from collections.abc import Sequence

from floecat.entries.calls import Catalog
from floecat.identifiers.encoding import SegmentReading
from floecat.identifiers.namespace import Namespace, TableIdentifier
from floecat.store import namespaces, tables
from floecat.store.database.engine import Store

__all__ = ["Resolver"]


class Resolver:
    """Chooses among the readings of a path the one that exists."""

    def __init__(self, store: Store) -> None:
        """Takes the store."""
        self._store = store

    def namespace(self, catalog: Catalog, candidates: Sequence[Namespace]) -> Namespace:
        """The first candidate that exists, else the first one."""
        if len(candidates) > 1:
            with self._store.read() as conn:
                for candidate in candidates:
                    if namespaces.get(conn, catalog.id, candidate) is not None:
                        return candidate
        return candidates[0]

    def entry(
        self, catalog: Catalog, candidates: Sequence[Namespace], name: SegmentReading
    ) -> TableIdentifier:
        """The first reading that names a table or a view, else the first one."""
        readings = [
            TableIdentifier(namespace, spelled)
            for namespace in candidates
            for spelled in ((name.literal,) if name.form is None else (name.literal, name.form))
        ]
        if len(readings) > 1:
            with self._store.read() as conn:
                for reading in readings:
                    if tables.find(conn, catalog.id, reading) is not None:
                        return reading
        return readings[0]
