"""Roles, grants and owners: what an operator changes, and the answers to who may do what, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from uuid import UUID

import msgspec
import uuid_utils.compat as uuids

from floecat.access.paths import Path, find_paths
from floecat.access.rights import IMPLIED_BY, OWNER, Grantees, Reason, group, reasons
from floecat.access.stored_authorizer import StoredAuthorizer
from floecat.auth.authorizer import Privilege, Securable
from floecat.auth.principals import Principal
from floecat.clock import Clock
from floecat.errors import AlreadyExistsError, BadRequestError, ConflictError, NotFoundError
from floecat.store.access import grants, places, principals
from floecat.store.access.grants import AccessChange, GrantRow
from floecat.store.access.principals import PrincipalRow, RoleRow
from floecat.store.catalogs import accounts
from floecat.store.database.engine import Connection, Store
from floecat.store.database.errors import DuplicateKeyError

__all__ = ["AccessExplanation", "AccessService", "Holder", "Role"]

_LONGEST_NAME = 255


class Role(msgspec.Struct, frozen=True):
    """A role and its members, as `principal:NAME`, `role:NAME` or `group:NAME`."""

    name: str
    members: tuple[str, ...]


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


class AccessService:
    """Changes access, each change in one transaction with its line of history, and answers questions."""

    def __init__(self, store: Store, clock: Clock, authorizer: StoredAuthorizer) -> None:
        self._store = store
        self._clock = clock
        self._authorizer = authorizer

    def roles(self, account_id: UUID) -> Sequence[Role]:
        """The roles of an account, by name."""
        with self._store.read() as conn:
            found = principals.roles(conn, account_id)
            members = principals.members(conn, account_id)
            named = _Names(conn, account_id)
            return [
                Role(role.name, tuple(named.of(member) for id, member in members if id == role.id))
                for role in found
            ]

    def create_role(self, account_id: UUID, name: str, by: str) -> None:
        """Creates a role.

        Raises:
            BadRequestError: the name is empty, too long, or no plain text.
            AlreadyExistsError: the account has a role of this name.
        """
        if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable() or ":" in name:
            raise BadRequestError(f"Invalid name of a role: {name[:_LONGEST_NAME]!r}")

        def work(conn: Connection) -> str:
            principals.insert_role(conn, RoleRow(uuids.uuid7(), account_id, name, self._clock.now_ms()))
            return f"create role {name}"

        try:
            self._change(account_id, by, work)
        except DuplicateKeyError:
            raise AlreadyExistsError(f"Role already exists: {name}") from None

    def delete_role(self, account_id: UUID, name: str, by: str) -> None:
        """Deletes a role with its members and grants; what it owns keeps no owner.

        Raises:
            NotFoundError: there is no such role.
        """

        def work(conn: Connection) -> str:
            role = _role(conn, account_id, name)
            grants.delete_of_grantee(conn, account_id, str(role.id))
            for other, member in principals.members(conn, account_id):
                if member == str(role.id):
                    principals.remove_member(conn, other, member)
            principals.delete_role(conn, role.id)
            return f"delete role {name}"

        self._change(account_id, by, work)

    def add_member(self, account_id: UUID, role: str, member: str, by: str) -> bool:
        """Makes a principal, role or group of tokens a member of a role. Returns whether it was none before.

        Raises:
            BadRequestError: the member is malformed.
            NotFoundError: there is no such role.
            ConflictError: the role would be a member of itself.
        """

        def work(conn: Connection) -> str | None:
            found = _role(conn, account_id, role)
            text = self._grantee(conn, account_id, member)
            if text in _within(principals.members(conn, account_id), str(found.id)):
                raise ConflictError(f"Role {role} would be a member of itself by {member}")
            added = principals.add_member(conn, found.id, text)
            return f"add {member} to role {role}" if added else None

        return self._change(account_id, by, work)

    def remove_member(self, account_id: UUID, role: str, member: str, by: str) -> bool:
        """Takes a member out of a role. Returns whether it was one.

        Raises:
            BadRequestError: the member is malformed.
            NotFoundError: there is no such role.
        """

        def work(conn: Connection) -> str | None:
            found = _role(conn, account_id, role)
            removed = principals.remove_member(conn, found.id, self._grantee(conn, account_id, member))
            return f"remove {member} from role {role}" if removed else None

        return self._change(account_id, by, work)

    def grant(
        self, account_id: UUID, privileges: Sequence[Privilege], on: Securable, to: str, by: str
    ) -> Sequence[Privilege]:
        """Grants privileges on a thing and all below. Returns those that were not granted before.

        Raises:
            BadRequestError: the grantee is malformed.
            NotFoundError: there is no such thing, or no such role.
        """
        now_ms = self._clock.now_ms()

        def insert(conn: Connection, grantee: str, place_id: UUID, privilege: Privilege) -> bool:
            row = GrantRow(account_id, grantee, place_id, privilege, on.kind, by, now_ms)
            return grants.insert(conn, row)

        return self._change_grants(account_id, privileges, on, to, by, insert, "grant {} on {} to {}")

    def revoke(
        self, account_id: UUID, privileges: Sequence[Privilege], on: Securable, of: str, by: str
    ) -> Sequence[Privilege]:
        """Takes privileges on a thing back. Returns those that were granted on it, and not above.

        Raises:
            BadRequestError: the grantee is malformed.
            NotFoundError: there is no such thing, or no such role.
        """

        def delete(conn: Connection, grantee: str, place_id: UUID, privilege: Privilege) -> bool:
            return grants.delete(conn, account_id, grantee, place_id, privilege)

        return self._change_grants(account_id, privileges, on, of, by, delete, "revoke {} on {} of {}")

    def set_owner(self, account_id: UUID, on: Securable, owner: str, by: str) -> None:
        """Makes a principal or a role the owner of a catalog, namespace, table or view.

        Raises:
            BadRequestError: the owner is a group of tokens, or the thing the account.
            NotFoundError: there is no such thing, or no such role.
        """

        def work(conn: Connection) -> str:
            path = _whole(conn, account_id, on)
            grantee = self._grantee(conn, account_id, owner)
            if on.kind == "account" or grantee.startswith(group("")):
                raise BadRequestError(
                    "A catalog, namespace, table or view has an owner: a principal or a role"
                )
            places.set_owner(conn, on.kind, path.places[-1].id, UUID(grantee))
            return f"{owner} owns {on}"

        self._change(account_id, by, work)

    def set_disabled(self, account_id: UUID, name: str, by: str, *, disabled: bool) -> None:
        """Disables a principal, which may do nothing from its next request on, or enables it.

        Raises:
            BadRequestError: the name is malformed.
        """

        def work(conn: Connection) -> str:
            row_id = UUID(self._grantee(conn, account_id, f"principal:{name}"))
            principals.set_disabled(conn, row_id, disabled=disabled)
            return f"{'disable' if disabled else 'enable'} principal {name}"

        self._change(account_id, by, work)

    def explain(self, principal: Principal, privilege: Privilege, on: Securable) -> AccessExplanation:
        """Explains why a principal may do something with a thing, or what it lacks.

        Args:
            principal: with the groups that its token would name.
        """
        account_id = principal.account_id
        with self._store.read() as conn:
            version, (path,) = find_paths(conn, account_id, [on])
            grantees = self._authorizer.grantees(conn, principal, version or 0)
            if grantees.disabled:
                return AccessExplanation(False, (f"{grantees.disabled} is disabled",))
            if self._authorizer.is_operator(principal):
                return AccessExplanation(True, ("its token names the group of operators",))
            rows = grants.of_securables(conn, [place.id for place in path.places])
            named = _Names(conn, account_id)
            found = [
                _told(reason, path, grantees, named)
                for reason in reasons(privilege, grantees, path.places, rows)
            ]
        if found:
            return AccessExplanation(True, tuple(found))
        needed = " or ".join([privilege, *sorted(IMPLIED_BY.get(privilege, ()))])
        where = ", ".join(str(step) for step, _ in path.steps)
        return AccessExplanation(False, (f"{needed} is needed on one of: {where}",))

    def who(self, account_id: UUID, on: Securable, privilege: Privilege | None = None) -> Sequence[Holder]:
        """Finds who may do something with a thing, through which grant; members of roles as well.

        Raises:
            NotFoundError: there is no such thing.
        """
        with self._store.read() as conn:
            path = _whole(conn, account_id, on)
            named = _Names(conn, account_id)
            steps = {place.id: str(step) for step, place in path.steps}
            found = [
                (str(place.owner), OWNER, str(step)) for step, place in path.steps if place.owner is not None
            ]
            found += [
                (row.grantee, row.privilege, steps[row.securable_id])
                for row in grants.of_securables(conn, list(steps))
            ]
            members = principals.members(conn, account_id)
            implying = {OWNER, privilege, *(IMPLIED_BY.get(privilege, ()) if privilege else ())}
            return [
                Holder(named.path(each, grantee), granted, on_step)
                for grantee, granted, on_step in found
                if privilege is None or granted in implying
                for each in _below(members, grantee)
            ]

    def history(self, account_id: UUID, limit: int) -> Sequence[AccessChange]:
        """The last changes, the newest first."""
        with self._store.read() as conn:
            return grants.history(conn, account_id, 1 << 62, limit)

    def _change_grants(
        self,
        account_id: UUID,
        privileges: Sequence[Privilege],
        on: Securable,
        grantee: str,
        by: str,
        change: Callable[[Connection, str, UUID, Privilege], bool],
        told: str,
    ) -> Sequence[Privilege]:
        """Changes the grant of each privilege. Returns those whose grant was changed."""
        changed: list[Privilege] = []

        def work(conn: Connection) -> str | None:
            place_id = _whole(conn, account_id, on).places[-1].id
            stored = self._grantee(conn, account_id, grantee)
            changed[:] = [
                privilege
                for privilege in dict.fromkeys(privileges)
                if change(conn, stored, place_id, privilege)
            ]
            return told.format(", ".join(changed), on, grantee) if changed else None

        self._change(account_id, by, work)
        return changed

    def _change(self, account_id: UUID, by: str, work: Callable[[Connection], str | None]) -> bool:
        """Makes a change, and its line of history if anything changed. Returns whether it did."""

        def run(conn: Connection) -> bool:
            now_ms = self._clock.now_ms()
            accounts.ensure(conn, account_id, now_ms)
            # first, as what creates something does: no two transactions wait for each other
            grants.lock(conn, account_id)
            change = work(conn)
            if change is not None:
                grants.record(conn, account_id, by, change, now_ms)
            return change is not None

        return self._store.run(run)

    def _grantee(self, conn: Connection, account_id: UUID, text: str) -> str:
        """A grantee as the store writes it; a principal that never came gets a row.

        Raises:
            BadRequestError: it is malformed.
            NotFoundError: there is no such role.
        """
        kind, _, name = text.partition(":")
        if kind == "role" and name:
            return str(_role(conn, account_id, name).id)
        if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
            kind = ""
        if kind == "group":
            return group(name)
        if kind != "principal":
            raise BadRequestError(
                f"Invalid grantee: {text[:_LONGEST_NAME]!r}, expected principal:NAME, role:NAME or group:NAME"
            )
        row = PrincipalRow(uuids.uuid7(), account_id, name, False, self._clock.now_ms())
        principals.ensure(conn, row)
        found = principals.find(conn, account_id, name) or row
        return str(found.id)


class _Names:
    """The names of grantees, for people."""

    def __init__(self, conn: Connection, account_id: UUID) -> None:
        self._names = {str(role.id): f"role:{role.name}" for role in principals.roles(conn, account_id)}
        self._conn = conn

    def of(self, grantee: str) -> str:
        """A grantee as it is typed."""
        if grantee not in self._names and not grantee.startswith(group("")):
            row = principals.get(self._conn, UUID(grantee))
            self._names[grantee] = f"principal:{row.name}" if row else "somebody who is gone"
        return self._names.get(grantee, grantee)

    def path(self, member: Sequence[str], grantee: str) -> str:
        """A member with the roles that lead to what was granted."""
        return " in ".join(self.of(each) for each in (*member, grantee))


def _whole(conn: Connection, account_id: UUID, on: Securable) -> Path:
    _, (path,) = find_paths(conn, account_id, [on])
    if not path.is_whole:
        raise NotFoundError(f"There is no {on}")
    return path


def _role(conn: Connection, account_id: UUID, name: str) -> RoleRow:
    row = principals.find_role(conn, account_id, name)
    if row is None:
        raise NotFoundError(f"There is no role {name[:_LONGEST_NAME]}")
    return row


def _within(members: Sequence[tuple[UUID, str]], grantee: str) -> set[str]:
    """A grantee, and all roles that it is a member of, directly or not."""
    found = {grantee}
    while more := {str(role) for role, member in members if member in found} - found:
        found |= more
    return found


def _below(members: Sequence[tuple[UUID, str]], grantee: str) -> Iterator[tuple[str, ...]]:
    """A grantee itself, as an empty path, and each member of it with the roles between."""
    waiting: list[tuple[str, ...]] = [()]
    for path in waiting:  # grows meanwhile
        yield path
        of = path[0] if path else grantee
        waiting += [(member, *path) for role, member in members if str(role) == of and member not in path]


def _told(reason: Reason, path: Path, grantees: Grantees, named: _Names) -> str:
    step = path.steps[reason.step][0]
    through = []
    grantee: str | None = reason.grantee
    while grantee is not None:
        through.append(named.of(grantee))
        grantee = grantees.via[grantee]
    what = "owner of" if reason.privilege == OWNER else f"{reason.privilege} on"
    return f"{' in '.join(reversed(through))} has {what} {step}".replace("has owner of", "is owner of")
