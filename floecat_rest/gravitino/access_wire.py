"""Bodies of requests and answers about access, as Gravitino spells them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from floecat.auth.authorizer import Privilege
from floecat_rest.gravitino.errors import IllegalNameError
from floecat_rest.gravitino.wire import WireAudit

__all__ = [
    "GRAVITINO_NAMES",
    "CreateGrantedRoleRequest",
    "DroppedAnswer",
    "GroupAnswer",
    "MemberRequest",
    "NamesAnswer",
    "OwnerAnswer",
    "PrivilegesRequest",
    "RemovedAnswer",
    "RoleAnswer",
    "RolesRequest",
    "SetAnswer",
    "UserAnswer",
    "UsersAnswer",
    "WireMember",
    "WireOwner",
    "WirePrivilege",
    "WireRole",
    "WireSecurable",
    "known_privileges",
]

_PRIVILEGES: Final[Mapping[str, Privilege]] = {
    "create_catalog": Privilege.CREATE_CATALOG,
    "use_catalog": Privilege.USE_CATALOG,
    "create_schema": Privilege.CREATE_SCHEMA,
    "use_schema": Privilege.USE_SCHEMA,
    "create_table": Privilege.CREATE_TABLE,
    "modify_table": Privilege.WRITE_TABLE,
    "select_table": Privilege.READ_TABLE,
    "create_view": Privilege.CREATE_VIEW,
    "select_view": Privilege.READ_VIEW,
    "manage_users": Privilege.MANAGE_PRINCIPALS,
    "create_role": Privilege.MANAGE_ROLES,
    "manage_grants": Privilege.MANAGE_GRANTS,
}
GRAVITINO_NAMES: Final[Mapping[str, str]] = {privilege: name for name, privilege in _PRIVILEGES.items()}
"""Gravitino's names of privileges; the others have none there."""


class WirePrivilege(msgspec.Struct, frozen=True):
    """A privilege."""

    name: str
    condition: str = "allow"


class WireSecurable(msgspec.Struct, frozen=True, rename="camel"):
    """A thing with the privileges on it."""

    full_name: str
    type: str
    privileges: Sequence[WirePrivilege]


class WireRole(msgspec.Struct, frozen=True, rename="camel"):
    """A role with what is granted to it."""

    name: str
    securable_objects: Sequence[WireSecurable]
    audit: WireAudit
    properties: Mapping[str, str] = {}


class WireMember(msgspec.Struct, frozen=True):
    """A user or a group with its roles."""

    name: str
    roles: Sequence[str]
    audit: WireAudit = WireAudit()


class WireOwner(msgspec.Struct, frozen=True):
    """An owner."""

    name: str
    type: str


class RoleAnswer(msgspec.Struct, frozen=True):
    """A role."""

    role: WireRole
    code: int = 0


class UserAnswer(msgspec.Struct, frozen=True):
    """A user."""

    user: WireMember
    code: int = 0


class UsersAnswer(msgspec.Struct, frozen=True):
    """Users with their details."""

    users: Sequence[WireMember]
    code: int = 0


class GroupAnswer(msgspec.Struct, frozen=True):
    """A group."""

    group: WireMember
    code: int = 0


class NamesAnswer(msgspec.Struct, frozen=True):
    """Names of users, groups or roles."""

    names: Sequence[str]
    code: int = 0


class OwnerAnswer(msgspec.Struct, frozen=True):
    """An owner; null where nobody owns the thing."""

    owner: WireOwner | None
    code: int = 0


class SetAnswer(msgspec.Struct, frozen=True):
    """An owner was set."""

    set: bool = True
    code: int = 0


class RemovedAnswer(msgspec.Struct, frozen=True):
    """Whether there was something to remove."""

    removed: bool
    code: int = 0


class DroppedAnswer(msgspec.Struct, frozen=True):
    """Whether there was a role to delete."""

    dropped: bool
    deleted: bool
    code: int = 0


class MemberRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A user or group to add."""

    name: str


class RolesRequest(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Roles to give or to take."""

    role_names: Sequence[str]


class PrivilegesRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Privileges to grant or to revoke."""

    privileges: Sequence[WirePrivilege]


class CreateGrantedRoleRequest(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A role to create."""

    name: str
    properties: Mapping[str, str] | None = None
    securable_objects: Sequence[WireSecurable] = ()


def known_privileges(sent: Sequence[WirePrivilege]) -> list[Privilege]:
    """Floecat's privileges.

    Raises:
        IllegalNameError: one has no counterpart, or is a denial.
    """
    for each in sent:
        if each.condition.lower() != "allow":
            raise IllegalNameError(
                f"Privilege {each.name} cannot be denied: what is not granted is not allowed",
                "IllegalPrivilegeException",
            )
        if each.name.lower() not in _PRIVILEGES:
            known = ", ".join(_PRIVILEGES)
            raise IllegalNameError(
                f"Privilege {each.name} has no counterpart here; there are {known}",
                "IllegalPrivilegeException",
            )
    return [_PRIVILEGES[each.name.lower()] for each in sent]
