"""Changes of access: each in one transaction with its line of history, whatever changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final
from uuid import UUID

import uuid_utils.compat as uuids

from floecat.access.memberships import below, reached
from floecat.access.paths import Path, find_paths
from floecat.access.rights import group
from floecat.auth.actors import Actor
from floecat.auth.authorizer import Privilege, Securable
from floecat.auth.principal_claims import NO_NAME
from floecat.auth.principals import issuer_of
from floecat.clock import Clock
from floecat.errors import BadRequestError, ConflictError, NotFoundError
from floecat.settings.limits import LimitSettings
from floecat.store.access import grants, principals, roles
from floecat.store.access.principals import PrincipalRow
from floecat.store.access.roles import RoleRow
from floecat.store.catalogs import accounts
from floecat.store.database.engine import Connection, Store

__all__ = [
    "ACCOUNT",
    "LONGEST_NAME",
    "AccessChanges",
    "GranteeNames",
    "known_grantee",
    "parse_grantee",
    "principal_of",
    "role_of",
    "whole_path",
]

ACCOUNT: Final = Securable("account", "")
LONGEST_NAME: Final = 255
"""Characters of the name of a role, and of what messages quote."""

_LONGEST_GRANTEE: Final = 600
"""Characters of the name of a principal, which a token may fill with 512 bytes, and of its issuer."""


_LONGEST_PATH: Final = 20
"""Names of a path that are told."""


class _UndoneError(Exception):
    """Ends a transaction whose changes were only wanted as lines."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self.lines = lines


