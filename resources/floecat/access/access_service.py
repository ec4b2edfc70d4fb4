"""Grants and owners: who gives what to whom. Nobody gives what he does not have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

from floecat.access.changes import AccessChanges, known_grantee, whole_path
from floecat.access.rights import group
from floecat.auth.actors import Actor
from floecat.auth.authorizer import Privilege, Securable
from floecat.errors import BadRequestError, ConflictError
from floecat.store.access import grants, places
from floecat.store.access.grants import GrantRow
from floecat.store.database.engine import Connection

__all__ = ["AccessService"]


class AccessService:
    """Changes grants and owners, each change in one transaction with its line of history."""

    def __init__(self, changes: AccessChanges) -> None:
        self.changes = changes

    def grant(self, actor: Actor, privileges: Iterable[Privilege], on: Securable, to: str) -> Sequence[str]:
        """Grants privileges on a thing and all below. Returns those that were not granted before.

        Raises:
            ForbiddenError: the actor may not grant on the thing, or does not have a privilege itself.
            BadRequestError: the grantee is malformed.
            NotFoundError: there is no such thing, or no such role.
            ConflictError: the thing has too many grants.
        """
        wanted = list(dict.fromkeys(privileges))
        actor.check((Privilege.MANAGE_GRANTS, on), *((each, on) for each in wanted))
        return self._change_grants(
            actor, wanted, on, to, self.changes.grantee, self.insert, "grant {} on {} to {}"
        )

    def revoke(self, actor: Actor, privileges: Iterable[Privilege], on: Securable, of: str) -> Sequence[str]:
        """Takes privileges on a thing back. Returns those that were granted on it, and not above.

        Raises:
            ForbiddenError: the actor may not revoke on the thing.
            BadRequestError: the grantee is malformed.
            NotFoundError: there is no such thing, role or principal.
            ConflictError: nobody could grant anything any more.
        """

        def delete(
            conn: Connection, actor: Actor, _on: Securable, place_id: UUID, grantee: str, privilege: str
        ) -> bool:
            return grants.delete(conn, actor.account_id, grantee, place_id, privilege)

        actor.check((Privilege.MANAGE_GRANTS, on))
        wanted = list(dict.fromkeys(privileges))
        return self._change_grants(actor, wanted, on, of, known_grantee, delete, "revoke {} on {} of {}")

    def set_owner(self, actor: Actor, on: Securable, owner: str, *, known: bool = False) -> None:
        """Makes a principal or a role the owner of a catalog, namespace, table or view.

        Args:
            actor: who gives it, and need not be the owner.
            on: the thing.
            owner: a principal or a role.
            known: whether the principal must have come, or been added, before.

        Raises:
            ForbiddenError: the actor may not do everything with the thing.
            BadRequestError: the owner is a group of tokens, or the thing the account.
            NotFoundError: there is no such thing, role or known principal.
        """
        actor.check(*((each, on) for each in (Privilege.MANAGE_OWNERS, *Privilege)))

        def work(conn: Connection) -> list[str]:
            if known:
                known_grantee(conn, actor.account_id, owner)
            return self.give(conn, actor.account_id, on, owner)

        self.changes.run(actor, work)

    def give(self, conn: Connection, account_id: UUID, on: Securable, owner: str) -> list[str]:
        """Changes the owner of a thing in a transaction. Returns the line of history."""
        path = whole_path(conn, account_id, on)
        grantee = self.changes.grantee(conn, account_id, owner)
        if on.kind == "account" or grantee.startswith(group("")):
            raise BadRequestError("A catalog, namespace, table or view has an owner: a principal or a role")
        if str(path.places[-1].owner) == grantee:
            return []
        places.set_owner(conn, on.kind, path.places[-1].id, UUID(grantee))
        return [f"{owner} owns {path.shown(on)}"]

    def insert(
        self, conn: Connection, actor: Actor, on: Securable, place_id: UUID, grantee: str, privilege: str
    ) -> bool:
        """Inserts a grant in a transaction. Returns whether it was none before."""
        now_ms = self.changes.clock.now_ms()
        row = GrantRow(actor.account_id, grantee, place_id, privilege, on.kind, actor.principal.name, now_ms)
        return grants.insert(conn, row)

    def give_privileges(
        self, conn: Connection, actor: Actor, privileges: Iterable[Privilege], on: Securable, to: str
    ) -> list[str]:
        """Grants privileges on a thing in a transaction; the actor may. Returns the line of history.

        Raises:
            NotFoundError: there is no such thing, or no such role.
            ConflictError: the thing has too many grants.
        """
        path = whole_path(conn, actor.account_id, on)
        place_id = path.places[-1].id
        stored = known_grantee(conn, actor.account_id, to)
        given = [each for each in privileges if self.insert(conn, actor, on, place_id, stored, each)]
        self.check_bound(conn, path.shown(on), place_id)
        return [f"grant {', '.join(given)} on {path.shown(on)} to {to}"] if given else []

    def check_bound(self, conn: Connection, on: str, place_id: UUID) -> None:
        """Refuses what a transaction has made too much of.

        Raises:
            ConflictError: there are too many grants on the thing.
        """
        most = self.changes.limits.grants
        if grants.count_of_securable(conn, place_id) > most:
            raise ConflictError(f"At most {most} grants may be on {on} (floecat.limits.grants)")

    def _change_grants(
        self,
        actor: Actor,
        privileges: Sequence[Privilege],
        on: Securable,
        grantee: str,
        find: Callable[[Connection, UUID, str], str],
        change: Callable[[Connection, Actor, Securable, UUID, str, str], bool],
        told: str,
    ) -> Sequence[str]:
        """Changes the grant of each privilege. Returns those whose grant was changed."""
        changed: list[str] = []

        def work(conn: Connection) -> list[str]:
            path = whole_path(conn, actor.account_id, on)
            place_id = path.places[-1].id
            stored = find(conn, actor.account_id, grantee)
            changed[:] = [each for each in privileges if change(conn, actor, on, place_id, stored, each)]
            self.check_bound(conn, path.shown(on), place_id)
            return [told.format(", ".join(changed), path.shown(on), grantee)] if changed else []

        self.changes.run(actor, work)
        return changed
