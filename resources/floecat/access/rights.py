"""The rights of a principal: by itself, by groups of its token, by roles with one of these as a member."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from floecat.access.memberships import Step, reached
from floecat.auth.authorizer import Privilege
from floecat.auth.principals import Principal
from floecat.store.access.grants import GrantRow
from floecat.store.access.places import Place
from floecat.store.access.principals import PrincipalRow

__all__ = ["ALL", "IMPLIED_BY", "OWNER", "Grantees", "Reason", "group", "held", "reasons", "with_implied"]

OWNER: Final = "owner"
"""Stands for the privilege in reasons: an owner may do everything with a thing, and below."""

ALL: Final = frozenset[str](Privilege)

IMPLIED_BY: Final[Mapping[Privilege, frozenset[Privilege]]] = {
    Privilege.USE_CATALOG: frozenset({Privilege.MANAGE_CATALOG}),
    Privilege.LIST_SCHEMA: frozenset({Privilege.USE_SCHEMA}),
    Privilege.LIST_TABLE: frozenset({Privilege.READ_TABLE, Privilege.WRITE_TABLE}),
    Privilege.READ_TABLE: frozenset({Privilege.WRITE_TABLE}),
    Privilege.LIST_VIEW: frozenset({Privilege.READ_VIEW, Privilege.WRITE_VIEW}),
    Privilege.READ_VIEW: frozenset({Privilege.WRITE_VIEW}),
    Privilege.READ_CONNECTORS: frozenset({Privilege.MANAGE_CONNECTORS}),
    Privilege.READ_JOBS: frozenset({Privilege.MANAGE_JOBS}),
    Privilege.READ_ACCESS: frozenset(
        {
            Privilege.MANAGE_GRANTS,
            Privilege.MANAGE_OWNERS,
            Privilege.MANAGE_PROTECTION,
            Privilege.MANAGE_PRINCIPALS,
            Privilege.MANAGE_ROLES,
        }
    ),
    Privilege.READ_AUTHORITIES: frozenset({Privilege.MANAGE_AUTHORITIES}),
    Privilege.USE_AUTHORITY: frozenset({Privilege.MANAGE_AUTHORITIES}),
    Privilege.READ_WORKERS: frozenset({Privilege.MANAGE_WORKERS}),
}
"""Privileges with those that hold them, too: an engine that may write a table must load it."""


class Grantees(msgspec.Struct, frozen=True):
    """The grantees by which a principal has rights."""

    via: Mapping[str, str | None]
    """The principal, its groups and its roles as the store writes them, each with the member that has it."""
    ids: frozenset[UUID]
    """Ids of those that may own something."""
    disabled: str | None = None
    """What is disabled, the principal or its account, which may then do nothing."""

    @classmethod
    def of(cls, principal: Principal, row: PrincipalRow | None, roles: Step) -> Grantees:
        """The grantees of a principal.

        Args:
            principal: whose groups its token names.
            row: its row, if it has one.
            roles: from members to roles.
        """
        own = principal.owner_id or (None if row is None else row.id)
        groups = dict.fromkeys(map(group, principal.groups))
        found = reached(roles, *([] if own is None else [str(own)]), *groups)
        return cls(found, frozenset(UUID(each) for each in found if each not in groups))


class Reason(NamedTuple):
    """The grant or ownership by which a principal may do something."""

    grantee: str
    privilege: str
    """The granted one, or `OWNER`."""
    step: int
    """The place of the path that has the grant."""


def group(name: str) -> str:
    """A group of tokens as a grantee."""
    return f"group:{name}"


def with_implied(privileges: Iterable[str]) -> frozenset[str]:
    """Privileges with those that they hold."""
    given = set(privileges)
    for privilege, holders in IMPLIED_BY.items():
        if not given.isdisjoint(holders):
            given.add(privilege)
    return frozenset(given)


def held(
    grantees: Grantees, path: Sequence[Place], rows: Iterable[tuple[UUID, str, str]]
) -> tuple[frozenset[str], ...]:
    """The privileges on each place of a path, with those that come from above.

    Args:
        grantees: of a principal.
        path: from the account inward.
        rows: grants on any of the places: its id, grantee, privilege.
    """
    granted: defaultdict[UUID, set[str]] = defaultdict(set)
    for place_id, grantee, privilege in rows:
        if grantee in grantees.via:
            granted[place_id].add(privilege)
    found: list[frozenset[str]] = []
    above: frozenset[str] = frozenset()
    for place in path:
        above = ALL if place.owner in grantees.ids else above | with_implied(granted[place.id])
        found.append(above)
    return tuple(found)


def reasons(
    privilege: Privilege, grantees: Grantees, path: Sequence[Place], rows: Iterable[GrantRow]
) -> Iterator[Reason]:
    """Everything that gives a principal a privilege on the last place of a path."""
    steps = {place.id: step for step, place in enumerate(path)}
    for step, place in enumerate(path):
        if place.owner in grantees.ids:
            yield Reason(str(place.owner), OWNER, step)
    for row in rows:
        if row.grantee in grantees.via and privilege in with_implied({row.privilege}):
            yield Reason(row.grantee, row.privilege, steps[row.securable_id])
