"""Roles of accounts, and their members.

Members of roles and grantees are written as one text: the id of a principal or of a role, or `group:NAME` for
a group of tokens.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final
from uuid import UUID

import msgspec
import sqlalchemy as sa

from floecat.store.database.connections import Connection
from floecat.store.database.statements import LIMIT, NO_LIMIT, in_parts, insert_if_absent
from floecat.store.schema import id_column, integer_column, metadata, name_column, owner_column

__all__ = [
    "RoleRow",
    "add_member",
    "count",
    "count_members",
    "delete",
    "find",
    "insert",
    "list_all",
    "members",
    "members_in",
    "members_of",
    "names",
    "remove_everywhere",
    "remove_member",
    "roles",
    "roles_of",
    "set_owner",
]

roles: Final = sa.Table(
    "roles",
    metadata,
    id_column(primary_key=True),
    id_column("account_id", sa.ForeignKey("accounts.id", ondelete="RESTRICT")),
    name_column("name"),
    integer_column("created_at_ms"),
    owner_column(),
    sa.UniqueConstraint("account_id", "name"),
)
_members: Final = sa.Table(
    "role_members",
    metadata,
    id_column("role_id", sa.ForeignKey("roles.id", ondelete="CASCADE"), primary_key=True),
    name_column("member", primary_key=True),
    # what a member is taken out of when it goes
    sa.Index(None, "member"),
)


class RoleRow(msgspec.Struct, frozen=True):
    """A role."""

    id: UUID
    account_id: UUID
    name: str
    created_at_ms: int
    owner_id: UUID | None
    """A principal or role that changes its members."""


_OF_ACCOUNT: Final = roles.c.account_id == sa.bindparam("account_id")
_INSERT: Final = sa.insert(roles)
_DELETE: Final = sa.delete(roles).where(roles.c.id == sa.bindparam("id"))
_SET_OWNER: Final = (
    sa.update(roles).where(roles.c.id == sa.bindparam("role_id")).values(owner_id=sa.bindparam("owner"))
)
_LIST: Final = (
    sa.select(*roles.c)
    .where(_OF_ACCOUNT, roles.c.name > sa.bindparam("after"))
    .order_by(roles.c.name)
    .limit(LIMIT)
)
_FIND: Final = sa.select(*roles.c).where(_OF_ACCOUNT, roles.c.name == sa.bindparam("name"))
_NAMES: Final = sa.select(roles.c.id, roles.c.name).where(
    roles.c.id.in_(sa.bindparam("ids", expanding=True, type_=sa.Uuid()))
)
_COUNT: Final = sa.select(sa.func.count()).select_from(roles).where(_OF_ACCOUNT)
_ADD_MEMBER: Final = insert_if_absent(_members, _members.c.role_id, _members.c.member)
_REMOVE_MEMBER: Final = sa.delete(_members).where(
    _members.c.role_id == sa.bindparam("id"), _members.c.member == sa.bindparam("name")
)
_REMOVE_EVERYWHERE: Final = sa.delete(_members).where(_members.c.member == sa.bindparam("name"))
_MEMBERS: Final = (
    sa.select(_members.c.role_id, _members.c.member)
    .join(roles, roles.c.id == _members.c.role_id)
    .where(_OF_ACCOUNT)
)
_ROLES_OF: Final = (
    sa.select(_members.c.member, _members.c.role_id)
    .join(roles, roles.c.id == _members.c.role_id)
    .where(_OF_ACCOUNT, _members.c.member.in_(sa.bindparam("some", expanding=True)))
)
_MEMBERS_IN: Final = sa.select(_members.c.role_id, _members.c.member).where(
    _members.c.role_id.in_(sa.bindparam("some", expanding=True, type_=sa.Uuid()))
)
_MEMBERS_OF: Final = (
    sa.select(_members.c.member)
    .where(_members.c.role_id == sa.bindparam("id"), _members.c.member > sa.bindparam("after"))
    .order_by(_members.c.member)
    .limit(LIMIT)
)
_COUNT_MEMBERS: Final = sa.select(sa.func.count()).select_from(
    _members.join(roles, sa.and_(roles.c.id == _members.c.role_id, _OF_ACCOUNT))
)


def insert(conn: Connection, row: RoleRow) -> None:
    """Inserts a role.

    Raises:
        DuplicateKeyError: the account has a role of this name.
    """
    conn.change(_INSERT, msgspec.structs.asdict(row))


def delete(conn: Connection, role_id: UUID) -> None:
    """Deletes a role with its members."""
    conn.change(_DELETE, {"id": role_id})


def names(conn: Connection, ids: Collection[UUID]) -> dict[UUID, str]:
    """The names of roles, by id."""
    return {row[0]: row[1] for some in in_parts(sorted(ids)) for row in conn.all(_NAMES, {"ids": some})}


def set_owner(conn: Connection, role_id: UUID, owner: UUID) -> None:
    """Makes a principal or role the owner of a role."""
    conn.change(_SET_OWNER, {"role_id": role_id, "owner": owner})


def list_all(conn: Connection, account_id: UUID, after: str = "", limit: int = NO_LIMIT) -> list[RoleRow]:
    """The roles of an account whose names follow one, ordered by name."""
    parameters = {"account_id": account_id, "after": after, "limit": limit}
    return [RoleRow(*row) for row in conn.all(_LIST, parameters)]


def find(conn: Connection, account_id: UUID, name: str) -> RoleRow | None:
    """The role of this name."""
    row = conn.first(_FIND, {"account_id": account_id, "name": name})
    return None if row is None else RoleRow(*row)


def count(conn: Connection, account_id: UUID) -> int:
    """The number of roles of an account."""
    row = conn.first(_COUNT, {"account_id": account_id})
    return 0 if row is None else int(row[0])


def add_member(conn: Connection, role_id: UUID, member: str) -> bool:
    """Adds a member, a grantee as text. Returns whether it was none before."""
    return conn.change(_ADD_MEMBER, {"role_id": role_id, "member": member}) == 1


def remove_member(conn: Connection, role_id: UUID, member: str) -> bool:
    """Removes a member. Returns whether it was one."""
    return conn.change(_REMOVE_MEMBER, {"id": role_id, "name": member}) == 1


def remove_everywhere(conn: Connection, member: str) -> None:
    """Removes a principal or role from all roles."""
    conn.change(_REMOVE_EVERYWHERE, {"name": member})


def members(conn: Connection, account_id: UUID) -> list[tuple[UUID, str]]:
    """Every role of an account with each of its members."""
    return [(row[0], row[1]) for row in conn.all(_MEMBERS, {"account_id": account_id})]


def roles_of(conn: Connection, account_id: UUID, some: Sequence[str]) -> list[tuple[str, str]]:
    """Each of some members with each role of the account that it is in itself, as text."""
    return [
        (row[0], str(row[1]))
        for part in in_parts(some)
        for row in conn.all(_ROLES_OF, {"account_id": account_id, "some": part})
    ]


def members_in(conn: Connection, ids: Sequence[UUID]) -> list[tuple[str, str]]:
    """Each of some roles, as text, with each of its members."""
    return [(str(row[0]), row[1]) for part in in_parts(ids) for row in conn.all(_MEMBERS_IN, {"some": part})]


def members_of(conn: Connection, role_id: UUID, after: str, limit: int) -> list[str]:
    """The members of a role that follow one, in order."""
    return [row[0] for row in conn.all(_MEMBERS_OF, {"id": role_id, "after": after, "limit": limit})]


def count_members(conn: Connection, account_id: UUID) -> int:
    """The number of members of all roles of an account."""
    row = conn.first(_COUNT_MEMBERS, {"account_id": account_id})
    return 0 if row is None else int(row[0])
