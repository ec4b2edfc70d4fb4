"""Names whose spelling in a path is ambiguous.

A raw `+` in a path is a plus to clients that follow RFC 3986 and a space to those that form-encode. The
literal reading is tried first, then the other; a path without one costs nothing here. A reading that the
principal may not know of counts as missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

from floecat.auth.authorizer import Privilege
from floecat.entries.calls import Call
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

    def namespace(self, call: Call, candidates: Sequence[Namespace]) -> Namespace:
        """The first candidate that exists, else the first one."""
        if len(candidates) > 1:
            allowed = call.allowed(
                [(Privilege.LIST_SCHEMA, call.on_namespace(candidate)) for candidate in candidates]
            )
            with self._store.read() as conn:
                for candidate in compress(candidates, allowed):
                    if namespaces.get(conn, call.catalog.id, candidate) is not None:
                        return candidate
        return candidates[0]

    def entry(self, call: Call, candidates: Sequence[Namespace], name: SegmentReading) -> TableIdentifier:
        """The first reading that names a table or a view, else the first one."""
        readings = [
            TableIdentifier(namespace, spelled)
            for namespace in candidates
            for spelled in ((name.literal,) if name.form is None else (name.literal, name.form))
        ]
        if len(readings) > 1:
            allowed = call.allowed(
                [
                    check
                    for reading in readings
                    for check in (
                        (Privilege.LIST_TABLE, call.on_entry("table", reading)),
                        (Privilege.LIST_VIEW, call.on_entry("view", reading)),
                    )
                ]
            )
            with self._store.read() as conn:
                for reading, *kinds in zip(readings, allowed[::2], allowed[1::2], strict=True):
                    row = tables.find(conn, call.catalog.id, reading) if any(kinds) else None
                    if row is not None and kinds[row.kind == "view"]:
                        return reading
        return readings[0]
