"""Snapshots and refs of tables, for those who look for them without reading metadata."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

import msgspec
import sqlalchemy as sa

from floecat.iceberg.metadata.snapshots import SnapshotSummary
from floecat.store.database.connections import Connection
from floecat.store.schema import refs as _refs
from floecat.store.schema import snapshots as _snapshots

__all__ = [
    "RefRow",
    "SnapshotRow",
    "delete_many",
    "insert_many",
    "insert_refs",
    "list_all",
    "replace_refs",
    "row_of",
]

_INSERT: Final = sa.insert(_snapshots)
_DELETE: Final = sa.delete(_snapshots).where(
    _snapshots.c.entry_id == sa.bindparam("of_entry"), _snapshots.c.snapshot_id == sa.bindparam("id")
)
_LIST: Final = (
    sa.select(
        _snapshots.c.snapshot_id,
        _snapshots.c.parent_snapshot_id,
        _snapshots.c.sequence_number,
        _snapshots.c.timestamp_ms,
        _snapshots.c.schema_id,
        _snapshots.c.operation,
        _snapshots.c.manifest_list,
    )
    .where(_snapshots.c.entry_id == sa.bindparam("of_entry"))
    .order_by(_snapshots.c.sequence_number, _snapshots.c.timestamp_ms, _snapshots.c.snapshot_id)
)
_INSERT_REFS: Final = sa.insert(_refs)
_DELETE_REFS: Final = sa.delete(_refs).where(_refs.c.entry_id == sa.bindparam("of_entry"))


class SnapshotRow(msgspec.Struct, frozen=True):
    """A snapshot, with the fields of the table specification."""

    snapshot_id: int
    parent_snapshot_id: int | None
    sequence_number: int
    timestamp_ms: int
    schema_id: int | None
    operation: str | None
    manifest_list: str | None
    """`None` for a snapshot of format version 1 that lists its manifests inline."""


def row_of(summary: SnapshotSummary) -> SnapshotRow:
    """The row of a snapshot of a metadata document."""
    return SnapshotRow(
        snapshot_id=summary.snapshot_id,
        parent_snapshot_id=summary.parent_snapshot_id,
        sequence_number=summary.sequence_number,
        timestamp_ms=summary.timestamp_ms,
        schema_id=summary.schema_id,
        operation=summary.operation,
        manifest_list=summary.manifest_list,
    )


class RefRow(msgspec.Struct, frozen=True):
    """A branch or a tag."""

    name: str
    type: str
    """`branch` or `tag`."""
    snapshot_id: int


def insert_many(conn: Connection, entry_id: UUID, rows: Iterable[SnapshotRow]) -> None:
    """Inserts snapshots of a table.

    Raises:
        DuplicateKeyError: the table has a snapshot of this id.
        ForeignKeyError: there is no such table.
    """
    conn.change_later(_INSERT, *({"entry_id": entry_id, **msgspec.structs.asdict(row)} for row in rows))


def delete_many(conn: Connection, entry_id: UUID, snapshot_ids: Iterable[int]) -> None:
    """Deletes snapshots of a table; ids that it does not have are ignored."""
    conn.change_later(_DELETE, *({"of_entry": entry_id, "id": snapshot_id} for snapshot_id in snapshot_ids))


def list_all(conn: Connection, entry_id: UUID) -> list[SnapshotRow]:
    """Snapshots of a table, ordered by sequence number and time."""
    return [SnapshotRow(*row) for row in conn.all(_LIST, {"of_entry": entry_id})]


def replace_refs(conn: Connection, entry_id: UUID, refs: Sequence[RefRow]) -> None:
    """Makes these the refs of a table.

    Raises:
        ForeignKeyError: there is no such table.
    """
    conn.change_later(_DELETE_REFS, {"of_entry": entry_id})
    insert_refs(conn, entry_id, refs)


def insert_refs(conn: Connection, entry_id: UUID, refs: Sequence[RefRow]) -> None:
    """Inserts the refs of a table that has none of these names.

    Raises:
        DuplicateKeyError: the table has a ref of this name.
        ForeignKeyError: there is no such table.
    """
    conn.change_later(_INSERT_REFS, *({"entry_id": entry_id, **msgspec.structs.asdict(ref)} for ref in refs))
