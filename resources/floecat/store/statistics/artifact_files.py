"""Index artifacts by table, to find their files: those of live tables, and those of tables that are purged.

The rows of a table go with its entry, so a drop with purge gives them to its job in the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final
from uuid import UUID

import sqlalchemy as sa

from floecat.store.database.connections import Connection
from floecat.store.database.engine import Store
from floecat.store.database.statements import LIMIT
from floecat.store.schema import snapshots as _snapshots
from floecat.store.statistics.schema import artifact_owners as _owners
from floecat.store.statistics.schema import index_artifacts as _artifacts

__all__ = ["Place", "all_of", "keep_for_purge", "of_entry", "of_purge", "retained"]

Place = tuple[int, str]
"""Snapshot and storage id of an artifact; pages are in this order."""

_FIRST: Final[Place] = (-(2**63), "")
"""Comes before every artifact."""

_PAGE: Final = 1_000


def keep_for_purge(conn: Connection, job_id: UUID, entry_id: UUID) -> None:
    """Gives the artifacts of an entry to the job that purges it, in the transaction that removes it."""
    conn.change(_KEEP, {"for_job": job_id, "of_owner": entry_id})


def retained(conn: Connection, entry_id: UUID, storage_ids: Sequence[str]) -> list[bytes]:
    """Encoded artifacts with these storage ids of snapshots that the table still has."""
    return [row[0] for row in conn.all(_RETAINED, {"of_entry": entry_id, "ids": list(storage_ids)})]


def of_entry(conn: Connection, entry_id: UUID, after: Place, limit: int) -> list[tuple[Place, bytes]]:
    """Encoded artifacts of an entry that come after a place."""
    return _page(conn, _OF_ENTRY, entry_id, after, limit)


def of_purge(conn: Connection, job_id: UUID, after: Place, limit: int) -> list[tuple[Place, bytes]]:
    """Encoded artifacts of the table that a job purges, that come after a place."""
    return _page(conn, _OF_PURGE, job_id, after, limit)


def all_of(
    store: Store,
    read: Callable[[Connection, UUID, Place, int], list[tuple[Place, bytes]]],
    owner: UUID,
) -> Iterator[bytes]:
    """Yields all encoded artifacts of an owner, a page at a time.

    Args:
        read: `of_entry` or `of_purge`.
        owner: the entry, or the job.
    """
    after = _FIRST
    while True:
        with store.read() as conn:
            page = read(conn, owner, after, _PAGE)
        for place, body in page:
            after = place
            yield body
        if len(page) < _PAGE:
            return


def _page(
    conn: Connection, statement: sa.Select[tuple[int, str, bytes]], owner: UUID, after: Place, limit: int
) -> list[tuple[Place, bytes]]:
    parameters = {"of_owner": owner, "snapshot": after[0], "storage": after[1], "limit": limit}
    return [((row[0], row[1]), row[2]) for row in conn.all(statement, parameters)]


def _pages(owner: sa.ColumnElement[bool]) -> sa.Select[tuple[int, str, bytes]]:
    place = sa.tuple_(_artifacts.c.snapshot_id, _artifacts.c.storage_id)
    return (
        sa.select(_artifacts.c.snapshot_id, _artifacts.c.storage_id, _artifacts.c.body)
        .where(owner, place > sa.tuple_(sa.bindparam("snapshot"), sa.bindparam("storage")))
        .order_by(_artifacts.c.snapshot_id, _artifacts.c.storage_id)
        .limit(LIMIT)
    )


_OF_ENTRY: Final = _pages(_artifacts.c.entry_id == sa.bindparam("of_owner"))
_OF_PURGE: Final = _pages(
    _artifacts.c.entry_id
    == sa.select(_owners.c.id).where(_owners.c.job_id == sa.bindparam("of_owner")).scalar_subquery()
)
_KEEP: Final = (
    sa.update(_owners)
    .where(_owners.c.id == sa.bindparam("of_owner"))
    .values(entry_id=None, job_id=sa.bindparam("for_job", type_=sa.Uuid()))
)
_RETAINED: Final = sa.select(_artifacts.c.body).where(
    _artifacts.c.entry_id == sa.bindparam("of_entry"),
    _artifacts.c.storage_id.in_(sa.bindparam("ids", expanding=True)),
    _artifacts.c.snapshot_id.in_(
        sa.select(_snapshots.c.snapshot_id).where(_snapshots.c.entry_id == sa.bindparam("of_entry"))
    ),
)
