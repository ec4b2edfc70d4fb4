"""Accounts: who owns catalogs."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import msgspec
import sqlalchemy as sa

from floecat.store import schema
from floecat.store.database.connections import Connection
from floecat.store.database.statements import insert_if_absent

__all__ = ["AccountRow", "ensure", "list_all"]

_ENSURE: Final = insert_if_absent(schema.accounts, schema.accounts.c.id)
_LIST: Final = sa.select(schema.accounts.c.id, schema.accounts.c.created_at_ms).order_by(schema.accounts.c.id)


class AccountRow(msgspec.Struct, frozen=True):
    """An account."""

    id: UUID
    created_at_ms: int


def ensure(conn: Connection, account_id: UUID, now_ms: int) -> bool:
    """Makes the account if it does not exist yet.

    Returns:
        Whether it was made.
    """
    return conn.change(_ENSURE, {"id": account_id, "created_at_ms": now_ms}) == 1


def list_all(conn: Connection) -> list[AccountRow]:
    """All accounts, ordered by id."""
    return [AccountRow(*row) for row in conn.all(_LIST)]
