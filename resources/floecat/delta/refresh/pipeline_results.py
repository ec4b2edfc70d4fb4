"""Results of `DeltaPipeline`. Imports no log reader, so that Dagster's definitions load fast."""

from __future__ import annotations

from uuid import UUID

import msgspec

__all__ = ["BrokenTable", "DeltaTable", "Look", "Materialised", "PendingTable", "TablePosition"]


class TablePosition(msgspec.Struct, frozen=True, order=True):
    """A position in the order of all Delta tables."""

    catalog_id: UUID
    entry_id: UUID


class DeltaTable(msgspec.Struct, frozen=True):
    """A Delta table under its name."""

    entry_id: UUID
    name: str
    """Catalog, namespace levels and name, joined by dots."""
    position: TablePosition


class PendingTable(msgspec.Struct, frozen=True):
    """A table that has work to do."""

    entry_id: UUID
    name: str
    position: TablePosition
    version: int
    """The newest version of its log."""
    state: str
    """The version, with a digest of its log file and of the state of its artifacts."""
    reason: str
    """`unread`, `behind`, `replaced` (by another table) or `incomplete` (older versions are missing)."""


class BrokenTable(msgspec.Struct, frozen=True):
    """A table whose log could not be listed."""

    entry_id: UUID
    name: str
    problem: str


class Look(msgspec.Struct, frozen=True):
    """The result of `DeltaPipeline.look`."""

    looked: int
    """Number of tables."""
    pending: tuple[PendingTable, ...]
    broken: tuple[BrokenTable, ...]
    next: TablePosition | None
    """Start of the next look; `None` after the last table."""


class Materialised(msgspec.Struct, frozen=True):
    """A table after the work."""

    entry_id: UUID
    name: str
    changed: bool
    """Whether the entry changed."""
    version: int
    """The Delta version that is current."""
    versions: int
    """Number of versions that are snapshots."""
    location: str
    """Root of the table."""
    metadata_location: str
