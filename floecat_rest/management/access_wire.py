"""Bodies of the routes about access; the command line prints the same JSON.

A thing is written as one text, as in the file of `floecat access export`: `account`, `catalog:lake`,
`namespace:lake.outer.inner`, `table:lake.outer.orders`, `view:lake.outer.v`. Levels with dots, quotes or
white space stand in double quotes, as in SQL.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from floecat.access.access_questions import AccessChange, AccessExplanation, Grant, Holder, OwnAccess
from floecat.access.principal_service import PrincipalInfo
from floecat.access.roles import Role
from floecat.auth.authorizer import Privilege, Securable
from floecat.entries.calls import Page
from floecat.errors import BadRequestError
from floecat.identifiers.namespace import check_name, check_namespace
from floecat.identifiers.written_names import parse_namespace, written

__all__ = [
    "ChangeMembersRequest",
    "ChangesResponse",
    "CreateRoleRequest",
    "ExplanationResponse",
    "GrantRequest",
    "GrantResponse",
    "HistoryResponse",
    "ListGrantsResponse",
    "ListMembersResponse",
    "ListPrincipalsResponse",
    "ListRolesResponse",
    "OwnAccessResponse",
    "OwnerRequest",
    "OwnerResponse",
    "PrincipalResponse",
    "PrivilegesResponse",
    "RoleResponse",
    "UpdatePrincipalRequest",
    "WhoResponse",
    "grants_response",
    "history_response",
    "own_access_response",
    "parse_privilege",
    "parse_securable",
    "who_response",
    "written_securable",
]


class PrincipalResponse(msgspec.Struct, rename="kebab"):
    """A principal."""

    name: str
    """Name in its tokens; `@ISSUER/NAME` for one of `floecat.auth.issuers`."""
    disabled: bool
    created_at_ms: int
    roles: Sequence[str]
    """Roles that it is a member of itself; empty in listings."""

    @classmethod
    def of(cls, found: PrincipalInfo) -> PrincipalResponse:
        """Renders a principal."""
        return cls(found.name, found.disabled, found.created_at_ms, found.roles)


class ListPrincipalsResponse(msgspec.Struct, rename="kebab"):
    """Principals, by name."""

    principals: Sequence[PrincipalResponse]
    next_page_token: str | None


class UpdatePrincipalRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A change of a principal."""

    disabled: bool
    """Whether it may do nothing, from its next request on."""


class RoleResponse(msgspec.Struct, rename="kebab"):
    """A role."""

    name: str
    owner: str | None
    """Who changes its members, as `principal:NAME`."""
    created_at_ms: int

    @classmethod
    def of(cls, found: Role) -> RoleResponse:
        """Renders a role."""
        return cls(found.name, found.owner, found.created_at_ms)


class ListRolesResponse(msgspec.Struct, rename="kebab"):
    """Roles, by name."""

    roles: Sequence[RoleResponse]
    next_page_token: str | None


class ListMembersResponse(msgspec.Struct, rename="kebab"):
    """Members of a role."""

    members: Sequence[str]
    """As `principal:NAME`, `role:NAME` or `group:NAME`."""
    next_page_token: str | None


class CreateRoleRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A new role."""

    name: str


class ChangeMembersRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Changes of the members of a role, all or none."""

    add: tuple[str, ...] = ()
    """As `principal:NAME`, `role:NAME` or `group:NAME`."""
    remove: tuple[str, ...] = ()


class ChangesResponse(msgspec.Struct):
    """What was changed."""

    changes: Sequence[str]
    """A line of the history for each change; empty if all was so before."""


class GrantRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Privileges that are granted or revoked."""

    on: str
    """As `account`, `catalog:lake`, `namespace:lake.outer.inner`, `table:lake.outer.orders`."""
    grantee: str
    """As `principal:NAME`, `role:NAME` or `group:NAME`."""
    privileges: tuple[Privilege, ...]


class PrivilegesResponse(msgspec.Struct):
    """Privileges whose grants were changed."""

    privileges: Sequence[str]


class GrantResponse(msgspec.Struct, rename="kebab"):
    """A grant."""

    grantee: str
    privilege: str
    on: str
    granted_by: str
    granted_at_ms: int

    @classmethod
    def of(cls, found: Grant) -> GrantResponse:
        """Renders a grant."""
        on = written_securable(found.on)
        return cls(found.grantee, found.privilege, on, found.granted_by, found.granted_at_ms)


class ListGrantsResponse(msgspec.Struct, rename="kebab"):
    """Grants."""

    grants: Sequence[GrantResponse]
    next_page_token: str | None


class OwnerRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A new owner."""

    on: str
    owner: str
    """As `principal:NAME` or `role:NAME`."""


