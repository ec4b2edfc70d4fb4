"""Traces of transactions: by its trace a transaction whose COMMIT was not answered is found again.

A change of tables or views leaves its id in the commit log. All others leave it here.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

import sqlalchemy as sa

from floecat.store import commit_log
from floecat.store.database.connections import Connection
from floecat.store.database.statements import LIMIT
from floecat.store.schema import transactions as _transactions

__all__ = ["KEPT_MS", "delete_before", "insert", "was_committed"]

KEPT_MS: Final = 60 * 60 * 1000
"""How long a trace is kept; it is asked for within seconds."""

_INSERT: Final = sa.insert(_transactions)
_FIND: Final = sa.select(sa.literal(1)).where(_transactions.c.id == sa.bindparam("id"))
_doomed: Final = (
    sa.select(_transactions.c.id)
    .where(_transactions.c.committed_at_ms < sa.bindparam("before_ms"))
    .order_by(_transactions.c.committed_at_ms)
    .limit(LIMIT)
)
_DELETE_BEFORE: Final = sa.delete(_transactions).where(_transactions.c.id.in_(_doomed))


def insert(conn: Connection, transaction_id: UUID, now_ms: int) -> None:
    """Leaves the trace of a transaction that writes nothing to the commit log.

    Raises:
        DuplicateKeyError: another transaction has this id.
    """
    conn.change(_INSERT, {"id": transaction_id, "committed_at_ms": now_ms})


def was_committed(conn: Connection, catalog_id: UUID, transaction_id: UUID) -> bool:
    """Whether a transaction of some seconds ago left its trace, here or in the commit log of its catalog."""
    if conn.first(_FIND, {"id": transaction_id}) is not None:
        return True
    return commit_log.has_transaction(conn, catalog_id, transaction_id)


def delete_before(conn: Connection, before_ms: int, limit: int) -> int:
    """Deletes traces that are older, oldest first.

    Returns:
        How many; fewer than `limit` when none are left.
    """
    return conn.change(_DELETE_BEFORE, {"before_ms": before_ms, "limit": limit})
