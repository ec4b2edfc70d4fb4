"""Access as a whole: what an account has, and what it should have, changed in one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from uuid import UUID

import msgspec

from floecat.access.access_questions import securable_of
from floecat.access.access_service import AccessService
from floecat.access.changes import ACCOUNT, GranteeNames, known_grantee, whole_path
from floecat.access.paths import find_paths
from floecat.access.roles import RoleService, check_role_name
from floecat.auth.actors import Actor
from floecat.auth.authorizer import Privilege, Securable
from floecat.catalog.catalogs import CatalogService
from floecat.errors import BadRequestError, ConflictError
from floecat.fileio.locations import normalize_location
from floecat.store.access import grants, places, roles
from floecat.store.access.roles import RoleRow
from floecat.store.catalogs import catalogs
from floecat.store.catalogs.catalogs import CatalogRow
from floecat.store.database.engine import Connection

__all__ = ["AccessDeclarations", "DeclaredAccess", "DeclaredCatalog", "DeclaredRole", "GrantKey"]

GrantKey = tuple[str, Securable]
"""A grantee as `principal:NAME`, `role:NAME` or `group:NAME`, and what is granted on."""

_AT_ONCE = 1_000


class DeclaredCatalog(msgspec.Struct, frozen=True):
    """A catalog that should be there."""

    storage_location: str
    allowed_locations: tuple[str, ...] = ()


class DeclaredRole(msgspec.Struct, frozen=True):
    """A role that should be there, with exactly these members."""

    members: frozenset[str] = frozenset()
    """As `principal:NAME`, `role:NAME` or `group:NAME`."""
    owner: str | None = None
    """None leaves it as it is."""


class DeclaredAccess(msgspec.Struct, frozen=True):
    """What an account should have. None leaves all of a kind as it is."""

    catalogs: Mapping[str, DeclaredCatalog] | None = None
    """By name. Further ones stay."""
    roles: Mapping[str, DeclaredRole] | None = None
    """By name. Further ones are deleted."""
    grants: Mapping[GrantKey, frozenset[str]] | None = None
    """Privileges. Further grants are revoked."""
    owners: Mapping[Securable, str] | None = None
    """Owners by what they own. Further things keep theirs."""


class AccessDeclarations:
    """Reads and writes what an account has."""

    def __init__(self, access: AccessService, role_service: RoleService, service: CatalogService) -> None:
        self._changes = access.changes
        self._access = access
        self._roles = role_service
        self._catalogs = service

    def export(self, actor: Actor, *, with_tables: bool = False) -> DeclaredAccess:
        """All roles, grants, catalogs and owners of the account.

        Args:
            actor: who asks.
            with_tables: whether owners of tables and views are wanted, too.

        Raises:
            ForbiddenError: the actor may not read access.
        """
        actor.check((Privilege.READ_ACCESS, ACCOUNT))
        with self._changes.store.read() as conn:
            return _stored(conn, actor.account_id, with_tables=with_tables)

    def apply(self, actor: Actor, declared: DeclaredAccess, *, dry_run: bool = False) -> Sequence[str]:
        """Makes the account as it is declared, in one transaction.

        Args:
            actor: who asks; it may do everything in the account.
            declared: what should be there.
            dry_run: whether to change nothing.

        Returns:
            What is changed, a line each; nothing where all is so.

        Raises:
            ForbiddenError: the actor may not do everything in the account.
            BadRequestError: names do not exist, or are malformed; the message has all of them.
            ConflictError: a catalog is elsewhere, a role would be a member of itself, there is too much of
                something, or nobody could grant anything any more.
        """
        actor.check(*((each, ACCOUNT) for each in Privilege))
        return self._changes.run(actor, lambda conn: self._apply(conn, actor, declared), dry_run=dry_run)

    def _apply(self, conn: Connection, actor: Actor, declared: DeclaredAccess) -> Iterator[str]:
        stored = _stored(conn, actor.account_id, with_tables=False)
        owner_ids = _check_names(conn, actor.account_id, declared, stored, self._changes.new_grantee)
        yield from self._apply_catalogs(conn, actor, declared.catalogs or {})
        if declared.roles is not None:
            yield from self._apply_roles(conn, actor, declared.roles, stored.roles or {})
        if declared.grants is not None:
            yield from self._apply_grants(conn, actor, declared.grants, stored.grants or {})
        named = GranteeNames(conn, {str(each) for each in owner_ids.values() if each})
        for on, owner in (declared.owners or {}).items():
            if named.known(owner_ids.get(on)) != owner:
                yield from self._access.give(conn, actor.account_id, on, owner)
        if declared.roles is not None:
            gone = [row for row in roles.list_all(conn, actor.account_id) if row.name not in declared.roles]
            yield from (line for row in gone for line in self._roles.remove(conn, row))
            self._roles.check_bounds(conn, actor)

    def _apply_catalogs(
        self, conn: Connection, actor: Actor, declared: Mapping[str, DeclaredCatalog]
    ) -> Iterator[str]:
        for name, wanted in declared.items():
            row = catalogs.by_name(conn, actor.account_id, name)
            if row is None:
                made = self._catalogs.new_row(
                    actor.account_id, name, wanted.storage_location, wanted.allowed_locations, creator=actor
                )
                catalogs.insert(conn, msgspec.structs.replace(made, owner_id=actor.owner(conn)))
                yield f"create catalog {name} at {made.storage_location}"
                continue
            _check_location(row, wanted)
            allowed = [str(normalize_location(each)) for each in wanted.allowed_locations]
            if more := [each for each in allowed if each not in row.allowed_locations]:
                now_ms, by = self._changes.clock.now_ms(), actor.principal.name
                catalogs.set_allowed_locations(conn, row.id, (*row.allowed_locations, *more), now_ms, by)
                yield f"allow {', '.join(more)} in catalog {name}"

    def _apply_roles(
        self,
        conn: Connection,
        actor: Actor,
        declared: Mapping[str, DeclaredRole],
        stored: Mapping[str, DeclaredRole],
    ) -> Iterator[str]:
        for name in declared.keys() - stored.keys():
            yield from self._roles.insert(conn, actor, name, actor.owner(conn))
        rows = {row.name: row for row in roles.list_all(conn, actor.account_id)}
        for name, wanted in declared.items():
            row, before = rows[name], stored.get(name, DeclaredRole())
            for member in sorted(before.members - wanted.members):
                yield from self._roles.take_out(conn, row, member)
            for member in sorted(wanted.members - before.members):
                yield from self._roles.take_in(conn, row, member)
            if wanted.owner is not None and wanted.owner != before.owner:
                yield from self._own_role(conn, row, wanted.owner)

    def _own_role(self, conn: Connection, row: RoleRow, owner: str) -> Iterator[str]:
        roles.set_owner(conn, row.id, UUID(self._changes.grantee(conn, row.account_id, owner)))
        yield f"{owner} owns role {row.name}"

    def _apply_grants(
        self,
        conn: Connection,
        actor: Actor,
        declared: Mapping[GrantKey, frozenset[str]],
        stored: Mapping[GrantKey, frozenset[str]],
    ) -> Iterator[str]:
        for key in sorted(declared.keys() | stored.keys(), key=str):
            grantee, on = key
            wanted, before = declared.get(key, frozenset[str]()), stored.get(key, frozenset[str]())
            if wanted == before:
                continue
            path = whole_path(conn, actor.account_id, on)
            place_id, thing = path.places[-1].id, path.shown(on)
            find = self._changes.grantee if wanted - before else known_grantee
            known = find(conn, actor.account_id, grantee)
            if more := sorted(wanted - before):
                for each in more:
                    self._access.insert(conn, actor, on, place_id, known, each)
                self._access.check_bound(conn, thing, place_id)
                yield f"grant {', '.join(more)} on {thing} to {grantee}"
            if less := sorted(before - wanted):
                for each in less:
                    grants.delete(conn, actor.account_id, known, place_id, each)
                yield f"revoke {', '.join(less)} on {thing} of {grantee}"


def _stored(conn: Connection, account_id: UUID, *, with_tables: bool) -> DeclaredAccess:
    """What the account has."""
    rows, members = roles.list_all(conn, account_id), roles.members(conn, account_id)
    granted = grants.of_account(conn, account_id)
    owned = places.owned(conn, account_id, with_entries=with_tables)
    owners = {each.owner for each in owned} | {row.owner_id for row in rows}
    named = GranteeNames(
        conn,
        {row.grantee for row in granted} | {member for _, member in members} | set(map(str, owners - {None})),
    )
    within: defaultdict[UUID, set[str]] = defaultdict(set)
    for role_id, member in members:
        within[role_id].add(named.of(member))
    things = {account_id: ACCOUNT}
    named_places = places.named(conn, {row.securable_id for row in granted})
    things = {id: securable_of(place) for id, place in named_places.items()} | {account_id: ACCOUNT}
    privileges: defaultdict[GrantKey, set[str]] = defaultdict(set)
    for row in granted:
        if row.securable_id in things:
            privileges[named.of(row.grantee), things[row.securable_id]].add(row.privilege)
    return DeclaredAccess(
        {
            row.name: DeclaredCatalog(row.storage_location, row.allowed_locations)
            for row in catalogs.list_all(conn, account_id)
        },
        {row.name: DeclaredRole(frozenset(within[row.id]), named.known(row.owner_id)) for row in rows},
        {key: frozenset(found) for key, found in privileges.items()},
        {securable_of(each): owner for each in owned if (owner := named.known(each.owner)) is not None},
    )


def _check_names(
    conn: Connection,
    account_id: UUID,
    declared: DeclaredAccess,
    stored: DeclaredAccess,
    check: Callable[[str], object],
) -> Mapping[Securable, UUID | None]:
    """Refuses what names something that there will not be, with all such names.

    Returns:
        The owners of all that is named and there.

    Raises:
        BadRequestError: names do not exist, or are malformed.
        ConflictError: a role would be a member of itself.
    """
    known = (stored.roles if declared.roles is None else declared.roles) or {}
    problems = dict.fromkeys(_wrong_grantees(declared, known, check))
    owner_ids: dict[Securable, UUID | None] = {}
    things = sorted({on for _, on in declared.grants or {}} | set(declared.owners or {}), key=str)
    for at in range(0, len(things), _AT_ONCE):
        some = things[at : at + _AT_ONCE]
        _, found = find_paths(conn, account_id, some)
        for on, path in zip(some, found, strict=True):
            owner_ids |= {on: path.places[-1].owner} if path.is_whole else {}
            is_made = on.kind == "catalog" and on.catalog in (declared.catalogs or {})
            if not path.is_whole and not is_made:
                problems[f"There is no {path.shown(on)}"] = None
    if problems:
        raise BadRequestError("\n".join(problems))
    try:
        TopologicalSorter(
            {f"role:{name}": role.members for name, role in (declared.roles or {}).items()}
        ).prepare()
    except CycleError as error:
        raise ConflictError(f"Roles would be members of themselves: {' in '.join(error.args[1])}") from None
    return owner_ids


def _wrong_grantees(
    declared: DeclaredAccess, known: Mapping[str, object], check_grantee: Callable[[str], object]
) -> Iterator[str]:
    wanted = [grantee for grantee, _ in declared.grants or {}]
    owners = [*(declared.owners or {}).values()]
    for role in (declared.roles or {}).values():
        wanted += role.members
        owners += [] if role.owner is None else [role.owner]
    for check, text in (
        *((check_role_name, name) for name in declared.roles or {}),
        *((check_grantee, grantee) for grantee in dict.fromkeys((*wanted, *owners))),
    ):
        try:
            check(text)
        except BadRequestError as error:
            yield error.message
    roles_named = (text.removeprefix("role:") for text in (*wanted, *owners) if text.startswith("role:"))
    yield from (f"There is no role {name}" for name in roles_named if name not in known)
    yield from (f"A group owns nothing: {each}" for each in owners if each.startswith("group:"))


def _check_location(row: CatalogRow, wanted: DeclaredCatalog) -> None:
    location = str(normalize_location(wanted.storage_location))
    if location != row.storage_location:
        raise ConflictError(
            f"Catalog {row.name} is at {row.storage_location}, not at {location}: it cannot move"
        )
