"""Principals: those that came, and those that were named."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from uuid import UUID

import msgspec

from floecat.access.changes import ACCOUNT, AccessChanges, principal_of
from floecat.auth.actors import Actor
from floecat.auth.authorizer import Privilege
from floecat.errors import AlreadyExistsError, ConflictError
from floecat.store import page_tokens
from floecat.store.access import grants, principals, roles
from floecat.store.database.engine import Connection
from floecat.store.record_pages import Page, page_of

__all__ = ["PrincipalInfo", "PrincipalService"]


class PrincipalInfo(msgspec.Struct, frozen=True):
    """A principal of an account."""

    name: str
    disabled: bool
    created_at_ms: int
    roles: tuple[str, ...] = ()
    """Roles that it is a member of itself, by name; what groups of its tokens are in comes with them."""


class PrincipalService:
    """Changes principals, each change in one transaction with its line of history."""

    def __init__(self, changes: AccessChanges) -> None:
        self._changes = changes

    def page(
        self, actor: Actor, token: str | None, limit: int, *, with_roles: bool = False
    ) -> Page[PrincipalInfo]:
        """A page of the principals of the account, by name.

        Args:
            actor: who asks.
            token: of the page before; None for the first.
            limit: most principals.
            with_roles: whether their roles are read, those of all at once.

        Raises:
            ForbiddenError: the actor may not read access.
            BadRequestError: the token is of another listing.
        """
        actor.check((Privilege.READ_ACCESS, ACCOUNT))
        scope = f"principals {actor.account_id}"
        after = page_tokens.decode(token, scope) if token else ""
        with self._changes.store.read() as conn:
            rows = principals.page(conn, actor.account_id, after, limit + 1)
            found = page_of(rows, limit, scope, lambda row: row.name)
            ids = [row.id for row in found.items] if with_roles else []
            held = _roles(conn, actor.account_id, ids)
        items = [
            PrincipalInfo(row.name, row.disabled, row.created_at_ms, held.get(row.id, ()))
            for row in found.items
        ]
        return Page(items, found.next_token)

    def get(self, actor: Actor, name: str) -> PrincipalInfo:
        """A principal with its roles.

        Raises:
            ForbiddenError: the actor may not read access.
            NotFoundError: there is no such principal.
        """
        actor.check((Privilege.READ_ACCESS, ACCOUNT))
        with self._changes.store.read() as conn:
            row = principal_of(conn, actor.account_id, name)
            held = _roles(conn, actor.account_id, [row.id])
        return PrincipalInfo(row.name, row.disabled, row.created_at_ms, held.get(row.id, ()))

    def create(self, actor: Actor, name: str) -> PrincipalInfo:
        """Makes the row of a principal before it first comes.

        Raises:
            ForbiddenError: the actor may not manage principals.
            BadRequestError: the name is malformed.
            AlreadyExistsError: there is such a principal.
            ConflictError: there are too many principals.
        """
        actor.check((Privilege.MANAGE_PRINCIPALS, ACCOUNT))
        self._changes.new_grantee(f"principal:{name}")

        def work(conn: Connection) -> list[str]:
            if principals.find(conn, actor.account_id, name) is not None:
                raise AlreadyExistsError(f"Principal already exists: {name}")
            self._changes.grantee(conn, actor.account_id, f"principal:{name}")
            return [f"create principal {name}"]

        self._changes.run(actor, work)
        return PrincipalInfo(name, False, self._changes.clock.now_ms())

    def set_disabled(self, actor: Actor, name: str, *, disabled: bool) -> Sequence[str]:
        """Disables a principal, which may do nothing from its next request on, or enables it.

        One that never came is disabled before it does.

        Returns:
            A line, if it was not so before.

        Raises:
            ForbiddenError: the actor may not manage principals.
            BadRequestError: the name is malformed.
            ConflictError: it is the actor itself, or nobody could grant anything any more.
        """
        actor.check((Privilege.MANAGE_PRINCIPALS, ACCOUNT))
        _check_other(actor, name, "disable")

        def work(conn: Connection) -> list[str]:
            row_id = UUID(self._changes.grantee(conn, actor.account_id, f"principal:{name}"))
            if principal_of(conn, actor.account_id, name).disabled == disabled:
                return []
            principals.set_disabled(conn, row_id, disabled=disabled)
            return [f"{'disable' if disabled else 'enable'} principal {name}"]

        return self._changes.run(actor, work)

    def delete(self, actor: Actor, name: str) -> None:
        """Deletes a principal with its grants and memberships; what it owns keeps no owner.

        If it comes again, it is another one of this name, with no rights of its own. What waits for workers,
        as captures and purges, goes on.

        Raises:
            ForbiddenError: the actor may not manage principals.
            NotFoundError: there is no such principal.
            ConflictError: it is the actor itself, or nobody could grant anything any more.
        """
        actor.check((Privilege.MANAGE_PRINCIPALS, ACCOUNT))
        _check_other(actor, name, "delete")

        def work(conn: Connection) -> list[str]:
            row = principal_of(conn, actor.account_id, name)
            grants.delete_of_grantee(conn, actor.account_id, str(row.id))
            roles.remove_everywhere(conn, str(row.id))
            principals.delete(conn, row.id)
            return [f"delete principal {name}"]

        self._changes.run(actor, work)


def _roles(conn: Connection, account_id: UUID, ids: Sequence[UUID]) -> Mapping[UUID, tuple[str, ...]]:
    """The roles of principals, by name."""
    pairs = [
        (UUID(member), UUID(role)) for member, role in roles.roles_of(conn, account_id, list(map(str, ids)))
    ]
    named = roles.names(conn, {role for _, role in pairs})
    held: defaultdict[UUID, list[str]] = defaultdict(list)
    for member, role in pairs:
        if role in named:  # not deleted meanwhile
            held[member].append(named[role])
    return {member: tuple(sorted(names)) for member, names in held.items()}


def _check_other(actor: Actor, name: str, what: str) -> None:
    # who could undo it, if it was the last one?
    if actor.principal.name == name:
        raise ConflictError(f"{name} would {what} itself")
