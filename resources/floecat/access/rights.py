"""The rights of a principal: by itself, by groups of its token, by roles with one of these as a member."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from floecat.auth.authorizer import Privilege
from floecat.auth.principals import Principal
from floecat.store.access.places import Place
from floecat.store.access.principals import PrincipalRow

__all__ = ["IMPLIED_BY", "OWNER", "Reason", "Rights", "grantees", "group"]

OWNER: Final = "owner"
"""Stands for the privilege in reasons: an owner may do everything with a thing, and below."""

IMPLIED_BY: Final[Mapping[Privilege, frozenset[Privilege]]] = {
    Privilege.USE_CATALOG: frozenset({Privilege.MANAGE_CATALOG}),
    Privilege.LIST_SCHEMA: frozenset({Privilege.USE_SCHEMA}),
    Privilege.LIST_TABLE: frozenset({Privilege.READ_TABLE, Privilege.WRITE_TABLE}),
    Privilege.READ_TABLE: frozenset({Privilege.WRITE_TABLE}),
    Privilege.LIST_VIEW: frozenset({Privilege.READ_VIEW, Privilege.WRITE_VIEW}),
    Privilege.READ_VIEW: frozenset({Privilege.WRITE_VIEW}),
    Privilege.READ_CONNECTORS: frozenset({Privilege.MANAGE_CONNECTORS}),
    Privilege.READ_JOBS: frozenset({Privilege.MANAGE_JOBS}),
}
"""Privileges that hold one more: an engine that may write a table must load it."""


class Reason(NamedTuple):
    """What decides that a principal may do something."""

    grantee: str
    privilege: str
    """The granted one, or `OWNER`."""
    step: int
    """Which place of the path has the grant."""


class Rights(msgspec.Struct, frozen=True):
    """The rights of a principal at one version of its account's access."""

    grantees: Mapping[str, str | None]
    """It, its groups and its roles, in the order of reasons, each with the member that makes it one."""
    of_grantee: Callable[[str], Mapping[UUID, frozenset[str]]]

    def has(self, privilege: Privilege, path: Sequence[Place]) -> bool:
        """Whether it has a privilege on the last place of a path, by itself or by one above."""
        return next(self.reasons(privilege, path), None) is not None

    def reasons(self, privilege: Privilege, path: Sequence[Place]) -> Iterator[Reason]:
        """Everything that gives it a privilege."""
        for grantee in self.grantees:
            granted = self.of_grantee(grantee)
            for step, place in enumerate(path):
                if place.owner is not None and str(place.owner) == grantee:
                    yield Reason(grantee, OWNER, step)
                for each in sorted(granted.get(place.id, ())):
                    if each == privilege or each in _implying(privilege):
                        yield Reason(grantee, each, step)


def grantees(
    principal: Principal, row: PrincipalRow | None, members: Iterable[tuple[UUID, str]]
) -> dict[str, str | None]:
    """All that a principal has rights by.

    Args:
        principal: whose groups its token names.
        row: its row, if it has one; a disabled principal has rights by nothing.
        members: every role with each of its members.
    """
    if row is not None and row.disabled:
        return {}
    roles: defaultdict[str, list[str]] = defaultdict(list)
    for role_id, member in members:
        roles[member].append(str(role_id))
    found: dict[str, str | None] = dict.fromkeys(map(group, principal.groups))
    if row is not None:
        found = {str(row.id): None, **found}
    waiting = list(found)
    for grantee in waiting:  # grows meanwhile
        for role in roles[grantee]:
            if role not in found:
                found[role] = grantee
                waiting.append(role)
    return found


def group(name: str) -> str:
    """A group of tokens as a grantee."""
    return f"group:{name}"


def _implying(privilege: Privilege) -> frozenset[Privilege]:
    direct = IMPLIED_BY.get(privilege, frozenset())
    return direct.union(*map(_implying, direct))
