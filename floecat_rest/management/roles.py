"""Roles of the account of the one who asks."""

from __future__ import annotations

from typing import Final

from litestar import delete, get, post
from litestar.params import RawBody

from floecat_rest.http.options import WITHOUT_STORAGE
from floecat_rest.http.requests import CatalogRequest, PageSize, PageToken, path_name
from floecat_rest.management.access_wire import (
    ChangeMembersRequest,
    ChangesResponse,
    CreateRoleRequest,
    ListMembersResponse,
    ListRolesResponse,
    RoleResponse,
)
from floecat_rest.management.controllers import ManagementController, listed_size

__all__ = ["BuiltInRolesController", "RoleController", "RoleMembersController", "RolesController"]

_ROLES: Final = "/management/v1/roles"
_ROLE: Final = f"{_ROLES}/{{role:str}}"


class RolesController(ManagementController):
    """The roles of the account."""

    path = _ROLES

    @get(operation_id="listRoles", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def list_roles(
        self, request: CatalogRequest, page_token: PageToken = None, page_size: PageSize = None
    ) -> ListRolesResponse:
        """The roles, by name; at most 1,000. Needs `read_access` on the account."""
        found = request.kernel.access.roles.page(request.actor, page_token, listed_size(page_size))
        return ListRolesResponse([RoleResponse.of(each) for each in found.items], found.next_token)

    @post(operation_id="createRole", status_code=201, sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def create_role(self, request: CatalogRequest, body: RawBody) -> ChangesResponse:
        """Creates a role, which its creator owns. Needs `manage_roles` on the account."""
        sent = request.read(body, CreateRoleRequest)
        return ChangesResponse(request.kernel.access.roles.create(request.actor, sent.name))


class BuiltInRolesController(ManagementController):
    """Roles that people expect."""

    path = "/management/v1/built-in-roles"

    @post(
        operation_id="createBuiltInRoles", status_code=200, sync_to_thread=True, opt={WITHOUT_STORAGE: True}
    )
    def create_built_in_roles(self, request: CatalogRequest) -> ChangesResponse:
        """Creates operator, catalog-admin, engineer, analyst and worker where they are missing.

        Needs all privileges on the account.
        """
        return ChangesResponse(request.kernel.access.built_in_roles.create(request.actor))


class RoleController(ManagementController):
    """A role."""

    path = _ROLE

    @get(operation_id="loadRole", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def load_role(self, request: CatalogRequest) -> RoleResponse:
        """The role. Needs `read_access` on the account."""
        return RoleResponse.of(request.kernel.access.roles.get(request.actor, path_name(request, "role")))

    @delete(operation_id="dropRole", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def drop_role(self, request: CatalogRequest) -> None:
        """Deletes the role with its grants. For operators, its owner, and members with `manage_roles`."""
        request.kernel.access.roles.delete(request.actor, path_name(request, "role"))


class RoleMembersController(ManagementController):
    """The members of a role."""

    path = f"{_ROLE}/members"

    @get(operation_id="listRoleMembers", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def list_role_members(
        self, request: CatalogRequest, page_token: PageToken = None, page_size: PageSize = None
    ) -> ListMembersResponse:
        """The members of the role; at most 1,000. Needs `read_access` on the account."""
        found = request.kernel.access.roles.members(
            request.actor, path_name(request, "role"), page_token, listed_size(page_size)
        )
        return ListMembersResponse(found.items, found.next_token)

    @post(operation_id="changeRoleMembers", status_code=200, sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def change_role_members(self, request: CatalogRequest, body: RawBody) -> ChangesResponse:
        """Adds and removes members. For operators, its owner, and members with `manage_roles`."""
        sent = request.read(body, ChangeMembersRequest)
        changes = request.kernel.access.roles.change_members(
            request.actor, path_name(request, "role"), add=sent.add, remove=sent.remove
        )
        return ChangesResponse(changes)
