"""Decisions by the grants and owners that the store has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import uuid_utils.compat as uuids

from floecat.access.paths import find_paths
from floecat.access.rights import Rights, grantees
from floecat.auth.authorizer import Check, Found, Securable
from floecat.auth.principals import Principal
from floecat.clock import Clock
from floecat.memory_budget import LruCache, MemoryBudget
from floecat.store.access import grants, principals
from floecat.store.access.places import Place
from floecat.store.access.principals import PrincipalRow
from floecat.store.database.engine import Connection, Store

__all__ = ["StoredAuthorizer"]

_ROW_BYTES = 400
_GRANT_BYTES = 150


class StoredAuthorizer:
    """Decides by roles, grants and owners. Thread-safe.

    What it reads is kept for the version of the account's access that it belongs to, and each question asks
    for the version first: a revoked right is refused with the next request, by every process.
    """

    def __init__(self, store: Store, memory: MemoryBudget, clock: Clock, operators: str | None) -> None:
        """Reads nothing yet.

        Args:
            operators: a group of tokens whose members may do everything in their account.
        """
        self._store = store
        self._clock = clock
        self._operators = operators
        self._kept: LruCache[Any] = memory.cache("access")

    def allowed(
        self, principal: Principal, checks: Sequence[Check], found: Found | None = None, /
    ) -> Sequence[bool]:
        """See `Authorizer.allowed`.

        Two statements, none with what was found; more only after access has changed.
        """
        if self.is_operator(principal):
            return (True,) * len(checks)
        if found is not None:
            return self._of_found(principal, checks, found)
        with self._store.read() as conn:
            return self._by_names(conn, principal, checks)

    def _by_names(self, conn: Connection, principal: Principal, checks: Sequence[Check]) -> Sequence[bool]:
        version, paths = find_paths(conn, principal.account_id, [securable for _, securable in checks])
        if version is None:  # the account has nothing, so far
            return (False,) * len(checks)
        rights = self.rights(conn, principal, version)
        return [
            rights.has(privilege, path.places) for (privilege, _), path in zip(checks, paths, strict=True)
        ]

    def _of_found(self, principal: Principal, checks: Sequence[Check], found: Found) -> Sequence[bool]:
        conn, account = found.conn, principal.account_id
        key = (account.int, found.access_version, found.namespace_id)
        # parents never change, and their owners only with the version
        above: tuple[Place, ...] | None = self._kept.get(key)
        if above is None:
            _, securable = checks[-1]
            namespace = Securable("namespace", securable.catalog, securable.namespace)
            _, (path,) = find_paths(conn, account, [namespace])
            above = path.places
            if above[-1].id != found.namespace_id:  # dropped since, and made again
                return self._by_names(conn, principal, checks)
            self._kept.put(key, above, _ROW_BYTES * len(above))
        rights = self.rights(conn, principal, found.access_version)
        whole = (*above, Place(found.entry_id, found.owner_id))
        return [
            rights.has(privilege, whole if each.name is not None else whole[: 2 + len(each.namespace)])
            for privilege, each in checks
        ]

    def is_operator(self, principal: Principal) -> bool:
        """Whether the token says that the principal may do everything in its account."""
        return self._operators is not None and self._operators in principal.groups

    def owner(self, conn: Connection, principal: Principal, /) -> UUID | None:
        """See `Authorizer.owner`. The row of the principal is made if it is missing."""
        row = principals.find(conn, principal.account_id, principal.issuer, principal.name)
        if row is None:
            now_ms = self._clock.now_ms()
            row = PrincipalRow(
                uuids.uuid7(), principal.account_id, principal.issuer, principal.name, False, now_ms
            )
            if principals.ensure(conn, row):
                # who was asked about before had no row
                grants.record(conn, row.account_id, principal.name, f"principal {row.name} came", now_ms)
            else:
                row = principals.find(conn, principal.account_id, principal.issuer, principal.name)
        return None if row is None else row.id

    def rights(self, conn: Connection, principal: Principal, version: int) -> Rights:
        """What a principal may do at a version of its account's access."""
        account = principal.account_id

        def kept(name: object, read: Any, size: Any) -> Any:
            return self._kept.get_or_make((account.int, version, name), read, size)

        (row,) = kept(
            (principal.issuer, principal.name),
            lambda: (principals.find(conn, account, principal.issuer, principal.name),),
            lambda _: _ROW_BYTES,
        )
        members = kept("roles", lambda: principals.members(conn, account), lambda all: _ROW_BYTES * len(all))

        def of_grantee(grantee: str) -> Mapping[UUID, frozenset[str]]:
            found: Mapping[UUID, frozenset[str]] = kept(
                grantee,
                lambda: _by_securable(grants.of_grantee(conn, account, grantee)),
                lambda all: _ROW_BYTES + _GRANT_BYTES * len(all),
            )
            return found

        return Rights(grantees(principal, row, members), of_grantee)


def _by_securable(rows: Sequence[tuple[UUID, str]]) -> dict[UUID, frozenset[str]]:
    found: defaultdict[UUID, set[str]] = defaultdict(set)
    for securable_id, privilege in rows:
        found[securable_id].add(privilege)
    return {securable_id: frozenset(privileges) for securable_id, privileges in found.items()}
