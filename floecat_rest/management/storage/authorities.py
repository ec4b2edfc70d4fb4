"""Storage authorities of the account of the one who asks."""

from __future__ import annotations

from typing import Final

from litestar import delete, get, post
from litestar.params import RawBody

from floecat_rest.http.options import WITHOUT_STORAGE
from floecat_rest.http.requests import CatalogRequest, PageSize, PageToken, path_name
from floecat_rest.management.controllers import ManagementController, listed_size
from floecat_rest.management.storage.authority_wire import (
    AuthorityResponse,
    CreateAuthorityRequest,
    ListAuthoritiesResponse,
    UpdateAuthorityRequest,
)

__all__ = ["AuthoritiesController", "AuthorityController"]

_AUTHORITIES: Final = "/management/v1/authorities"


class AuthoritiesController(ManagementController):
    """The storage authorities of the account."""

    path = _AUTHORITIES

    @get(operation_id="listAuthorities", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def list_authorities(
        self, request: CatalogRequest, page_token: PageToken = None, page_size: PageSize = None
    ) -> ListAuthoritiesResponse:
        """The authorities, by name; at most 1,000. Needs `read_authorities` on the account."""
        found = request.kernel.credentials.authorities.page(request.actor, page_token, listed_size(page_size))
        return ListAuthoritiesResponse([AuthorityResponse.of(each) for each in found.items], found.next_token)

    @post(operation_id="createAuthority", status_code=201, sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def create_authority(self, request: CatalogRequest, body: RawBody) -> AuthorityResponse:
        """Creates an authority. Needs `manage_authorities` on the account.

        Keys of the service and endpoints are those that `floecat.storage.authorities` lends.
        """
        sent = request.read(body, CreateAuthorityRequest)
        made = request.kernel.credentials.authorities.create(request.actor, sent.to_kernel())
        return AuthorityResponse.of(made)


class AuthorityController(ManagementController):
    """A storage authority."""

    path = f"{_AUTHORITIES}/{{authority:str}}"

    @get(operation_id="loadAuthority", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def load_authority(self, request: CatalogRequest) -> AuthorityResponse:
        """The authority. Needs `read_authorities` on the account."""
        return AuthorityResponse.of(
            request.kernel.credentials.authorities.get(request.actor, path_name(request, "authority"))
        )

    @post(operation_id="updateAuthority", status_code=200, sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def update_authority(self, request: CatalogRequest, body: RawBody) -> AuthorityResponse:
        """Changes the authority, from the next request on. Needs `manage_authorities` on the account."""
        sent = request.read(body, UpdateAuthorityRequest)
        changed = request.kernel.credentials.authorities.update(
            request.actor, path_name(request, "authority"), sent.to_kernel()
        )
        return AuthorityResponse.of(changed)

    @delete(operation_id="dropAuthority", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def drop_authority(self, request: CatalogRequest) -> None:
        """Deletes the authority; keys that it made lapse. Needs `manage_authorities` on the account."""
        request.kernel.credentials.authorities.delete(request.actor, path_name(request, "authority"))
