"""Roles that people expect: ordinary rows, once they are made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from floecat.access.access_service import AccessService
from floecat.access.changes import ACCOUNT
from floecat.access.roles import RoleService
from floecat.auth.actors import Actor
from floecat.auth.authorizer import Privilege
from floecat.store.access import roles
from floecat.store.database.engine import Connection

__all__ = ["BUILT_IN_ROLES", "BuiltInRoles"]

_P = Privilege

_ANALYST: Final = frozenset({_P.USE_CATALOG, _P.USE_SCHEMA, _P.READ_TABLE, _P.READ_VIEW})
_ENGINEER: Final = _ANALYST | {
    _P.CREATE_SCHEMA,
    _P.ALTER_SCHEMA,
    _P.DROP_SCHEMA,
    _P.CREATE_TABLE,
    _P.WRITE_TABLE,
    _P.DROP_TABLE,
    _P.RENAME_TABLE,
    _P.REGISTER_TABLE,
    _P.CREATE_VIEW,
    _P.WRITE_VIEW,
    _P.DROP_VIEW,
    _P.RENAME_VIEW,
    _P.REGISTER_VIEW,
    _P.READ_CONNECTORS,
    _P.READ_JOBS,
}
_CATALOG_ADMIN: Final = _ENGINEER | {
    _P.CREATE_CATALOG,
    _P.MANAGE_CATALOG,
    _P.PURGE_TABLE,
    _P.MANAGE_CONNECTORS,
    _P.MANAGE_JOBS,
    _P.READ_ACCESS,
    _P.MANAGE_GRANTS,
    _P.MANAGE_OWNERS,
    _P.MANAGE_PROTECTION,
    _P.READ_AUTHORITIES,
    _P.USE_AUTHORITY,
    _P.READ_WORKERS,
}

BUILT_IN_ROLES: Final[Mapping[str, frozenset[Privilege]]] = {
    "operator": frozenset(Privilege),
    "catalog-admin": _CATALOG_ADMIN,
    "engineer": _ENGINEER,
    "analyst": _ANALYST,
    "worker": frozenset(
        {
            _P.USE_CATALOG,
            _P.USE_SCHEMA,
            _P.WRITE_TABLE,
            _P.READ_VIEW,
            _P.REGISTER_TABLE,
            _P.READ_CONNECTORS,
            _P.MANAGE_JOBS,
            _P.USE_AUTHORITY,
            _P.READ_WORKERS,
        }
    ),
}
"""Privileges on the account, by the name of the role that gets them."""


class BuiltInRoles:
    """Makes the roles."""

    def __init__(self, access: AccessService, role_service: RoleService) -> None:
        self._access = access
        self._roles = role_service

    def create(self, actor: Actor) -> Sequence[str]:
        """Makes those that are missing, with their grants and without members. Those that are there stay.

        Args:
            actor: who may do everything in the account: nobody gives what he does not have.

        Returns:
            What was made, a line each.

        Raises:
            ForbiddenError: the actor may not do everything.
            ConflictError: there are too many roles, or grants on the account.
        """
        actor.check(*((each, ACCOUNT) for each in Privilege))
        return self._access.changes.run(actor, lambda conn: self._create(conn, actor))

    def _create(self, conn: Connection, actor: Actor) -> Iterator[str]:
        known = {row.name for row in roles.list_all(conn, actor.account_id)}
        for name, privileges in BUILT_IN_ROLES.items():
            if name not in known:
                yield from self._roles.insert(conn, actor, name, actor.owner(conn))
                grantee = f"role:{name}"
                stored = self._access.changes.grantee(conn, actor.account_id, grantee)
                for each in sorted(privileges):
                    self._access.insert(conn, actor, ACCOUNT, actor.account_id, stored, each)
                yield f"grant {', '.join(sorted(privileges))} on {ACCOUNT} to {grantee}"
        self._roles.check_bounds(conn, actor)
        self._access.check_bound(conn, str(ACCOUNT), actor.account_id)
