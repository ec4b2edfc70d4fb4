"""Authorisation: who may do what with which part of a catalog.

The kernel asks an `Authorizer` where it resolves a name, before it looks the name up, or after it with what
was found. A refusal is the same whether or not something has the name: it never tells what exists.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias
from uuid import UUID

import msgspec

from floecat.auth.principals import Principal
from floecat.errors import FloecatError, ForbiddenError
from floecat.identifiers.namespace import Namespace, TableIdentifier
from floecat.identifiers.written_names import written

if TYPE_CHECKING:
    from floecat.store.database.engine import Connection

__all__ = [
    "AllowAll",
    "Authorizer",
    "Check",
    "FoundSecurable",
    "Privilege",
    "Securable",
    "SecurableKind",
    "check_allowed",
]

SecurableKind: TypeAlias = Literal["account", "catalog", "namespace", "table", "view"]


class Privilege(StrEnum):
    """Everything that is asked for. A schema is a namespace, in the word of SQL.

    `LIST_SCHEMA`, `LIST_TABLE` and `LIST_VIEW` mean that the principal may know of the thing itself: it is
    shown in listings. What is created is asked for by its own name, as is every parent that is created with a
    namespace; inheritance from what contains it is the matter of the authorizer.
    """

    CREATE_CATALOG = "create_catalog"
    USE_CATALOG = "use_catalog"
    MANAGE_CATALOG = "manage_catalog"
    """Change its locations and delete it."""

    CREATE_SCHEMA = "create_schema"
    USE_SCHEMA = "use_schema"
    """Read its properties and list what is in it."""
    LIST_SCHEMA = "list_schema"
    ALTER_SCHEMA = "alter_schema"
    DROP_SCHEMA = "drop_schema"

    CREATE_TABLE = "create_table"
    LIST_TABLE = "list_table"
    READ_TABLE = "read_table"
    WRITE_TABLE = "write_table"
    DROP_TABLE = "drop_table"
    PURGE_TABLE = "purge_table"
    """Delete its files; asked for in addition to `DROP_TABLE`."""
    RENAME_TABLE = "rename_table"
    """Asked for the old name; the new one needs `CREATE_TABLE`."""
    REGISTER_TABLE = "register_table"

    CREATE_VIEW = "create_view"
    LIST_VIEW = "list_view"
    READ_VIEW = "read_view"
    WRITE_VIEW = "write_view"
    DROP_VIEW = "drop_view"
    RENAME_VIEW = "rename_view"
    """Asked for the old name; the new one needs `CREATE_VIEW`."""
    REGISTER_VIEW = "register_view"

    READ_CONNECTORS = "read_connectors"
    """Privilege on a catalog, as the next three."""
    MANAGE_CONNECTORS = "manage_connectors"
    """Create, delete and scan them. A scheduled scan registers what it finds without further questions."""
    READ_JOBS = "read_jobs"
    MANAGE_JOBS = "manage_jobs"
    """Retry and cancel them."""

    READ_ACCESS = "read_access"
    """See the grants and owners of a thing and below; of the account principals, roles and history too."""
    MANAGE_GRANTS = "manage_grants"
    """Grant what one has oneself, and revoke."""
    MANAGE_OWNERS = "manage_owners"
    """Give away what one may do everything with."""
    MANAGE_PROTECTION = "manage_protection"
    """Protect a thing from drops, and take that off."""
    MANAGE_PRINCIPALS = "manage_principals"
    """Privilege on the account, as all that follow. Disable, enable and delete principals."""
    MANAGE_ROLES = "manage_roles"
    """Create roles, and change those that one owns or is in."""
    READ_AUTHORITIES = "read_authorities"
    MANAGE_AUTHORITIES = "manage_authorities"
    USE_AUTHORITY = "use_authority"
    """Let a catalog hand out keys of a storage authority."""
    READ_WORKERS = "read_workers"
    MANAGE_WORKERS = "manage_workers"


class Securable(msgspec.Struct, frozen=True, gc=False):
    """The object of a privilege: by name, in the account of the principal. It need not exist."""

    kind: SecurableKind
    catalog: str
    namespace: Namespace = ()
    name: str | None = None
    """Name of a table or view."""

    def __str__(self) -> str:
        return self.shown(None)

    def shown(self, separator: str | None) -> str:
        """The thing for people: `table A:B.orders of catalog lake`.

        Args:
            separator: of schemas of the catalog; without, there are dots between levels.
        """
        if self.kind == "account":
            return "the account"
        if self.kind == "catalog":
            return f"catalog {self.catalog}"
        name = self.namespace if self.name is None else TableIdentifier(self.namespace, self.name)
        return f"{self.kind} {written(name, separator)} of catalog {self.catalog}"


Check: TypeAlias = tuple[Privilege, Securable]
"""A question to the authorizer."""


class FoundSecurable(NamedTuple):
    """The table or view that questions are about, as the statement of a look-up found it."""

    conn: Connection
    """Connection of the look-up, for what else has to be read."""
    access_version: int
    """Version of the access of the account, at that moment."""
    namespace_id: UUID
    entry_id: UUID
    owner_id: UUID | None


class Authorizer(Protocol):
    """Decides what principals may do. Implementations inherit it, for the methods that have a body."""

    def allowed(
        self, principal: Principal, checks: Sequence[Check], found: FoundSecurable | None = None, /
    ) -> Sequence[bool]:
        """Whether a principal has each of the privileges, in the order of the questions.

        May read the store and must be thread-safe. On the event loop it is asked only where the store is a
        local file. Decisions are asked for again with every request: nothing above keeps them.

        Args:
            principal: who asks.
            checks: the questions.
            found: what they are about, if it was looked up: the answer is the same without.

        Raises:
            ForbiddenError: the principal or its account is disabled.
            StoreUnavailableError: it cannot be decided now, so nothing is done.
        """
        ...

    def owner(self, conn: Connection, principal: Principal, /) -> UUID | None:
        """The owner of what a principal creates, asked in the transaction that creates it."""
        ...

    def owns(self, conn: Connection, principal: Principal, owner_id: UUID, /) -> bool:
        """Whether a principal is the owner, or a member of it, or may do everything in its account."""
        return self.owner(conn, principal) == owner_id

    def as_owner(self, _conn: Connection, account_id: UUID, owner_id: UUID, /) -> Principal:
        """The owner, to be asked about: with its roles, and without groups, which only its tokens name."""
        return Principal(f"owner {owner_id}", account_id, owner_id=owner_id)

    def refusal(self, principal: Principal, check: Check, /) -> FloecatError:
        """The error for a privilege that a principal does not have."""
        privilege, securable = check
        return ForbiddenError(f"{principal.name} does not have the privilege {privilege} on {securable}")

    def close(self) -> None:
        """Ends what it holds, when the process does."""
        return

    def kept_by(self, _principal: Principal, /) -> Hashable | None:
        """What answers to a principal hang on, beside the question and the version of its account's access.

        An answer that was made of decisions is kept by it; `None` where more decides, so that none is kept.
        """
        return None


class AllowAll(Authorizer):
    """Every principal may do everything in its account."""

    def allowed(
        self, _principal: Principal, checks: Sequence[Check], _found: FoundSecurable | None = None, /
    ) -> Sequence[bool]:
        """Always."""
        return (True,) * len(checks)

    def owner(self, _conn: Connection, _principal: Principal, /) -> UUID | None:
        """Nobody: everybody may do what only an owner may."""
        return None

    def owns(self, _conn: Connection, _principal: Principal, _owner_id: UUID, /) -> bool:
        """Always."""
        return True

    def kept_by(self, principal: Principal, /) -> Hashable | None:
        """The account."""
        return principal.account_id


def check_allowed(
    authorizer: Authorizer,
    principal: Principal,
    checks: Sequence[Check],
    found: FoundSecurable | None = None,
    also: Sequence[Check] = (),
) -> Sequence[bool]:
    """Refuses what a principal may not do.

    Args:
        also: asked in the same question, and not needed.

    Returns:
        Whether the principal has each of `also`.

    Raises:
        ForbiddenError: a privilege is missing; the message names the first one and its securable.
    """
    asked = [*checks, *also]
    answers = authorizer.allowed(principal, asked, found)
    if not all(answers) or len(answers) != len(asked):
        for check, allowed in list(zip(asked, answers, strict=True))[: len(checks)]:
            if not allowed:
                raise authorizer.refusal(principal, check)
    return answers[len(checks) :]