class AccessChanges:
    """Makes changes, one at a time in an account."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        limits: LimitSettings,
        *,
        has_operators: bool,
        issuers: Collection[str],
    ) -> None:
        """Reads nothing yet.

        Args:
            has_operators: whether members of a group of tokens may do everything, whatever is granted.
            issuers: names of the issuers that have one.
        """
        self.store = store
        self.clock = clock
        self.limits = limits
        self._has_operators = has_operators
        self._issuers = issuers

    def run(
        self, actor: Actor, work: Callable[[Connection], Iterable[str]], *, dry_run: bool = False
    ) -> list[str]:
        """Makes a change.

        Args:
            actor: who makes it, and may do so.
            work: makes it; returns a line of history for each thing that it changed.
            dry_run: whether to undo it.

        Returns:
            The lines.

        Raises:
            ConflictError: nobody could grant anything any more.
            CommitStateUnknownError: it may have been made.
        """
        account_id = actor.account_id

        def run(conn: Connection) -> list[str]:
            now_ms = self.clock.now_ms()
            accounts.ensure(conn, account_id, now_ms)
            # first, as what creates something does: no two transactions wait for each other
            grants.lock(conn, account_id)
            could_grant = not self._has_operators and self._can_grant(conn, account_id)
            lines = list(work(conn))
            if could_grant and not self._can_grant(conn, account_id):
                raise ConflictError(
                    f"Nobody could grant anything any more: somebody keeps {Privilege.MANAGE_GRANTS} on the"
                    " account, or floecat.auth.operators names a group of tokens"
                )
            if dry_run:
                raise _UndoneError(lines)
            for line in lines:
                grants.record(conn, account_id, actor.principal.name, line, now_ms)
            return lines

        try:
            return self.store.run(run)
        except _UndoneError as undone:
            return undone.lines

    def grantee(self, conn: Connection, account_id: UUID, text: str) -> str:
        """A grantee as the store writes it; a principal that never came gets a row.

        Raises:
            BadRequestError: it is malformed.
            NotFoundError: there is no such role.
            ConflictError: there are too many principals.
        """
        kind, name = self.new_grantee(text)
        if kind == "principal" and principals.find(conn, account_id, name) is None:
            most = self.limits.principals
            if principals.count(conn, account_id) >= most:
                raise ConflictError(f"The account has {most} principals already (floecat.limits.principals)")
            row = PrincipalRow(uuids.uuid7(), account_id, name, False, self.clock.now_ms())
            principals.ensure(conn, row)
            grants.count_version(conn, account_id)  # who was asked about before had no row
        return known_grantee(conn, account_id, text)

    def new_grantee(self, text: str) -> tuple[str, str]:
        """The kind and the name of a grantee that something is given to.

        Raises:
            BadRequestError: it is malformed, or there is no such issuer.
        """
        kind, name = parse_grantee(text)
        issuer = "" if kind == "role" else issuer_of(name)
        if issuer and issuer not in self._issuers:
            raise BadRequestError(
                f"Invalid grantee: {text[:LONGEST_NAME]!r}, there is no issuer {issuer[:LONGEST_NAME]!r}"
                " (floecat.auth.issuers); a name of an issuer is @ISSUER/NAME"
            )
        return kind, name

    def _can_grant(self, conn: Connection, account_id: UUID) -> bool:
        """Whether somebody may grant on the account: a group of tokens, or a principal that is enabled."""
        holders = [
            row.grantee
            for row in grants.of_securables(conn, [account_id])
            if row.privilege == Privilege.MANAGE_GRANTS
        ]
        found = reached(below(conn), *holders)
        if any(each.startswith(group("")) for each in found):
            return True
        return principals.any_enabled(conn, [UUID(each) for each in found])


class GranteeNames:
    """The names of grantees, for people."""

    def __init__(self, conn: Connection, grantees: Iterable[str]) -> None:
        """Reads those of some grantees, as the store writes them."""
        ids = {UUID(each) for each in grantees if ":" not in each}
        self._names = {str(id): f"principal:{name}" for id, name in principals.names(conn, ids).items()}
        self._names |= {str(id): f"role:{name}" for id, name in roles.names(conn, ids).items()}

    def of(self, grantee: str) -> str:
        """A grantee as it is typed."""
        return self._names.get(grantee, grantee if ":" in grantee else "somebody who is gone")

    def known(self, grantee: UUID | None) -> str | None:
        """A principal or role as it is typed; None if it is gone."""
        return self._names.get(str(grantee))

    def path(self, members: Sequence[str]) -> str:
        """A member with the roles that lead to what was granted; of many, the first and the last."""
        if len(members) <= _LONGEST_PATH:
            return " in ".join(map(self.of, members))
        half = _LONGEST_PATH // 2
        between = f"{len(members) - 2 * half} more roles"
        return f"{self.path(members[:half])} in {between} in {self.path(members[-half:])}"


def parse_grantee(text: str) -> tuple[str, str]:
    """Reads the kind and the name of a grantee, as people write it.

    Raises:
        BadRequestError: it is malformed.
    """
    kind, _, name = text.partition(":")
    if (
        kind not in ("principal", "role", "group")
        or not 0 < len(name) <= _LONGEST_GRANTEE
        or NO_NAME.search(name)  # all that comes with a token can be disabled
    ):
        raise BadRequestError(
            f"Invalid grantee: {text[:LONGEST_NAME]!r}, expected principal:NAME, role:NAME or group:NAME"
        )
    return kind, name


def known_grantee(conn: Connection, account_id: UUID, text: str) -> str:
    """A grantee as the store writes it.

    Raises:
        BadRequestError: it is malformed.
        NotFoundError: there is no such role or principal.
    """
    kind, name = parse_grantee(text)
    if kind == "role":
        return str(role_of(conn, account_id, name).id)
    return group(name) if kind == "group" else str(principal_of(conn, account_id, name).id)


def whole_path(conn: Connection, account_id: UUID, on: Securable) -> Path:
    """The path of a thing.

    Raises:
        NotFoundError: there is no such thing.
    """
    _, (path,) = find_paths(conn, account_id, [on])
    if not path.is_whole:
        raise NotFoundError(f"There is no {path.shown(on)}")
    return path


def principal_of(conn: Connection, account_id: UUID, name: str) -> PrincipalRow:
    """A principal by its name.

    Raises:
        NotFoundError: there is none.
    """
    row = principals.find(conn, account_id, name) if "\0" not in name else None
    if row is None:
        raise NotFoundError(f"There is no principal {name[:LONGEST_NAME]}")
    return row


def role_of(conn: Connection, account_id: UUID, name: str) -> RoleRow:
    """A role by its name.

    Raises:
        NotFoundError: there is none.
    """
    row = roles.find(conn, account_id, name) if "\0" not in name else None
    if row is None:
        raise NotFoundError(f"There is no role {name[:LONGEST_NAME]}")
    return row
