"""Owners, users, groups, roles and permissions: over the grants of the account.

A user is a principal. Groups come with tokens, and are members of roles by their names.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import compress, islice
from typing import Final

from litestar import Controller, delete, get, post, put
from litestar.params import FromQuery, RawBody

from floecat.access.principal_service import PrincipalInfo
from floecat.auth.authorizer import Privilege, Securable
from floecat.errors import (
    BadRequestError,
    NoSuchWarehouseError,
    NotFoundError,
    UnsupportedOperationError,
)
from floecat.identifiers.encoding import decode_segment
from floecat.identifiers.schema_names import schema_name, split_schema
from floecat_rest.gravitino.access_wire import (
    GRAVITINO_NAMES,
    CreateGrantedRoleRequest,
    DroppedAnswer,
    GroupAnswer,
    MemberRequest,
    NamesAnswer,
    OwnerAnswer,
    PrivilegesRequest,
    RemovedAnswer,
    RoleAnswer,
    RolesRequest,
    SetAnswer,
    UserAnswer,
    UsersAnswer,
    WireMember,
    WireOwner,
    WirePrivilege,
    WireRole,
    WireSecurable,
    known_privileges,
)
from floecat_rest.gravitino.errors import IllegalNameError, illegal_is, missing_is, schemas_by_name, taken_is
from floecat_rest.gravitino.wire import audit
from floecat_rest.http.options import WITHOUT_STORAGE
from floecat_rest.http.paged import every
from floecat_rest.http.requests import CatalogRequest, path_name

__all__ = ["GRAVITINO_ACCESS_CONTROLLERS"]

_METALAKE: Final = "/api/metalakes/{metalake:str}"
_TAGS: Final = ["Gravitino"]
_PAGE: Final = 1_000
_MOST_OBJECTS: Final = 1_000
"""Things in a request, each of which is looked up."""
_MOST_GRANTS: Final = 10_000
"""Grants of a role in an answer."""
_CATALOG: Final = re.compile(r"[A-Za-z0-9_.-]{0,129}")
"""A name of a catalog, and the dot behind it."""
_NO_GROUPS: Final = (
    "Groups come with tokens and are not added: give roles to one by its name,"
    " PUT .../permissions/groups/NAME/grant"
)


class OwnersController(Controller):
    """Owners of catalogs, schemas, tables and views."""

    path = f"{_METALAKE}/owners/{{type:str}}/{{object:str}}"
    tags = _TAGS

    @get(operation_id="getObjectOwner", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def get_owner(self, request: CatalogRequest) -> OwnerAnswer:
        """The owner: a user, or a role as a group of the name `role:NAME`."""
        on = _object(request)
        with _by_their_names(request, on), missing_is("NoSuchMetadataObjectException"):
            owner = request.kernel.access.questions.owner(request.actor, on)
        if owner is None:
            return OwnerAnswer(None)
        kind, _, name = owner.partition(":")
        return OwnerAnswer(WireOwner(name, "user") if kind == "principal" else WireOwner(owner, "group"))

    @put(operation_id="setObjectOwner", status_code=200, sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def set_owner(self, request: CatalogRequest, body: RawBody) -> SetAnswer:
        """Makes a user the owner, or a role that is sent as a group of the name `role:NAME`."""
        sent = request.read(body, WireOwner)
        on, owner = _object(request), sent.name
        if sent.type.lower() == "user":
            owner = f"principal:{owner}"
        elif not owner.startswith("role:"):
            raise BadRequestError("Owners are users and roles: send a role as a group of the name role:NAME")
        with _by_their_names(request, on):
            request.kernel.access.access.set_owner(request.actor, on, owner, known=True)
        return SetAnswer()


class UsersController(Controller):
    """The users of a metalake."""

    path = f"{_METALAKE}/users"
    tags = _TAGS

    @get(operation_id="listUsers", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def list_users(
        self, request: CatalogRequest, details: FromQuery[bool] = False
    ) -> NamesAnswer | UsersAnswer:
        """The principals, by name."""
        page = partial(request.kernel.access.principals.page, request.actor, with_roles=details)
        found = every(lambda token: page(token, _PAGE))
        if details:
            return UsersAnswer(list(map(_user, found)))
        return NamesAnswer([each.name for each in found])

    @post(operation_id="addUser", status_code=200, sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def add_user(self, request: CatalogRequest, body: RawBody) -> UserAnswer:
        """Adds a principal before it first comes."""
        sent = request.read(body, MemberRequest)
        with taken_is("UserAlreadyExistsException"):
            return UserAnswer(_user(request.kernel.access.principals.create(request.actor, sent.name)))


class UserController(Controller):
    """A user."""

    path = f"{_METALAKE}/users/{{user:str}}"
    tags = _TAGS

    @get(operation_id="getUser", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def get_user(self, request: CatalogRequest) -> UserAnswer:
        """A principal with its roles."""
        with missing_is("NoSuchUserException"):
            found = request.kernel.access.principals.get(request.actor, _named(request, "user"))
        return UserAnswer(_user(found))

    @delete(operation_id="removeUser", status_code=200, sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def remove_user(self, request: CatalogRequest) -> RemovedAnswer:
        """Deletes a principal with its grants and memberships."""
        return RemovedAnswer(
            _was_there(
                lambda: request.kernel.access.principals.delete(request.actor, _named(request, "user"))
            )
        )


class GroupsController(Controller):
    """Groups, which tokens name."""

    path = f"{_METALAKE}/groups"
    tags = _TAGS

    @post(operation_id="addGroup", status_code=200, sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def add_group(self, request: CatalogRequest) -> GroupAnswer:
        """Refused: groups come with tokens."""
        request.actor.check((Privilege.READ_ACCESS, Securable("account", "")))
        raise UnsupportedOperationError(_NO_GROUPS)


class GroupController(Controller):
    """A group."""

    path = f"{_METALAKE}/groups/{{group:str}}"
    tags = _TAGS

    @get(operation_id="getGroup", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def get_group(self, request: CatalogRequest) -> GroupAnswer:
        """A group of tokens with its roles; any name may be one."""
        name = _named(request, "group")
        return GroupAnswer(WireMember(name, request.kernel.access.roles.of(request.actor, f"group:{name}")))


class GravitinoRolesController(Controller):
    """The roles of a metalake."""

    path = f"{_METALAKE}/roles"
    tags = _TAGS

    @get(operation_id="listRoleNames", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def list_roles(self, request: CatalogRequest) -> NamesAnswer:
        """The roles, by name."""
        page = partial(request.kernel.access.roles.page, request.actor)
        return NamesAnswer([each.name for each in every(lambda token: page(token, _PAGE))])

    @post(operation_id="createGrantedRole", status_code=200, sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def create_role(self, request: CatalogRequest, body: RawBody) -> RoleAnswer:
        """Creates a role with grants, in one transaction."""
        sent = request.read(body, CreateGrantedRoleRequest)
        if sent.properties:
            raise BadRequestError("Roles have no properties here: leave them out")
        if len(sent.securable_objects) > _MOST_OBJECTS:
            raise BadRequestError(f"Too many securable objects: at most {_MOST_OBJECTS} at a time")
        granted = [
            (_securable(request, each.type, each.full_name), known_privileges(each.privileges))
            for each in sent.securable_objects
        ]
        with (
            _by_their_names(request, *(on for on, _ in granted)),
            illegal_is("IllegalMetadataObjectException", (NotFoundError,)),
            taken_is("RoleAlreadyExistsException"),
        ):
            request.kernel.access.roles.create(request.actor, sent.name, granted)
        return _role(request, sent.name)


class GravitinoRoleController(Controller):
    """A role."""

    path = f"{_METALAKE}/roles/{{role:str}}"
    tags = _TAGS

    @get(operation_id="getGrantedRole", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def get_role(self, request: CatalogRequest) -> RoleAnswer:
        """A role with what is granted to it, as far as Gravitino has a name for it."""
        return _role(request, _named(request, "role"))

    @delete(
        operation_id="deleteGrantedRole", status_code=200, sync_to_thread=True, opt={WITHOUT_STORAGE: True}
    )
    def delete_role(self, request: CatalogRequest) -> DroppedAnswer:
        """Deletes a role with its members and grants."""
        found = _was_there(lambda: request.kernel.access.roles.delete(request.actor, _named(request, "role")))
        return DroppedAnswer(found, found)


class UserRolesController(Controller):
    """Roles of a user."""

    path = f"{_METALAKE}/permissions/users/{{user:str}}/{{change:str}}"
    tags = _TAGS

    @put(operation_id="changeRolesOfUser", status_code=200, sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def change_roles(self, request: CatalogRequest, body: RawBody) -> UserAnswer:
        """Gives roles to a user (`grant`), or takes them (`revoke`), all or none."""
        name = _named(request, "user")
        with missing_is("NoSuchUserException"):
            roles = _change_roles(request, body, f"principal:{name}")
        return UserAnswer(WireMember(name, roles))


class GroupRolesController(Controller):
    """Roles of a group."""

    path = f"{_METALAKE}/permissions/groups/{{group:str}}/{{change:str}}"
    tags = _TAGS

    @put(operation_id="changeRolesOfGroup", status_code=200, sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def change_roles(self, request: CatalogRequest, body: RawBody) -> GroupAnswer:
        """Gives roles to a group of tokens (`grant`), or takes them (`revoke`), all or none."""
        name = _named(request, "group")
        return GroupAnswer(WireMember(name, _change_roles(request, body, f"group:{name}")))


class RolePrivilegesController(Controller):
    """Privileges of a role on a thing."""

    path = f"{_METALAKE}/permissions/roles/{{role:str}}/{{type:str}}/{{object:str}}/{{change:str}}"
    tags = _TAGS

    @put(operation_id="changePrivileges", status_code=200, sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def change_privileges(self, request: CatalogRequest, body: RawBody) -> RoleAnswer:
        """Grants privileges on a thing to a role, or revokes them."""
        sent = known_privileges(request.read(body, PrivilegesRequest).privileges)
        role, access = _named(request, "role"), request.kernel.access.access
        change = access.grant if _grants(request) else access.revoke
        on = _object(request)
        with missing_is("NoSuchRoleException"):
            request.kernel.access.roles.get(request.actor, role)
        with _by_their_names(request, on), missing_is("NoSuchMetadataObjectException"):
            change(request.actor, sent, on, f"role:{role}")
        return _role(request, role)


GRAVITINO_ACCESS_CONTROLLERS: Final = [
    OwnersController,
    UsersController,
    UserController,
    GroupsController,
    GroupController,
    GravitinoRolesController,
    GravitinoRoleController,
    UserRolesController,
    GroupRolesController,
    RolePrivilegesController,
]


def _named(request: CatalogRequest, parameter: str) -> str:
    """A name in the path. Gravitino's clients encode a plus, and the Java client sends a blank as one."""
    return decode_segment(request.path_params[parameter].replace("+", " ")).literal