class OwnerResponse(msgspec.Struct):
    """The owner of something."""

    on: str
    owner: str | None
    """Null where nobody is."""


class ExplanationResponse(msgspec.Struct):
    """The reasons why a principal may do something, or not."""

    allowed: bool
    reasons: Sequence[str]
    """Each way in which it is allowed; else what would be needed."""

    @classmethod
    def of(cls, found: AccessExplanation) -> ExplanationResponse:
        """Renders an explanation."""
        return cls(found.allowed, found.reasons)


class HolderResponse(msgspec.Struct):
    """Somebody who may do something with a thing."""

    grantee: str
    """With the roles that lead to what was granted."""
    privilege: str
    """The granted one, or `owner`."""
    on: str
    """The thing that has the grant."""


class WhoResponse(msgspec.Struct):
    """Those who may do something with a thing."""

    holders: Sequence[HolderResponse]
    complete: bool
    """Whether these are all: a privilege narrows the question."""


class ChangeResponse(msgspec.Struct, rename="kebab"):
    """A change of access."""

    version: int
    """Number of the change in the account."""
    principal: str
    change: str
    changed_at_ms: int


class HistoryResponse(msgspec.Struct, rename="kebab"):
    """Changes of access, the newest first."""

    changes: Sequence[ChangeResponse]
    next_page_token: str | None


class OwnAccessResponse(msgspec.Struct):
    """What the principal that asks is and may."""

    principal: str
    groups: Sequence[str]
    """Groups that its token names."""
    roles: Sequence[str]
    """Roles by which it has rights, directly or not."""
    privileges: Sequence[str]
    """Privileges on the thing that it asked about."""


def parse_securable(text: str) -> Securable:
    """Reads a thing.

    Raises:
        BadRequestError: it is malformed.
    """
    if text == "account":
        return Securable("account", "")
    kind, _, name = text.partition(":")
    least = {"catalog": 1, "namespace": 2, "table": 3, "view": 3}.get(kind)
    levels = () if least is None else parse_namespace(name)
    if least is None or len(levels) < least or (kind == "catalog" and len(levels) > 1):
        raise BadRequestError(
            f"Invalid name of a thing: {text[:255]!r}, expected account, catalog:NAME,"
            " namespace:CATALOG.LEVELS, table:CATALOG.LEVELS.NAME or view:CATALOG.LEVELS.NAME"
        )
    catalog, *inner = levels
    check_name(catalog, "name of a catalog")
    if kind == "catalog":
        return Securable("catalog", catalog)
    if kind == "namespace":
        check_namespace(tuple(inner))
        return Securable("namespace", catalog, tuple(inner))
    *namespace, last = inner
    check_namespace(tuple(namespace))
    check_name(last, f"name of a {kind}")
    return Securable("table" if kind == "table" else "view", catalog, tuple(namespace), last)


def written_securable(on: Securable) -> str:
    """A thing in the form that `parse_securable` reads."""
    if on.kind == "account":
        return "account"
    name = () if on.name is None else (on.name,)
    return f"{on.kind}:{written((on.catalog, *on.namespace, *name))}"


def parse_privilege(text: str) -> Privilege:
    """Reads a privilege.

    Raises:
        BadRequestError: there is none of this name.
    """
    try:
        return Privilege(text.strip())
    except ValueError:
        known = ", ".join(Privilege)
        raise BadRequestError(f"There is no privilege {text[:255]!r}. There are: {known}") from None


def grants_response(found: Page[Grant]) -> ListGrantsResponse:
    """Renders grants."""
    return ListGrantsResponse([GrantResponse.of(each) for each in found.items], found.next_token)


def who_response(found: Sequence[Holder], limit: int) -> WhoResponse:
    """Renders holders, of which there may be one more than wanted."""
    shown = [HolderResponse(each.grantee, each.privilege, each.on) for each in found[:limit]]
    return WhoResponse(shown, len(found) <= limit)


def history_response(found: Page[AccessChange]) -> HistoryResponse:
    """Renders changes."""
    changes = [
        ChangeResponse(each.access_version, each.principal, each.change, each.changed_at_ms)
        for each in found.items
    ]
    return HistoryResponse(changes, found.next_token)


def own_access_response(found: OwnAccess) -> OwnAccessResponse:
    """Renders what a principal is and may."""
    return OwnAccessResponse(found.name, found.groups, found.roles, found.privileges)
