"""What the pipeline finds and makes. Loads without what reads Delta logs, as Dagster's definitions do."""

from __future__ import annotations

from uuid import UUID

import msgspec

__all__ = ["BrokenTable", "DeltaTable", "Look", "Materialised", "PendingTable", "TablePosition"]


class TablePosition(msgspec.Struct, frozen=True, order=True):
    """A place in the order of all Delta tables."""

    catalog_id: UUID
    entry_id: UUID


class DeltaTable(msgspec.Struct, frozen=True):
    """A Delta table under its name."""

    entry_id: UUID
    name: str
    """Catalog, namespace levels and name, joined by dots."""
    position: TablePosition


class PendingTable(msgspec.Struct, frozen=True):
    """A table that has something to do."""

    entry_id: UUID
    name: str
    position: TablePosition
    version: int
    """The newest version of its log."""
    state: str
    """The version, and what tells its log file, and what was made of it, from others."""
    reason: str
    """`unread`, `behind`, `replaced` (another table lies there now) or `incomplete` (older versions miss)."""


class BrokenTable(msgspec.Struct, frozen=True):
    """A table whose log could not be looked at."""

    entry_id: UUID
    name: str
    problem: str


class Look(msgspec.Struct, frozen=True):
    """What a look at some tables found."""

    looked: int
    """Number of tables."""
    pending: tuple[PendingTable, ...]
    broken: tuple[BrokenTable, ...]
    next: TablePosition | None
    """Where the next look goes on; `None` after the last table."""


class Materialised(msgspec.Struct, frozen=True):
    """A table after the work."""

    entry_id: UUID
    name: str
    changed: bool
    """Whether the entry is another one than before."""
    version: int
    """The Delta version that is current."""
    versions: int
    """How many versions are snapshots."""
    format_version: int
    location: str
    """Root of the table."""
    metadata_location: str
