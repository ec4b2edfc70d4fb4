"""Accounts: who owns catalogs."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from floecat.store import schema
from floecat.store.database.connections import Connection
from floecat.store.database.statements import insert_if_absent

__all__ = ["ensure"]

_ENSURE: Final = insert_if_absent(schema.accounts, schema.accounts.c.id)


def ensure(conn: Connection, account_id: UUID, now_ms: int) -> bool:
    """Makes the account if it does not exist yet.

    Returns:
        Whether it was made.
    """
    return conn.change(_ENSURE, {"id": account_id, "created_at_ms": now_ms}) == 1
