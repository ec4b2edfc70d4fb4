"""Grants, the version of an account's access, and the log of its changes.

Whatever changes what a principal may do counts the version of its account: a decision that was made at a
version holds for as long as that is the current one.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

import msgspec
import sqlalchemy as sa

from floecat.store.database.connections import Connection
from floecat.store.database.statements import LIMIT, in_parts, insert_if_absent
from floecat.store.schema import accounts as _accounts
from floecat.store.schema import id_column, integer_column, metadata, name_column, text_column

__all__ = [
    "AccessChange",
    "GrantRow",
    "count_of_securable",
    "count_version",
    "delete",
    "delete_in_catalogs",
    "delete_of_grantee",
    "delete_of_securable",
    "grants",
    "history",
    "insert",
    "lock",
    "of_account",
    "of_grantee",
    "of_securables",
    "record",
]

KEPT_CHANGES: Final = 100_000
"""Changes of an account that its history has; the oldest go."""

grants: Final = sa.Table(
    "grants",
    metadata,
    id_column("account_id", sa.ForeignKey("accounts.id", ondelete="RESTRICT"), primary_key=True),
    name_column("grantee", primary_key=True),
    id_column("securable_id", primary_key=True),
    name_column("privilege", primary_key=True),
    text_column("securable_kind"),
    text_column("granted_by"),
    integer_column("granted_at_ms"),
    # who can do something with a securable; what ends with a drop
    sa.Index(None, "securable_id"),
)
_log: Final = sa.Table(
    "access_log",
    metadata,
    id_column("account_id", sa.ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True),
    integer_column("access_version", primary_key=True, autoincrement=False),
    text_column("principal"),
    text_column("change"),
    integer_column("changed_at_ms"),
)


class GrantRow(msgspec.Struct, frozen=True):
    """A grant."""

    account_id: UUID
    grantee: str
    """Grantee as `store.access.principals` writes it."""
    securable_id: UUID
    privilege: str
    securable_kind: str
    granted_by: str
    granted_at_ms: int


class AccessChange(msgspec.Struct, frozen=True):
    """A change of who may do what."""

    access_version: int
    principal: str
    """Principal that made it."""
    change: str
    changed_at_ms: int


_INSERT: Final = insert_if_absent(grants, *grants.primary_key.columns)
_OF_SECURABLE: Final = grants.c.securable_id == sa.bindparam("securable_id")
_OF_GRANTEE: Final = (
    grants.c.account_id == sa.bindparam("account_id"),
    grants.c.grantee == sa.bindparam("grantee"),
)
_DELETE: Final = sa.delete(grants).where(
    *_OF_GRANTEE, _OF_SECURABLE, grants.c.privilege == sa.bindparam("privilege")
)
_DELETE_OF_SECURABLE: Final = sa.delete(grants).where(_OF_SECURABLE)
_DELETE_IN_CATALOGS: Final = sa.delete(grants).where(
    grants.c.account_id == sa.bindparam("account_id"), grants.c.securable_kind != "account"
)
_DELETE_OF_GRANTEE: Final = sa.delete(grants).where(*_OF_GRANTEE)
_SELECT_OF_SECURABLES: Final = sa.select(*grants.c).where(
    grants.c.securable_id.in_(sa.bindparam("ids", expanding=True))
)
_OF_ACCOUNT: Final = sa.select(*grants.c).where(grants.c.account_id == sa.bindparam("account_id"))
_SELECT_OF_GRANTEE: Final = (
    sa.select(*grants.c)
    .where(
        *_OF_GRANTEE,
        sa.tuple_(grants.c.securable_id, grants.c.privilege)
        > sa.tuple_(sa.bindparam("securable_id", type_=sa.Uuid()), sa.bindparam("privilege")),
    )
    .order_by(grants.c.securable_id, grants.c.privilege)
    .limit(LIMIT)
)
_COUNT_OF_SECURABLE: Final = sa.select(sa.func.count()).select_from(grants).where(_OF_SECURABLE)
_COUNT: Final = (
    sa.update(_accounts)
    .where(_accounts.c.id == sa.bindparam("account"))
    .values(access_version=_accounts.c.access_version + 1)
    .returning(_accounts.c.access_version)
)
_LOCK: Final = (
    sa.update(_accounts)
    .where(_accounts.c.id == sa.bindparam("account"))
    .values(access_version=_accounts.c.access_version)
)
_RECORD: Final = sa.insert(_log)
_FORGET: Final = sa.delete(_log).where(
    _log.c.account_id == sa.bindparam("account_id"), _log.c.access_version <= sa.bindparam("last")
)
_HISTORY: Final = (
    sa.select(_log.c.access_version, _log.c.principal, _log.c.change, _log.c.changed_at_ms)
    .where(_log.c.account_id == sa.bindparam("account_id"), _log.c.access_version < sa.bindparam("before"))
    .order_by(_log.c.access_version.desc())
    .limit(LIMIT)
)


def insert(conn: Connection, row: GrantRow) -> bool:
    """Inserts a grant unless it is there. Returns whether it did."""
    return conn.change(_INSERT, msgspec.structs.asdict(row)) == 1


def delete(conn: Connection, account_id: UUID, grantee: str, securable_id: UUID, privilege: str) -> bool:
    """Deletes a grant. Returns whether it was there."""
    parameters = {
        "account_id": account_id,
        "grantee": grantee,
        "securable_id": securable_id,
        "privilege": privilege,
    }
    return conn.change(_DELETE, parameters) == 1


def delete_of_securable(conn: Connection, securable_id: UUID) -> None:
    """Deletes the grants on what is dropped. No decision changes: its id is never given out again."""
    conn.change(_DELETE_OF_SECURABLE, {"securable_id": securable_id})


def delete_in_catalogs(conn: Connection, account_id: UUID) -> None:
    """Deletes what an account without catalogs has left: grants written while a thing was dropped."""
    conn.change(_DELETE_IN_CATALOGS, {"account_id": account_id})


def delete_of_grantee(conn: Connection, account_id: UUID, grantee: str) -> None:
    """Deletes the grants to a grantee."""
    conn.change(_DELETE_OF_GRANTEE, {"account_id": account_id, "grantee": grantee})


def of_securables(conn: Connection, ids: list[UUID]) -> list[GrantRow]:
    """The grants on some securables, by grantee and privilege."""
    found = [
        GrantRow(*row) for some in in_parts(ids) for row in conn.all(_SELECT_OF_SECURABLES, {"ids": some})
    ]
    return sorted(found, key=lambda row: (row.grantee, row.privilege))


def of_grantee(
    conn: Connection, account_id: UUID, grantee: str, after: tuple[UUID, str], limit: int
) -> list[GrantRow]:
    """The grants to a grantee that follow a securable and privilege, in this order."""
    parameters = {
        "account_id": account_id,
        "grantee": grantee,
        "securable_id": after[0],
        "privilege": after[1],
        "limit": limit,
    }
    return [GrantRow(*row) for row in conn.all(_SELECT_OF_GRANTEE, parameters)]


def of_account(conn: Connection, account_id: UUID) -> list[GrantRow]:
    """All grants of an account."""
    return [GrantRow(*row) for row in conn.all(_OF_ACCOUNT, {"account_id": account_id})]


def count_of_securable(conn: Connection, securable_id: UUID) -> int:
    """The number of grants on a thing."""
    row = conn.first(_COUNT_OF_SECURABLE, {"securable_id": securable_id})
    return 0 if row is None else int(row[0])


def lock(conn: Connection, account_id: UUID) -> None:
    """Makes other changes of access in the account wait until the transaction ends."""
    conn.change(_LOCK, {"account": account_id})


def record(conn: Connection, account_id: UUID, principal: str, change: str, now_ms: int) -> int:
    """Logs a change of access, made in this transaction, and counts the version of the account.

    Returns:
        The new version.
    """
    version = count_version(conn, account_id)
    values = {"account_id": account_id, "access_version": version, "principal": principal}
    conn.change(_RECORD, {**values, "change": change, "changed_at_ms": now_ms})
    conn.change(_FORGET, {"account_id": account_id, "last": version - KEPT_CHANGES})
    return version


def count_version(conn: Connection, account_id: UUID) -> int:
    """Counts the version of an account, and returns it: no decision that was made before holds any more."""
    row = conn.first(_COUNT, {"account": account_id})
    if row is None:
        raise LookupError("no such account")
    return int(row[0])


def history(conn: Connection, account_id: UUID, before: int, limit: int) -> list[AccessChange]:
    """Changes of access, the newest first, from before a version."""
    parameters = {"account_id": account_id, "before": before, "limit": limit}
    return [AccessChange(*row) for row in conn.all(_HISTORY, parameters)]