def _object(request: CatalogRequest) -> Securable:
    return _securable(request, _named(request, "type"), _named(request, "object"))


def _securable(request: CatalogRequest, kind: str, full_name: str) -> Securable:
    """A thing by its full name: `catalog`, `catalog.A:B`, `catalog.A:B.table`.

    Raises:
        IllegalNameError: it is of another kind, or too short for its kind.
    """
    kind = kind.lower()
    if kind == "metalake":
        return Securable("account", "")
    if kind == "catalog":
        return Securable("catalog", full_name)
    catalog, separator = _catalog_in(request, full_name)
    rest = full_name[len(catalog) + 1 :]
    with illegal_is("IllegalMetadataObjectException"):
        if kind == "schema":
            return Securable("namespace", catalog, split_schema(rest, separator))
        if kind in ("table", "view"):
            schema, _, name = rest.rpartition(".")
            return Securable(
                "table" if kind == "table" else "view", catalog, split_schema(schema, separator), name
            )
    raise IllegalNameError(
        f"A {kind} has no counterpart here; there are metalake, catalog, schema, table and view",
        "IllegalMetadataObjectException",
    )


def _catalog_in(request: CatalogRequest, full_name: str) -> tuple[str, str | None]:
    """The catalog that a full name begins with, of several the one of the longest name, and its separator.

    One that the principal may not use is told from a missing one by nothing.
    """
    may_be = _CATALOG.match(full_name)
    names = [] if may_be is None else [may_be[0][: dot.start()] for dot in re.finditer(r"\.", may_be[0])]
    allowed = request.actor.allowed([(Privilege.USE_CATALOG, Securable("catalog", name)) for name in names])
    for name in reversed(list(compress(names, allowed))):
        try:
            found = request.kernel.catalog.catalogs.by_prefix(request.principal.account_id, name)
        except NoSuchWarehouseError:
            continue
        return name, found.schema_separator
    return full_name.partition(".")[0], request.services.settings.namespaces.separator


