"""Refusals: what principals asked for and may not do, the newest of each account."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import msgspec
import sqlalchemy as sa

from floecat.store.database.connections import Connection
from floecat.store.database.statements import LIMIT
from floecat.store.schema import id_column, integer_column, metadata, text_column

__all__ = ["RefusalRow", "delete_before", "insert", "newest"]

_refusals: Final = sa.Table(
    "refusals",
    metadata,
    # without a foreign key: a token may name an account that is not there
    id_column("account_id", primary_key=True),
    id_column(primary_key=True),
    text_column("principal"),
    text_column("privilege"),
    text_column("securable"),
    integer_column("times"),
    integer_column("refused_at_ms"),
    sa.Index(None, "refused_at_ms"),
)


class RefusalRow(msgspec.Struct, frozen=True):
    """The refusals of one question to one principal within a few seconds."""

    account_id: UUID
    id: UUID
    """Ordered by time, as UUIDv7 are."""
    principal: str
    privilege: str
    securable: str
    times: int
    refused_at_ms: int
    """Time of the last one."""


_OF_ACCOUNT: Final = _refusals.c.account_id == sa.bindparam("of_account")
_INSERT: Final = sa.insert(_refusals)
_NEWEST: Final = sa.select(*_refusals.c).where(_OF_ACCOUNT).order_by(_refusals.c.id.desc()).limit(LIMIT)
_TRIM: Final = sa.delete(_refusals).where(
    _OF_ACCOUNT,
    _refusals.c.id
    <= sa.select(_refusals.c.id)
    .where(_OF_ACCOUNT)
    .order_by(_refusals.c.id.desc())
    .limit(1)
    .offset(sa.bindparam("most", type_=sa.BigInteger()))
    .scalar_subquery(),
)
_DELETE_BEFORE: Final = sa.delete(_refusals).where(
    _refusals.c.id.in_(
        sa.select(_refusals.c.id).where(_refusals.c.refused_at_ms < sa.bindparam("before_ms")).limit(LIMIT)
    ),
    _refusals.c.refused_at_ms < sa.bindparam("before_ms"),
)


def insert(conn: Connection, rows: Sequence[RefusalRow], most: int) -> None:
    """Inserts refusals, and deletes the oldest of accounts that have more than `most`."""
    for row in rows:
        conn.change(_INSERT, msgspec.structs.asdict(row))
    for account_id in {row.account_id for row in rows}:
        conn.change(_TRIM, {"of_account": account_id, "most": most})


def newest(conn: Connection, account_id: UUID, limit: int) -> list[RefusalRow]:
    """The last refusals of an account, the newest first."""
    return [RefusalRow(*row) for row in conn.all(_NEWEST, {"of_account": account_id, "limit": limit})]


def delete_before(conn: Connection, before_ms: int, limit: int) -> int:
    """Deletes refusals from before a time. Returns how many, fewer than `limit` when none are left."""
    return conn.change(_DELETE_BEFORE, {"before_ms": before_ms, "limit": limit})
