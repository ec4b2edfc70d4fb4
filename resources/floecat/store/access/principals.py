"""Principals and roles of accounts.

The name of a principal has its issuer in it: the same `sub` of two issuers is two principals. Members of
roles and grantees are written as one text: the id of a principal or of a role, or `group:NAME` for a group of
tokens.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

import msgspec
import sqlalchemy as sa

from floecat.store.access.grants import grants
from floecat.store.database.connections import Connection
from floecat.store.database.statements import insert_if_absent
from floecat.store.schema import accounts as _accounts
from floecat.store.schema import catalogs as _catalogs
from floecat.store.schema import id_column, integer_column, metadata, name_column

__all__ = [
    "PrincipalRow",
    "RoleRow",
    "add_member",
    "contents",
    "count",
    "delete_role",
    "ensure",
    "find",
    "find_role",
    "get",
    "insert_role",
    "members",
    "remove_member",
    "roles",
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
_roles: Final = sa.Table(
    "roles",
    metadata,
    id_column(primary_key=True),
    id_column("account_id", sa.ForeignKey("accounts.id", ondelete="RESTRICT")),
    name_column("name"),
    integer_column("created_at_ms"),
    sa.UniqueConstraint("account_id", "name"),
)
_members: Final = sa.Table(
    "role_members",
    metadata,
    id_column("role_id", sa.ForeignKey("roles.id", ondelete="CASCADE"), primary_key=True),
    name_column("member", primary_key=True),
)


class PrincipalRow(msgspec.Struct, frozen=True):
    """A principal."""

    id: UUID
    account_id: UUID
    name: str
    """Name, qualified by its issuer."""
    disabled: bool
    created_at_ms: int


class RoleRow(msgspec.Struct, frozen=True):
    """A role."""

    id: UUID
    account_id: UUID
    name: str
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
_OF_ACCOUNTS: Final = {"catalogs": _catalogs, "principals": _principals, "roles": _roles, "grants": grants}
_CONTENTS: Final = sa.select(
    *(
        sa.select(sa.func.count())
        .select_from(table)
        .where(table.c.account_id == sa.bindparam("account_id"))
        .scalar_subquery()
        for table in _OF_ACCOUNTS.values()
    )
)
_GET: Final = sa.select(*_principals.c).where(_principals.c.id == sa.bindparam("id"))
_SET_DISABLED: Final = (
    sa.update(_principals)
    .where(_principals.c.id == sa.bindparam("principal_id"))
    .values(disabled=sa.bindparam("is_disabled"))
)
_INSERT_ROLE: Final = sa.insert(_roles)
_DELETE_ROLE: Final = sa.delete(_roles).where(_roles.c.id == sa.bindparam("id"))
_ROLES: Final = (
    sa.select(*_roles.c).where(_roles.c.account_id == sa.bindparam("account_id")).order_by(_roles.c.name)
)
_FIND_ROLE: Final = _ROLES.where(_roles.c.name == sa.bindparam("name"))
_ADD_MEMBER: Final = insert_if_absent(_members, _members.c.role_id, _members.c.member)
_REMOVE_MEMBER: Final = sa.delete(_members).where(
    _members.c.role_id == sa.bindparam("id"), _members.c.member == sa.bindparam("name")
)
_MEMBERS: Final = (
    sa.select(_members.c.role_id, _members.c.member)
    .join(_roles, _roles.c.id == _members.c.role_id)
    .where(_roles.c.account_id == sa.bindparam("account_id"))
)


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


def get(conn: Connection, principal_id: UUID) -> PrincipalRow | None:
    """The principal of this id."""
    row = conn.first(_GET, {"id": principal_id})
    return None if row is None else PrincipalRow(*row)


def set_disabled(conn: Connection, principal_id: UUID, *, disabled: bool) -> None:
    """Disables or enables a principal."""
    conn.change(_SET_DISABLED, {"principal_id": principal_id, "is_disabled": disabled})


def insert_role(conn: Connection, row: RoleRow) -> None:
    """Inserts a role.

    Raises:
        DuplicateKeyError: the account has a role of this name.
    """
    conn.change(_INSERT_ROLE, msgspec.structs.asdict(row))


def delete_role(conn: Connection, role_id: UUID) -> None:
    """Deletes a role with its members."""
    conn.change(_DELETE_ROLE, {"id": role_id})


def roles(conn: Connection, account_id: UUID) -> list[RoleRow]:
    """The roles of an account, ordered by name."""
    return [RoleRow(*row) for row in conn.all(_ROLES, {"account_id": account_id})]


def find_role(conn: Connection, account_id: UUID, name: str) -> RoleRow | None:
    """The role of this name."""
    row = conn.first(_FIND_ROLE, {"account_id": account_id, "name": name})
    return None if row is None else RoleRow(*row)


def add_member(conn: Connection, role_id: UUID, member: str) -> bool:
    """Adds a member, a grantee as text. Returns whether it was none before."""
    return conn.change(_ADD_MEMBER, {"role_id": role_id, "member": member}) == 1


def remove_member(conn: Connection, role_id: UUID, member: str) -> bool:
    """Removes a member. Returns whether it was one."""
    return conn.change(_REMOVE_MEMBER, {"id": role_id, "name": member}) == 1


def members(conn: Connection, account_id: UUID) -> list[tuple[UUID, str]]:
    """Every role of an account with each of its members."""
    return sorted((row[0], row[1]) for row in conn.all(_MEMBERS, {"account_id": account_id}))