def _by_their_names(request: CatalogRequest, *things: Securable) -> AbstractContextManager[None]:
    return schemas_by_name((on.namespace, _catalog_in(request, f"{on.catalog}.")[1]) for on in things)


def _full_name(request: CatalogRequest, on: Securable) -> tuple[str, str]:
    """The kind and the full name of a thing."""
    if on.kind == "account":
        return "metalake", path_name(request, "metalake")
    if on.kind == "catalog":
        return "catalog", on.catalog
    found = request.kernel.catalog.catalogs.by_prefix(request.principal.account_id, on.catalog)
    schema = schema_name(on.namespace, found.schema_separator)
    if on.name is None:
        return "schema", f"{on.catalog}.{schema}"
    return on.kind, f"{on.catalog}.{schema}.{on.name}"


def _role(request: CatalogRequest, name: str) -> RoleAnswer:
    access = request.kernel.access
    with missing_is("NoSuchRoleException"):
        role = access.roles.get(request.actor, name)
        page = partial(access.questions.grants_to, request.actor, f"role:{name}")
        granted = list(islice(every(lambda token: page(token, _PAGE)), _MOST_GRANTS))
    held: defaultdict[Securable, list[WirePrivilege]] = defaultdict(list)
    for each in granted:
        if each.privilege in GRAVITINO_NAMES:
            held[each.on].append(WirePrivilege(GRAVITINO_NAMES[each.privilege]))
    objects = [WireSecurable(*_full_name(request, on)[::-1], privileges) for on, privileges in held.items()]
    return RoleAnswer(WireRole(name, objects, audit(role.created_at_ms)))


def _user(found: PrincipalInfo) -> WireMember:
    return WireMember(found.name, found.roles, audit(found.created_at_ms))


def _change_roles(request: CatalogRequest, body: bytes, member: str) -> Sequence[str]:
    names = request.read(body, RolesRequest).role_names
    given, taken = (names, ()) if _grants(request) else ((), names)
    with illegal_is("IllegalRoleException", (BadRequestError,)):
        return request.kernel.access.roles.change_roles(request.actor, member, add=given, remove=taken)


def _grants(request: CatalogRequest) -> bool:
    change = _named(request, "change")
    if change not in ("grant", "revoke"):
        raise NotFoundError(
            f"Path does not exist: a permission is changed by grant or revoke, not {change[:80]}"
        )
    return change == "grant"


def _was_there(remove: Callable[[], None]) -> bool:
    try:
        remove()
    except NotFoundError:
        return False
    return True
