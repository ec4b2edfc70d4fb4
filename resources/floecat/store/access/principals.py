"""Principals of accounts. The issuer is in their names: the same `sub` of two issuers is two principals."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final
from uuid import UUID

import msgspec
import sqlalchemy as sa

from floecat.store.access.grants import grants
from floecat.store.access.roles import roles
from floecat.store.catalogs.storage_authorities import storage_authorities
from floecat.store.database.connections import Connection
from floecat.store.database.statements import LIMIT, in_parts, insert_if_absent
from floecat.store.schema import accounts as _accounts
from floecat.store.schema import catalogs as _catalogs
from floecat.store.schema import id_column, integer_column, metadata, name_column

__all__ = [
    "PrincipalRow",
    "any_enabled",
    "contents",
    "count",
    "delete",
    "ensure",
    "find",
    "names",
    "page",
    "set_disabled",
    "standing",
]

_principals: Final = sa.Table(
    "principals",
    metadata,
    id_column(primary_key=True),
    id_column("account_id", sa.ForeignKey("accounts.id", ondelete="RESTRICT")),
    name_column("name"),
    sa.Column("disabled", sa.Boolean(), nullable=False),
    integer_column("created_at_ms"),
    sa.UniqueConstraint("account_id", "name"),
)


class PrincipalRow(msgspec.Struct, frozen=True):
    """A principal."""

    id: UUID
    account_id: UUID
    name: str
    """Name, qualified by its issuer."""
    disabled: bool
    created_at_ms: int


_INSERT_PRINCIPAL: Final = insert_if_absent(_principals, _principals.c.account_id, _principals.c.name)
_NAMED: Final = (
    _principals.c.account_id == sa.bindparam("account_id"),
    _principals.c.name == sa.bindparam("name"),
)
_FIND: Final = sa.select(*_principals.c).where(*_NAMED)
_STANDING: Final = (
    sa.select(_accounts.c.disabled, *_principals.c)
    .select_from(_accounts.outerjoin(_principals, sa.and_(*_NAMED)))
    .where(_accounts.c.id == sa.bindparam("account_id"))
)
_COUNT: Final = (
    sa.select(sa.func.count())
    .select_from(_principals)
    .where(_principals.c.account_id == sa.bindparam("account_id"))
)
_OF_ACCOUNTS: Final = {
    "catalogs": _catalogs,
    "authorities": storage_authorities,
    "principals": _principals,
    "roles": roles,
    "grants": grants,
}
_CONTENTS: Final = sa.select(
    *(
        sa.select(sa.func.count())
        .select_from(table)
        .where(table.c.account_id == sa.bindparam("account_id"))
        .scalar_subquery()
        for table in _OF_ACCOUNTS.values()
    )
)
_SET_DISABLED: Final = (
    sa.update(_principals)
    .where(_principals.c.id == sa.bindparam("principal_id"))
    .values(disabled=sa.bindparam("is_disabled"))
)
_PAGE: Final = (
    sa.select(*_principals.c)
    .where(_principals.c.account_id == sa.bindparam("account_id"), _principals.c.name > sa.bindparam("after"))
    .order_by(_principals.c.name)
    .limit(LIMIT)
)
_NAMES: Final = sa.select(_principals.c.id, _principals.c.name).where(
    _principals.c.id.in_(sa.bindparam("ids", expanding=True, type_=sa.Uuid()))
)
_ENABLED: Final = sa.select(_principals.c.id).where(
    _principals.c.id.in_(sa.bindparam("ids", expanding=True, type_=sa.Uuid())),
    _principals.c.disabled.is_(False),
)
_DELETE: Final = sa.delete(_principals).where(_principals.c.id == sa.bindparam("principal_id"))


def ensure(conn: Connection, row: PrincipalRow) -> bool:
    """Inserts a principal unless its account has one of this name. Returns whether it did."""
    return conn.change(_INSERT_PRINCIPAL, msgspec.structs.asdict(row)) == 1


def find(conn: Connection, account_id: UUID, name: str) -> PrincipalRow | None:
    """The principal of this name."""
    row = conn.first(_FIND, {"account_id": account_id, "name": name})
    return None if row is None else PrincipalRow(*row)


def standing(conn: Connection, account_id: UUID, name: str) -> tuple[bool | None, PrincipalRow | None]:
    """Whether the account is disabled, None if there is none, and its principal of this name."""
    row = conn.first(_STANDING, {"account_id": account_id, "name": name})
    if row is None:
        return None, None
    return row[0], None if row[1] is None else PrincipalRow(*row[1:])


def contents(conn: Connection, account_id: UUID) -> dict[str, int]:
    """Numbers of what is in an account, by its kind."""
    row = conn.first(_CONTENTS, {"account_id": account_id})
    return {} if row is None else dict(zip(_OF_ACCOUNTS, row, strict=True))


def count(conn: Connection, account_id: UUID) -> int:
    """The number of principals of an account."""
    row = conn.first(_COUNT, {"account_id": account_id})
    return 0 if row is None else int(row[0])


def set_disabled(conn: Connection, principal_id: UUID, *, disabled: bool) -> None:
    """Disables or enables a principal."""
    conn.change(_SET_DISABLED, {"principal_id": principal_id, "is_disabled": disabled})


def page(conn: Connection, account_id: UUID, after: str, limit: int) -> list[PrincipalRow]:
    """The principals of an account whose names follow one, ordered by name."""
    parameters = {"account_id": account_id, "after": after, "limit": limit}
    return [PrincipalRow(*row) for row in conn.all(_PAGE, parameters)]


def names(conn: Connection, ids: Collection[UUID]) -> dict[UUID, str]:
    """The names of principals, by id."""
    return {row[0]: row[1] for some in in_parts(sorted(ids)) for row in conn.all(_NAMES, {"ids": some})}


def any_enabled(conn: Connection, ids: Collection[UUID]) -> bool:
    """Whether one of these is a principal that is not disabled."""
    return any(conn.first(_ENABLED, {"ids": some}) is not None for some in in_parts(sorted(ids)))


def delete(conn: Connection, principal_id: UUID) -> None:
    """Deletes a principal."""
    conn.change(_DELETE, {"principal_id": principal_id})
