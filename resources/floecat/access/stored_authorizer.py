"""Decisions by the grants and owners that the store has."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

import uuid_utils.compat as uuids

from floecat.access.changes import GranteeNames
from floecat.access.memberships import above
from floecat.access.paths import Path, find_paths
from floecat.access.rights import ALL, Grantees, held, with_implied
from floecat.auth.authorizer import Authorizer, Check, FoundSecurable, Securable
from floecat.auth.principals import Principal
from floecat.clock import Clock
from floecat.errors import ForbiddenError
from floecat.identifiers.namespace import Namespace
from floecat.memory_budget import LruCache, MemoryBudget
from floecat.settings.groups.process import AuthSettings
from floecat.store.access import grants, places, principals
from floecat.store.access.principals import PrincipalRow
from floecat.store.catalogs import accounts
from floecat.store.database.engine import Connection, Store
from floecat.store.database.errors import ForeignKeyError

__all__ = ["StoredAuthorizer"]

T = TypeVar("T")

Held: TypeAlias = tuple[frozenset[str], ...]
"""Privileges on the account, a catalog, and the namespaces of a path, each with those from above."""

_ROW_BYTES = 400
_LOG_EVERY_MS = 60_000
_log = logging.getLogger(__name__)


class StoredAuthorizer(Authorizer):
    """Decides by roles, grants and owners. Thread-safe.

    What it works out is kept for the version of the account's access that it belongs to, and each question
    comes with the version or asks for it first: a revoked right is refused with the next request, by every
    process.
    """

    def __init__(
        self,
        store: Store,
        memory: MemoryBudget,
        clock: Clock,
        auth: AuthSettings,
        *,
        most_principals: int,
    ) -> None:
        """Reads nothing yet.

        Args:
            auth: says who may do everything: the members of a group of tokens, or everybody.
            most_principals: of an account; further ones get no row.
        """
        self._store = store
        self._clock = clock
        self._auth = auth
        self._most_principals = most_principals
        self._logged_at_ms = -_LOG_EVERY_MS
        self._kept: LruCache[Any] = memory.cache("access")

    def allowed(
        self, principal: Principal, checks: Sequence[Check], found: FoundSecurable | None = None, /
    ) -> Sequence[bool]:
        """See `Authorizer.allowed`.

        Two statements, a third where grants on tables or views decide; none with what was found; one for who
        may do everything. More only after access has changed.
        """
        if found is not None:
            return self._of_found(principal, checks, found)
        with self._store.read() as conn:
            if not self._may_all(principal):
                return self._by_names(conn, principal, checks)
            version = accounts.version(conn, principal.account_id)
            if version is not None:
                self._enabled(conn, principal, version)
            return (True,) * len(checks)

    def is_operator(self, principal: Principal) -> bool:
        """Whether the token says that the principal, unless disabled, may do everything in its account."""
        return self._auth.operators is not None and self._auth.operators in principal.groups

    def owner(self, conn: Connection, principal: Principal, /) -> UUID | None:
        """See `Authorizer.owner`. The row of the principal is made if it is missing."""
        row = principals.find(conn, principal.account_id, principal.name) or self._make_row(conn, principal)
        return None if row is None else row.id

    def owns(self, conn: Connection, principal: Principal, owner_id: UUID, /) -> bool:
        """See `Authorizer.owns`."""
        if self._auth.authorizer == "allow-all" or self.is_operator(principal):
            return True
        version = accounts.version(conn, principal.account_id)
        return owner_id in self._enabled(conn, principal, version or 0).ids

    def as_owner(self, conn: Connection, account_id: UUID, owner_id: UUID, /) -> Principal:
        """See `Authorizer.as_owner`."""
        name = GranteeNames(conn, [str(owner_id)]).of(str(owner_id))
        # who is gone has no rights, not even to what it owned
        known = owner_id if ":" in name else UUID(int=0)
        return Principal(name.removeprefix("principal:"), account_id, owner_id=known)

    def log_in(self, principal: Principal) -> None:
        """Makes the row of a principal whose token was verified, unless it is there or the settings say no.

        An account without a row gets none either: its first catalog makes it.
        """
        if not self._auth.create_principals:
            return
        with self._store.read() as conn:
            disabled, row = principals.standing(conn, principal.account_id, principal.name)
        if disabled is False and row is None:
            with suppress(ForeignKeyError):  # the account was deleted meanwhile
                self._store.run(lambda conn: self._make_row(conn, principal))

    def _make_row(self, conn: Connection, principal: Principal) -> PrincipalRow | None:
        """Makes the row of a principal; None where its account has too many."""
        account, now_ms = principal.account_id, self._clock.now_ms()
        grants.lock(conn, account)
        if principals.count(conn, account) >= self._most_principals:
            if now_ms - self._logged_at_ms >= _LOG_EVERY_MS:
                self._logged_at_ms = now_ms
                _log.warning(
                    "Account %s has %d principals (floecat.limits.principals): further ones get no row, and"
                    " own nothing that they create",
                    account,
                    self._most_principals,
                )
            return None
        row = PrincipalRow(uuids.uuid7(), account, principal.name, False, now_ms)
        if principals.ensure(conn, row):
            # who was asked about before had no row
            grants.record(conn, account, principal.name, f"principal {row.name} came", now_ms)
            return row
        return principals.find(conn, account, principal.name)

    def kept_by(self, principal: Principal, /) -> Hashable | None:
        """See `Authorizer.kept_by`."""
        return principal.account_id.int, *_key(principal)

    def grantees(self, conn: Connection, principal: Principal, version: int) -> Grantees:
        """All that a principal has rights by, at a version of its account's access."""
        account = principal.account_id

        def made() -> Grantees:
            account_disabled, row = principals.standing(conn, account, principal.name)
            if principal.owner_id is not None and row is not None and row.id != principal.owner_id:
                row = None  # of a role, which has the name of a principal
            if account_disabled or (row is not None and row.disabled):
                who = "The account" if account_disabled else f"Principal {principal.name}"
                return Grantees({}, frozenset(), disabled=who)
            return Grantees.of(principal, row, above(conn, account))

        return self._keep((account.int, version, _key(principal)), made, _size(principal))

    def _may_all(self, principal: Principal) -> bool:
        return self._auth.authorizer != "grants" or self.is_operator(principal)

    def _enabled(self, conn: Connection, principal: Principal, version: int) -> Grantees:
        """All that a principal has rights by.

        Raises:
            ForbiddenError: it or its account is disabled.
        """
        found = self.grantees(conn, principal, version)
        if found.disabled:
            raise ForbiddenError(f"{found.disabled} is disabled")
        return found

    def _by_names(self, conn: Connection, principal: Principal, checks: Sequence[Check]) -> Sequence[bool]:
        groups = _by_place(checks)
        around = [_around(checks[indexes[0]][1]) for indexes in groups.values()]
        version, paths = find_paths(conn, principal.account_id, around)
        answers = [False] * len(checks)
        if version is None:  # the account has nothing, so far
            return answers
        grantees = self._enabled(conn, principal, version)
        for indexes, path, rights in zip(
            groups.values(), paths, self._held(conn, principal, version, paths), strict=True
        ):
            # what is granted on tables and views themselves is read only where it decides
            own: dict[str, frozenset[str]] | None = None
            for index in indexes:
                privilege, on = checks[index]
                answers[index] = privilege in rights[-1]
                if answers[index] or on.name is None or not path.is_whole:
                    continue
                if own is None:
                    names = [name for each in indexes if (name := checks[each][1].name) is not None]
                    own = _on_entries(conn, grantees, path, names)
                answers[index] = privilege in own.get(on.name, ())
        return answers

    def _of_found(
        self, principal: Principal, checks: Sequence[Check], found: FoundSecurable
    ) -> Sequence[bool]:
        conn, account, version = found.conn, principal.account_id, found.access_version
        grantees = self._enabled(conn, principal, version)
        if self._may_all(principal):
            return (True,) * len(checks)
        # parents never change, and what is granted on them only with the version
        above: Held | None = self._kept.get((account.int, version, _key(principal), found.namespace_id.int))
        if above is None:
            _, securable = checks[-1]
            around = Securable("namespace", securable.catalog, securable.namespace)
            _, (path,) = find_paths(conn, account, [around])
            if path.places[-1].id != found.namespace_id:  # dropped since, and made again
                return self._by_names(conn, principal, checks)
            (above,) = self._held(conn, principal, version, [path])
        return [
            privilege in above[1 + len(each.namespace)]
            or (each.name is not None and privilege in self._on_found(principal, grantees, found))
            for privilege, each in checks
        ]

    def _on_found(self, principal: Principal, grantees: Grantees, found: FoundSecurable) -> frozenset[str]:
        """The privileges on what was found itself."""
        conn, account, version = found.conn, principal.account_id, found.access_version
        if found.owner_id in grantees.ids:
            return ALL
        rows: Sequence[tuple[str, str]] = self._keep(
            (account.int, version, found.entry_id.int),
            lambda: [(row.grantee, row.privilege) for row in grants.of_securables(conn, [found.entry_id])],
            _ROW_BYTES,
        )
        return with_implied(privilege for grantee, privilege in rows if grantee in grantees.via)

    def _held(
        self, conn: Connection, principal: Principal, version: int, paths: Sequence[Path]
    ) -> list[Held]:
        """The privileges on the places of each path, in one statement for all that are not known."""
        keys = [
            (principal.account_id.int, version, _key(principal), path.places[-1].id.int) for path in paths
        ]
        found: list[Held | None] = [self._kept.get(key) for key in keys]
        unknown = [path for path, known in zip(paths, found, strict=True) if known is None]
        if unknown:
            ids = list(dict.fromkeys(place.id for path in unknown for place in path.places))
            granted: defaultdict[UUID, list[tuple[UUID, str, str]]] = defaultdict(list)
            for row in grants.of_securables(conn, ids):
                granted[row.securable_id].append((row.securable_id, row.grantee, row.privilege))
            grantees = self.grantees(conn, principal, version)
        made: list[Held] = []
        for key, path, known in zip(keys, paths, found, strict=True):
            made.append(
                known
                or held(grantees, path.places, (row for each in path.places for row in granted[each.id]))
            )
            if known is None:
                self._kept.put(key, made[-1], _size(principal) * (1 + len(made[-1])))
        return made

    def _keep(self, key: Hashable, make: Callable[[], T], size: int) -> T:
        kept: T = self._kept.get_or_make(
            key, make, lambda value: size * (1 + len(value) if isinstance(value, Sequence) else 1)
        )
        return kept


