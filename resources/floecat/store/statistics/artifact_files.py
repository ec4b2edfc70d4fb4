"""Index artifacts by table, to find their files: those of live tables, and those of tables that are purged.

The rows of a table go with its entry, so a drop with purge copies them for its job in the same transaction.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

import sqlalchemy as sa

from floecat.store.database.connections import Connection
from floecat.store.database.statements import LIMIT
from floecat.store.statistics.schema import index_artifacts as _artifacts
from floecat.store.statistics.schema import purged_artifacts as _purged

__all__ = ["FIRST", "Place", "keep_for_purge", "of_entry", "of_purge"]

Place = tuple[int, str]
"""Snapshot and storage id of an artifact; pages are in this order."""

FIRST: Final[Place] = (-(2**63), "")
"""Comes before every artifact."""


def keep_for_purge(conn: Connection, job_id: UUID, entry_id: UUID) -> None:
    """Copies the artifacts of an entry for the job that purges it, in the transaction that removes it."""
    conn.change(_KEEP, {"for_job": job_id, "of_owner": entry_id})


def of_entry(conn: Connection, entry_id: UUID, after: Place, limit: int) -> list[tuple[Place, bytes]]:
    """Encoded artifacts of an entry that come after a place."""
    return _page(conn, _OF_ENTRY, entry_id, after, limit)


def of_purge(conn: Connection, job_id: UUID, after: Place, limit: int) -> list[tuple[Place, bytes]]:
    """Encoded artifacts of the table that a job purges, that come after a place."""
    return _page(conn, _OF_PURGE, job_id, after, limit)


def _page(
    conn: Connection, statement: sa.Select[tuple[int, str, bytes]], owner: UUID, after: Place, limit: int
) -> list[tuple[Place, bytes]]:
    parameters = {"of_owner": owner, "snapshot": after[0], "storage": after[1], "limit": limit}
    return [((row[0], row[1]), row[2]) for row in conn.all(statement, parameters)]


def _pages(owner: sa.Column[UUID], table: sa.Table) -> sa.Select[tuple[int, str, bytes]]:
    place = sa.tuple_(table.c.snapshot_id, table.c.storage_id)
    return (
        sa.select(table.c.snapshot_id, table.c.storage_id, table.c.body)
        .where(
            owner == sa.bindparam("of_owner"),
            place > sa.tuple_(sa.bindparam("snapshot"), sa.bindparam("storage")),
        )
        .order_by(table.c.snapshot_id, table.c.storage_id)
        .limit(LIMIT)
    )


_OF_ENTRY: Final = _pages(_artifacts.c.entry_id, _artifacts)
_OF_PURGE: Final = _pages(_purged.c.job_id, _purged)
_KEEP: Final = sa.insert(_purged).from_select(
    ["job_id", "snapshot_id", "storage_id", "body"],
    sa.select(
        sa.bindparam("for_job", type_=sa.Uuid()),
        _artifacts.c.snapshot_id,
        _artifacts.c.storage_id,
        _artifacts.c.body,
    ).where(_artifacts.c.entry_id == sa.bindparam("of_owner")),
)
