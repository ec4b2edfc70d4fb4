"""Answers to who may do what, and why."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final
from uuid import UUID

import msgspec

from floecat.access.changes import ACCOUNT, AccessChanges, GranteeNames, known_grantee, whole_path
from floecat.access.memberships import below, reached, way
from floecat.access.paths import find_paths
from floecat.access.rights import IMPLIED_BY, OWNER, Reason, reasons
from floecat.access.stored_authorizer import StoredAuthorizer
from floecat.auth.actors import Actor
from floecat.auth.authorizer import Privilege, Securable
from floecat.auth.principals import Principal
from floecat.store import page_tokens
from floecat.store.access import grants, places, roles
from floecat.store.access.grants import AccessChange, GrantRow
from floecat.store.access.places import NamedPlace
from floecat.store.database.engine import Connection
from floecat.store.record_pages import Page, page_of

__all__ = [
    "AccessChange",
    "AccessExplanation",
    "AccessQuestions",
    "Grant",
    "Holder",
    "OwnAccess",
    "securable_of",
]

_FIRST: Final = UUID(int=0)
_NEWEST: Final = 1 << 62
_MOST_REASONS: Final = 100
"""Reasons of an explanation that are told."""


class Grant(msgspec.Struct, frozen=True):
    """A grant."""

    grantee: str
    """As `principal:NAME`, `role:NAME` or `group:NAME`."""
    privilege: str
    on: Securable
    granted_by: str
    granted_at_ms: int


class Holder(msgspec.Struct, frozen=True):
    """Somebody who may do something with a thing."""

    grantee: str
    privilege: str
    """The granted one, or `owner`."""
    on: str
    """The place of the path that has the grant."""


class AccessExplanation(msgspec.Struct, frozen=True):
    """The reasons why a principal may do something, or not."""

    allowed: bool
    reasons: tuple[str, ...]
    """Each way in which it is allowed; else what would be needed."""


class OwnAccess(msgspec.Struct, frozen=True):
    """What a principal may know of itself."""

    name: str
    groups: tuple[str, ...]
    """Groups that its token names."""
    roles: tuple[str, ...]
    """Roles by which it has rights, directly or not."""
    privileges: tuple[str, ...]
    """Privileges on the thing that it asked about."""


class AccessQuestions:
    """Answers questions about access."""

    def __init__(self, changes: AccessChanges, authorizer: StoredAuthorizer) -> None:
        self._store = changes.store
        self._authorizer = authorizer

    def explain(
        self, actor: Actor, principal: Principal, privilege: Privilege, on: Securable
    ) -> AccessExplanation:
        """Explains why a principal may do something with a thing, or what it lacks.

        Everybody may ask about itself; who may not read the access of the thing is not told what is missing.

        Args:
            actor: who asks.
            principal: of its account, with the groups that its token would name.
            privilege: what it would do.
            on: with which thing.

        Raises:
            ForbiddenError: the actor may not read the access of the thing.
        """
        if (principal.name, principal.groups) != (actor.principal.name, actor.principal.groups):
            actor.check((Privilege.READ_ACCESS, on))
            may_read = True
        else:
            (may_read,) = actor.allowed([(Privilege.READ_ACCESS, on)])
        with self._store.read() as conn:
            version, (path,) = find_paths(conn, actor.account_id, [on])
            grantees = self._authorizer.grantees(conn, principal, version or 0)
            if grantees.disabled:
                return AccessExplanation(False, (f"{grantees.disabled} is disabled",))
            if self._authorizer.is_operator(principal):
                return AccessExplanation(True, ("its token names the group of operators",))
            rows = grants.of_securables(conn, [place.id for place in path.places])
            found = list(islice(reasons(privilege, grantees, path.places, rows), _MOST_REASONS))
            ways = [tuple(way(grantees.via, reason.grantee))[::-1] for reason in found]
            named = GranteeNames(conn, {each for steps in ways for each in steps})
        if found:
            told = (
                _told(reason, path.shown(path.steps[reason.step][0]), named.path(steps))
                for reason, steps in zip(found, ways, strict=True)
            )
            return AccessExplanation(True, tuple(told))
        needed = " or ".join([privilege, *sorted(IMPLIED_BY.get(privilege, ()))])
        if not may_read:
            return AccessExplanation(False, (f"{needed} is needed on {on}, or on what it is in",))
        where = ", ".join(path.shown(step) for step, _ in path.steps)
        return AccessExplanation(False, (f"{needed} is needed on one of: {where}",))

    def own(self, actor: Actor, on: Securable) -> OwnAccess:
        """What the actor is, and may do with a thing. Everybody may ask."""
        allowed = actor.allowed([(each, on) for each in Privilege])
        principal = actor.principal
        with self._store.read() as conn:
            version, _ = find_paths(conn, actor.account_id, [])
            via = self._authorizer.grantees(conn, principal, version or 0).via
            found = [each.name for each in roles.list_all(conn, actor.account_id) if str(each.id) in via]
        privileges = tuple(each for each, may in zip(Privilege, allowed, strict=True) if may)
        return OwnAccess(principal.name, principal.groups, tuple(found), privileges)

    def who(self, actor: Actor, on: Securable, privilege: Privilege | None, limit: int) -> Sequence[Holder]:
        """Finds who may do something with a thing, through which grant; members of roles as well.

        Args:
            actor: who asks.
            on: the thing.
            privilege: only those who have this one.
            limit: most of them.

        Raises:
            ForbiddenError: the actor may not read the access of the thing.
            NotFoundError: there is no such thing.
        """
        actor.check((Privilege.READ_ACCESS, on))
        account_id = actor.account_id
        with self._store.read() as conn:
            path = whole_path(conn, account_id, on)
            steps = {place.id: path.shown(step) for step, place in path.steps}
            found = [(str(place.owner), OWNER, steps[place.id]) for place in path.places if place.owner]
            found += [
                (row.grantee, row.privilege, steps[row.securable_id])
                for row in grants.of_securables(conn, list(steps))
            ]
            members_of = below(conn)
            implying = {OWNER, privilege, *(IMPLIED_BY.get(privilege, ()) if privilege else ())}
            holders = (
                (tuple(way(ends, member)), granted, step)
                for grantee, granted, step in found
                if privilege is None or granted in implying
                for ends in (reached(members_of, grantee, most=limit),)
                for member in ends
            )
            shown = list(islice(holders, limit))
            named = GranteeNames(conn, {each for members, *_ in shown for each in members})
        return [Holder(named.path(members), granted, step) for members, granted, step in shown]

    def grants_on(self, actor: Actor, on: Securable, token: str | None, limit: int) -> Page[Grant]:
        """A page of the grants on a thing itself, by grantee and privilege.

        Raises:
            ForbiddenError: the actor may not read the access of the thing.
            NotFoundError: there is no such thing.
            BadRequestError: the token is of another listing.
        """
        actor.check((Privilege.READ_ACCESS, on))
        with self._store.read() as conn:
            id = whole_path(conn, actor.account_id, on).places[-1].id
            after = page_tokens.decode(token, f"grants on {id}") if token else ""
            grantee, _, privilege = after.rpartition(" ")  # names have blanks, privileges none
            rows = [
                row
                for row in grants.of_securables(conn, [id])
                if (row.grantee, row.privilege) > (grantee, privilege)
            ]
            found = page_of(rows, limit, f"grants on {id}", lambda row: f"{row.grantee} {row.privilege}")
            return Page(self._described(conn, found.items, {id: on}), found.next_token)

    def grants_to(self, actor: Actor, grantee: str, token: str | None, limit: int) -> Page[Grant]:
        """A page of the grants to a grantee, wherever in the account.

        Raises:
            ForbiddenError: the actor may not read access.
            NotFoundError: there is no such role or principal.
            BadRequestError: the grantee is malformed, or the token of another listing.
        """
        actor.check((Privilege.READ_ACCESS, ACCOUNT))
        account_id = actor.account_id
        with self._store.read() as conn:
            stored = known_grantee(conn, account_id, grantee)
            scope = f"grants to {stored}"
            after = page_tokens.decode_as(token, scope, _grant_on) if token else (_FIRST, "")
            rows = grants.of_grantee(conn, account_id, stored, after, limit + 1)
            found = page_of(rows, limit, scope, lambda row: f"{row.securable_id} {row.privilege}")
            named = places.named(conn, {row.securable_id for row in found.items})
            things = {id: securable_of(place) for id, place in named.items()} | {account_id: ACCOUNT}
            return Page(self._described(conn, found.items, things), found.next_token)

    def owner(self, actor: Actor, on: Securable) -> str | None:
        """The owner of a catalog, namespace, table or view, as `principal:NAME` or `role:NAME`.

        Raises:
            ForbiddenError: the actor may not read the access of the thing.
            NotFoundError: there is no such thing.
        """
        actor.check((Privilege.READ_ACCESS, on))
        with self._store.read() as conn:
            owner = whole_path(conn, actor.account_id, on).places[-1].owner
            return None if owner is None else GranteeNames(conn, [str(owner)]).of(str(owner))

    def history(self, actor: Actor, token: str | None, limit: int) -> Page[AccessChange]:
        """A page of the changes of access in the account, the newest first.

        Raises:
            ForbiddenError: the actor may not read access.
            BadRequestError: the token is of another listing.
        """
        actor.check((Privilege.READ_ACCESS, ACCOUNT))
        scope = f"access history {actor.account_id}"
        before = page_tokens.decode_as(token, scope, int) if token else _NEWEST
        with self._store.read() as conn:
            rows = grants.history(conn, actor.account_id, before, limit + 1)
        return page_of(rows, limit, scope, lambda row: str(row.access_version))

    def _described(
        self, conn: Connection, rows: Sequence[GrantRow], things: dict[UUID, Securable]
    ) -> list[Grant]:
        named = GranteeNames(conn, {row.grantee for row in rows})
        return [
            Grant(
                named.of(row.grantee),
                row.privilege,
                things[row.securable_id],
                row.granted_by,
                row.granted_at_ms,
            )
            for row in rows
            if row.securable_id in things  # dropped meanwhile
        ]


def securable_of(place: NamedPlace) -> Securable:
    """The securable that a place is named by."""
    return Securable(place.kind, place.catalog, place.levels, place.name)


def _grant_on(key: str) -> tuple[UUID, str]:
    id, _, privilege = key.partition(" ")
    return UUID(id), privilege


def _told(reason: Reason, step: str, through: str) -> str:
    what = "is owner of" if reason.privilege == OWNER else f"has {reason.privilege} on"
    return f"{through} {what} {step}"