def _key(principal: Principal) -> tuple[str, tuple[str, ...], UUID | None]:
    return principal.name, principal.groups, principal.owner_id


def _size(principal: Principal) -> int:
    """About what a value by a principal takes: its groups are in the key."""
    return _ROW_BYTES + sum(map(len, principal.groups)) + 60 * len(principal.groups)


def _by_place(checks: Sequence[Check]) -> dict[tuple[str, Namespace], list[int]]:
    """The numbers of the questions about each namespace, or about a catalog or the account itself."""
    found: dict[tuple[str, Namespace], list[int]] = {}
    catalog: str | None = None
    namespace: Namespace = ()
    for number, (_, on) in enumerate(checks):
        # a listing asks about a thousand tables of one namespace
        if on.namespace is not namespace or on.catalog != catalog:
            catalog, namespace = on.catalog, on.namespace
            numbers = found.setdefault((catalog, namespace), [])
        numbers.append(number)
    return found


def _around(securable: Securable) -> Securable:
    """The thing itself, or the namespace of a table or view."""
    if securable.name is None:
        return securable
    return Securable("namespace", securable.catalog, securable.namespace)


def _on_entries(
    conn: Connection, grantees: Grantees, path: Path, names: Sequence[str]
) -> dict[str, frozenset[str]]:
    """The privileges on tables and views of a namespace themselves, by name."""
    rows = places.granted_in(conn, path.places[-1].id, names, grantees.via, grantees.ids)
    granted: defaultdict[str, list[str]] = defaultdict(list)
    for name, privilege, _ in rows:
        granted[name].append(privilege or "")
    kept = {each: with_implied(each) for each in set(map(tuple, granted.values()))}
    found = {name: kept[tuple(privileges)] for name, privileges in granted.items()}
    return found | {name: ALL for name, _, is_owned in rows if is_owned}
