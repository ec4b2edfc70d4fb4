"""Principals of the account of the one who asks."""

from __future__ import annotations

from typing import Final

from litestar import delete, get, post
from litestar.params import RawBody

from floecat_rest.http.options import WITHOUT_STORAGE
from floecat_rest.http.requests import CatalogRequest, PageSize, PageToken, path_name
from floecat_rest.management.access_wire import (
    ChangesResponse,
    ListPrincipalsResponse,
    PrincipalResponse,
    UpdatePrincipalRequest,
)
from floecat_rest.management.controllers import ManagementController, listed_size

__all__ = ["PrincipalController", "PrincipalsController"]

_PRINCIPALS: Final = "/management/v1/principals"


class PrincipalsController(ManagementController):
    """The principals of the account."""

    path = _PRINCIPALS

    @get(operation_id="listPrincipals", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def list_principals(
        self, request: CatalogRequest, page_token: PageToken = None, page_size: PageSize = None
    ) -> ListPrincipalsResponse:
        """The principals, by name; at most 1,000. Needs `read_access` on the account."""
        found = request.kernel.access.principals.page(request.actor, page_token, listed_size(page_size))
        return ListPrincipalsResponse([PrincipalResponse.of(each) for each in found.items], found.next_token)


class PrincipalController(ManagementController):
    """A principal."""

    path = f"{_PRINCIPALS}/{{principal:str}}"

    @get(operation_id="loadPrincipal", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def load_principal(self, request: CatalogRequest) -> PrincipalResponse:
        """The principal and its roles. Needs `read_access` on the account."""
        return PrincipalResponse.of(
            request.kernel.access.principals.get(request.actor, path_name(request, "principal"))
        )

    @post(operation_id="updatePrincipal", status_code=200, sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def update_principal(self, request: CatalogRequest, body: RawBody) -> ChangesResponse:
        """Disables or enables the principal. Needs `manage_principals` on the account."""
        sent = request.read(body, UpdatePrincipalRequest)
        return ChangesResponse(
            request.kernel.access.principals.set_disabled(
                request.actor, path_name(request, "principal"), disabled=sent.disabled
            )
        )

    @delete(operation_id="dropPrincipal", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def drop_principal(self, request: CatalogRequest) -> None:
        """Deletes the principal with its grants. Needs `manage_principals` on the account."""
        request.kernel.access.principals.delete(request.actor, path_name(request, "principal"))
