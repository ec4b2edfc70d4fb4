"""An authorizer over a table of grants."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from floecat.auth.authorizer import Authorizer, Check, FoundSecurable, Privilege, Securable
from floecat.auth.principals import Principal
from floecat.store.database.engine import Connection

__all__ = ["Grants"]


class Grants(Authorizer):
    """Grants to principals and roles; one on a catalog or a namespace holds for all that is in it.

    Attributes:
        asked: every question so far, in order.
    """

    def __init__(self) -> None:
        self._grants: set[tuple[str, Privilege, tuple[str, ...]]] = set()
        self._denied: set[Check] = set()
        self.asked: list[Check] = []

    def grant(self, grantee: str, privilege: Privilege, *path: str) -> None:
        """Grants a privilege on a path: a catalog, levels of a namespace, the name of a table or view."""
        self._grants.add((grantee, privilege, path))

    def grant_all(self, grantee: str, *path: str) -> None:
        """Grants all privileges on a path."""
        for privilege in Privilege:
            self.grant(grantee, privilege, *path)

    def deny_only(self, *checks: Check) -> None:
        """Denies exactly these, whatever is granted."""
        self._denied = set(checks)

    def allowed(
        self, principal: Principal, checks: Sequence[Check], _found: FoundSecurable | None = None, /
    ) -> Sequence[bool]:
        """Whether a grant says so."""
        self.asked += checks
        return [check not in self._denied and self._is_granted(principal, *check) for check in checks]

    def owner(self, _conn: Connection, _principal: Principal, /) -> UUID | None:
        """Nobody."""
        return None

    def _is_granted(self, principal: Principal, privilege: Privilege, on: Securable) -> bool:
        path = (on.catalog, *on.namespace, *(() if on.name is None else (on.name,)))
        return any(
            (grantee, privilege, path[:depth]) in self._grants
            for grantee in (principal.name, *principal.groups)
            for depth in range(1, len(path) + 1)
        )
