"""Accounts: who owns catalogs."""

from __future__ import annotations

import secrets
from typing import Final
from uuid import UUID

import msgspec
import sqlalchemy as sa

from floecat.store.database.connections import Connection
from floecat.store.database.statements import LIMIT, insert_if_absent
from floecat.store.schema import accounts as _accounts

__all__ = ["AccountRow", "by_name", "delete", "ensure", "get", "page", "set_disabled", "version"]


class AccountRow(msgspec.Struct, frozen=True):
    """An account."""

    id: UUID
    name: str
    """Name for operators; the id as text, unless it was created by another."""
    disabled: bool
    created_at_ms: int


_ENSURE: Final = insert_if_absent(_accounts)
_SELECT: Final = sa.select(
    _accounts.c.id, _accounts.c.name, _accounts.c.disabled, _accounts.c.created_at_ms
).order_by(_accounts.c.name)
_GET: Final = _SELECT.where(_accounts.c.id == sa.bindparam("id"))
_BY_NAME: Final = _SELECT.where(_accounts.c.name == sa.bindparam("name"))
_PAGE: Final = _SELECT.where(_accounts.c.name > sa.bindparam("after")).limit(LIMIT)
_VERSION: Final = sa.select(_accounts.c.access_version).where(_accounts.c.id == sa.bindparam("id"))
_SET_DISABLED: Final = (
    sa.update(_accounts)
    .where(_accounts.c.id == sa.bindparam("account"))
    .values(disabled=sa.bindparam("is_disabled"))
)
_DELETE: Final = sa.delete(_accounts).where(_accounts.c.id == sa.bindparam("id"))


def ensure(conn: Connection, account_id: UUID, now_ms: int, name: str | None = None) -> bool:
    """Makes the account if it does not exist yet, and no other one has its name.

    Args:
        name: by default the id.

    Returns:
        Whether it was made.
    """
    row = AccountRow(account_id, name or str(account_id), False, now_ms)
    # from anywhere: what was decided for an account of this id that was deleted is of no version of this one
    return conn.change(_ENSURE, {**msgspec.structs.asdict(row), "access_version": secrets.randbits(48)}) == 1


def get(conn: Connection, account_id: UUID) -> AccountRow | None:
    """The account of this id."""
    row = conn.first(_GET, {"id": account_id})
    return None if row is None else AccountRow(*row)


def by_name(conn: Connection, name: str) -> AccountRow | None:
    """The account of this name."""
    row = conn.first(_BY_NAME, {"name": name})
    return None if row is None else AccountRow(*row)


def page(conn: Connection, after: str, limit: int) -> list[AccountRow]:
    """Accounts by name, from after one."""
    return [AccountRow(*row) for row in conn.all(_PAGE, {"after": after, "limit": limit})]


def version(conn: Connection, account_id: UUID) -> int | None:
    """The version of the access of an account; None without such an account."""
    row = conn.first(_VERSION, {"id": account_id})
    return None if row is None else int(row[0])


def set_disabled(conn: Connection, account_id: UUID, *, disabled: bool) -> None:
    """Disables or enables an account."""
    conn.change(_SET_DISABLED, {"account": account_id, "is_disabled": disabled})


def delete(conn: Connection, account_id: UUID) -> None:
    """Deletes an account with its log of access.

    Raises:
        ForeignKeyError: something is in it.
    """
    conn.change(_DELETE, {"id": account_id})
