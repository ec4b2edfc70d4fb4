"""Roles and their members."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final
from uuid import UUID

import msgspec
import uuid_utils.compat as uuids

from floecat.access.access_service import AccessService
from floecat.access.changes import ACCOUNT, LONGEST_NAME, AccessChanges, GranteeNames, known_grantee, role_of
from floecat.access.memberships import above, reached
from floecat.access.paths import find_paths
from floecat.access.stored_authorizer import StoredAuthorizer
from floecat.auth.actors import Actor
from floecat.auth.authorizer import Privilege, Securable
from floecat.errors import AlreadyExistsError, BadRequestError, ConflictError, ForbiddenError, NotFoundError
from floecat.store import page_tokens
from floecat.store.access import grants, roles
from floecat.store.access.roles import RoleRow
from floecat.store.database.engine import Connection
from floecat.store.database.errors import DuplicateKeyError
from floecat.store.record_pages import Page, page_of

__all__ = ["Role", "RoleService", "check_role_name"]


_MOST_CHANGES: Final = 1_000
"""Of members in one request."""


class Role(msgspec.Struct, frozen=True):
    """A role."""

    name: str
    owner: str | None
    """Who changes it, as `principal:NAME` or `role:NAME`."""
    created_at_ms: int
    members: tuple[str, ...] = ()
    """As `principal:NAME`, `role:NAME` or `group:NAME`."""


class RoleService:
    """Changes roles, each change in one transaction with its line of history."""

    def __init__(self, changes: AccessChanges, authorizer: StoredAuthorizer, access: AccessService) -> None:
        self._changes = changes
        self._access = access
        self._authorizer = authorizer

    def list(self, actor: Actor) -> Sequence[Role]:
        """The roles of the account with their members, by name.

        Raises:
            ForbiddenError: the actor may not read access.
        """
        actor.check((Privilege.READ_ACCESS, ACCOUNT))
        with self._changes.store.read() as conn:
            rows = roles.list_all(conn, actor.account_id)
            return _described(conn, rows, roles.members(conn, actor.account_id))

    def page(self, actor: Actor, token: str | None, limit: int) -> Page[Role]:
        """A page of the roles of the account, by name, without their members.

        Raises:
            ForbiddenError: the actor may not read access.
            BadRequestError: the token is of another listing.
        """
        actor.check((Privilege.READ_ACCESS, ACCOUNT))
        scope = f"roles {actor.account_id}"
        after = page_tokens.decode(token, scope) if token else ""
        with self._changes.store.read() as conn:
            rows = roles.list_all(conn, actor.account_id, after, limit + 1)
            found = page_of(rows, limit, scope, lambda row: row.name)
            return Page(_described(conn, found.items, ()), found.next_token)

    def get(self, actor: Actor, name: str) -> Role:
        """A role, without its members.

        Raises:
            ForbiddenError: the actor may not read access.
            NotFoundError: there is no such role.
        """
        actor.check((Privilege.READ_ACCESS, ACCOUNT))
        with self._changes.store.read() as conn:
            (role,) = _described(conn, [role_of(conn, actor.account_id, name)], ())
        return role

    def members(self, actor: Actor, name: str, token: str | None, limit: int) -> Page[str]:
        """A page of the members of a role, as `principal:NAME`, `role:NAME` or `group:NAME`.

        Raises:
            ForbiddenError: the actor may not read access.
            NotFoundError: there is no such role.
            BadRequestError: the token is of another listing.
        """
        actor.check((Privilege.READ_ACCESS, ACCOUNT))
        with self._changes.store.read() as conn:
            row = role_of(conn, actor.account_id, name)
            scope = f"members of {row.id}"
            after = page_tokens.decode(token, scope) if token else ""
            found = page_of(roles.members_of(conn, row.id, after, limit + 1), limit, scope, str)
            named = GranteeNames(conn, found.items)
        return Page([named.of(each) for each in found.items], found.next_token)

    def create(
        self, actor: Actor, name: str, granted: Sequence[tuple[Securable, Sequence[Privilege]]] = ()
    ) -> Sequence[str]:
        """Creates a role, which its creator owns. Returns the lines of history.

        Args:
            actor: who creates it.
            name: its name.
            granted: privileges that it gets, by what they are on.

        Raises:
            ForbiddenError: the actor may not create roles, or not grant this.
            NotFoundError: there is no such thing.
            BadRequestError: the name is empty, too long, or no plain text.
            AlreadyExistsError: the account has a role of this name.
            ConflictError: it has too many.
        """
        given = [(each, on) for on, privileges in granted for each in (Privilege.MANAGE_GRANTS, *privileges)]
        actor.check((Privilege.MANAGE_ROLES, ACCOUNT), *given)
        check_role_name(name)

        def work(conn: Connection) -> Sequence[str]:
            lines = [*self.insert(conn, actor, name, actor.owner(conn))]
            for on, privileges in granted:
                lines += self._access.give_privileges(conn, actor, privileges, on, f"role:{name}")
            self.check_bounds(conn, actor)
            return lines

        try:
            return self._changes.run(actor, work)
        except DuplicateKeyError:
            raise AlreadyExistsError(f"Role already exists: {name}") from None

    def delete(self, actor: Actor, name: str) -> None:
        """Deletes a role with its members and grants; what it owns keeps no owner.

        Raises:
            ForbiddenError: the actor may not change the role.
            NotFoundError: there is no such role.
            ConflictError: nobody could grant anything any more.
        """
        find = self._changing(actor)
        self._changes.run(actor, lambda conn: self.remove(conn, find(conn, name)))

    def change_members(
        self, actor: Actor, name: str, *, add: Iterable[str] = (), remove: Iterable[str] = ()
    ) -> Sequence[str]:
        """Makes principals, roles and groups of tokens members of a role, and takes others out.

        Returns:
            What was changed, a line each.

        Raises:
            ForbiddenError: the actor may not change the role.
            BadRequestError: a member is malformed.
            NotFoundError: there is no such role.
            ConflictError: the role would be a member of itself, or there are too many members.
        """
        added, removed = _changes(add, remove)
        find = self._changing(actor)

        def work(conn: Connection) -> list[str]:
            row = find(conn, name)
            found = [line for each in removed for line in self.take_out(conn, row, each)]
            within = reached(above(conn, row.account_id), str(row.id))
            for each in added:
                if self._changes.grantee(conn, row.account_id, each) in within:
                    raise ConflictError(f"Role {name} would be a member of itself by {each}")
                found += self.take_in(conn, row, each)
            self.check_bounds(conn, actor)
            return found

        return self._changes.run(actor, work)

    def change_roles(
        self, actor: Actor, member: str, *, add: Iterable[str] = (), remove: Iterable[str] = ()
    ) -> Sequence[str]:
        """Makes a principal, role or group a member of roles, and takes it out of others, all at once.

        Returns:
            The roles that it is in itself afterwards, by name; an actor that may not read access is
            told of those that it gives alone.

        Raises:
            ForbiddenError: the actor may not change one of the roles, or names none and may not read access.
            BadRequestError: the member is malformed, one of the roles does not exist, or there are too many.
            NotFoundError: there is no such principal or role.
            ConflictError: a role would be a member of itself, or there are too many members.
        """
        added, removed = _changes(add, remove)
        (may_read,) = actor.allowed([(Privilege.READ_ACCESS, ACCOUNT)])
        if not may_read and not (added or removed):
            raise actor.refusal((Privilege.READ_ACCESS, ACCOUNT))
        find = self._changing(actor)
        after: list[str] = []

        def work(conn: Connection) -> list[str]:
            try:
                given, taken = ([find(conn, name) for name in names] for names in (added, removed))
            except NotFoundError as error:
                raise BadRequestError(error.message) from None
            stored = known_grantee(conn, actor.account_id, member)
            within = above(conn, actor.account_id)
            found = [line for row in taken for line in self.take_out(conn, row, member)]
            for row in given:
                if member.startswith("role:") and stored in reached(within, str(row.id)):
                    raise ConflictError(f"Role {row.name} would be a member of itself by {member}")
                found += self.take_in(conn, row, member)
            self.check_bounds(conn, actor)
            held = self._of(conn, actor.account_id, stored)
            after[:] = held if may_read else [name for name in held if name in added]
            return found

        self._changes.run(actor, work)
        return after

    def of(self, actor: Actor, member: str) -> Sequence[str]:
        """The roles that a principal, role or group of tokens is in itself, by name.

        Raises:
            ForbiddenError: the actor may not read access.
            NotFoundError: there is no such principal or role.
        """
        actor.check((Privilege.READ_ACCESS, ACCOUNT))
        with self._changes.store.read() as conn:
            return self._of(conn, actor.account_id, known_grantee(conn, actor.account_id, member))

    def _of(self, conn: Connection, account_id: UUID, stored: str) -> Sequence[str]:
        ids = [UUID(role) for _, role in roles.roles_of(conn, account_id, [stored])]
        return sorted(roles.names(conn, ids).values())

    def check_bounds(self, conn: Connection, actor: Actor) -> None:
        """Refuses what a transaction has made too much of.

        Raises:
            ConflictError: there are too many roles or members.
        """
        limits = self._changes.limits
        if roles.count(conn, actor.account_id) > limits.roles:
            raise ConflictError(f"An account has at most {limits.roles} roles (floecat.limits.roles)")
        if roles.count_members(conn, actor.account_id) > limits.role_members:
            raise ConflictError(
                f"The roles of an account have at most {limits.role_members} members together"
                " (floecat.limits.role-members)"
            )

    def insert(self, conn: Connection, actor: Actor, name: str, owner_id: UUID | None) -> Sequence[str]:
        """Inserts a role in a transaction. Returns the line of history.

        Raises:
            DuplicateKeyError: the account has a role of this name.
        """
        now_ms = self._changes.clock.now_ms()
        roles.insert(conn, RoleRow(uuids.uuid7(), actor.account_id, name, now_ms, owner_id))
        return [f"create role {name}"]

    def remove(self, conn: Connection, row: RoleRow) -> Sequence[str]:
        """Deletes a role in a transaction. Returns the line of history."""
        grants.delete_of_grantee(conn, row.account_id, str(row.id))
        roles.remove_everywhere(conn, str(row.id))
        roles.delete(conn, row.id)
        return [f"delete role {row.name}"]

    def take_in(self, conn: Connection, role: RoleRow, member: str) -> Sequence[str]:
        """Adds a member in a transaction. Returns the line of history, if it was none before."""
        text = self._changes.grantee(conn, role.account_id, member)
        return [f"add {member} to role {role.name}"] if roles.add_member(conn, role.id, text) else []

    def take_out(self, conn: Connection, role: RoleRow, member: str) -> Sequence[str]:
        """Removes a member in a transaction. Returns the line of history, if it was one."""
        text = known_grantee(conn, role.account_id, member)
        return [f"remove {member} from role {role.name}"] if roles.remove_member(conn, role.id, text) else []

    def _changing(self, actor: Actor) -> Callable[[Connection, str], RoleRow]:
        """Looks roles up that the actor may change, once it has the transaction.

        An operator may, who may do everything in the account; its owner; who may manage roles and is in it.
        """
        rights = dict(zip(Privilege, actor.allowed([(each, ACCOUNT) for each in Privilege]), strict=True))

        def find(conn: Connection, name: str) -> RoleRow:
            row = roles.find(conn, actor.account_id, name) if "\0" not in name else None
            if not all(rights.values()):
                version, _ = find_paths(conn, actor.account_id, [])
                grantees = self._authorizer.grantees(conn, actor.principal, version or 0)
                if row is None or row.owner_id not in grantees.ids:
                    if not rights[Privilege.MANAGE_ROLES]:
                        raise actor.refusal((Privilege.MANAGE_ROLES, ACCOUNT))
                    if row is not None and str(row.id) not in grantees.via:
                        raise ForbiddenError(f"{actor.principal.name} neither owns role {name} nor is in it")
            if row is None:
                raise NotFoundError(f"There is no role {name[:LONGEST_NAME]}")
            return row

        return find


def check_role_name(name: str) -> None:
    """Refuses a name that no role can have.

    Raises:
        BadRequestError: it is empty, too long, or no plain text.
    """
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable() or ":" in name:
        raise BadRequestError(f"Invalid name of a role: {name[:LONGEST_NAME]!r}")


def _changes(add: Iterable[str], remove: Iterable[str]) -> tuple[Sequence[str], Sequence[str]]:
    added, removed = tuple(dict.fromkeys(add)), tuple(dict.fromkeys(remove))
    if len(added) + len(removed) > _MOST_CHANGES:
        raise BadRequestError(f"Too many changes of members: at most {_MOST_CHANGES} at a time")
    return added, removed


def _described(conn: Connection, rows: Sequence[RoleRow], members: Sequence[tuple[UUID, str]]) -> list[Role]:
    wanted = {row.id for row in rows}
    within: dict[UUID, list[str]] = {id: [] for id in wanted}
    for role_id, member in members:
        if role_id in wanted:
            within[role_id].append(member)
    owners = [str(row.owner_id) for row in rows if row.owner_id]
    named = GranteeNames(conn, [*owners, *(each for found in within.values() for each in found)])
    return [
        Role(
            row.name,
            named.of(str(row.owner_id)) if row.owner_id else None,
            row.created_at_ms,
            tuple(sorted(map(named.of, within[row.id]))),
        )
        for row in rows
    ]
