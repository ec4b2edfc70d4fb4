"""Catalogs and their locations."""

from __future__ import annotations

from litestar import delete, get, post
from litestar.params import RawBody

from floecat_rest.http.options import WITHOUT_STORAGE
from floecat_rest.http.requests import CatalogRequest, PageSize, PageToken
from floecat_rest.management.catalog_wire import (
    CatalogResponse,
    CreateCatalogRequest,
    ListCatalogsResponse,
    UpdateCatalogRequest,
    catalog_response,
)
from floecat_rest.management.controllers import ManagementController, listed_size

__all__ = ["ManagedCatalogController", "ManagedCatalogsController"]


class ManagedCatalogsController(ManagementController):
    """The catalogs of an account."""

    path = "/management/v1/catalogs"

    @get(operation_id="listCatalogs", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def list_catalogs(
        self, request: CatalogRequest, page_token: PageToken = None, page_size: PageSize = None
    ) -> ListCatalogsResponse:
        """The catalogs that the principal may use, by name; at most 1,000."""
        found = request.kernel.catalog.directory.list(request.principal, page_token, listed_size(page_size))
        return ListCatalogsResponse([catalog_response(each) for each in found.items], found.next_token)

    @post(operation_id="createCatalog", status_code=201, sync_to_thread=True)
    def create_catalog(self, request: CatalogRequest, body: RawBody) -> CatalogResponse:
        """Creates a catalog, once a small file could be written at its location and deleted again."""
        sent = request.read(body, CreateCatalogRequest)
        made = request.kernel.catalog.directory.create(request.principal, sent.to_kernel())
        return catalog_response(made)


class ManagedCatalogController(ManagementController):
    """A catalog."""

    path = "/management/v1/catalogs/{catalog:str}"

    @get(operation_id="loadCatalog", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def load_catalog(self, request: CatalogRequest) -> CatalogResponse:
        """The catalog and its locations."""
        return catalog_response(request.call().catalog)

    @post(operation_id="updateCatalog", status_code=200, sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def update_catalog(self, request: CatalogRequest, body: RawBody) -> CatalogResponse:
        """Adds allowed locations, removes some that nothing lies in, and makes the catalog nested or flat."""
        sent = request.read(body, UpdateCatalogRequest)
        if sent.nested is not None:
            request.kernel.catalog.nested.set_nested(request.call(), nested=sent.nested)
        changed = request.kernel.catalog.changes.update(
            request.call(), add=sent.add_locations, remove=sent.remove_locations
        )
        return catalog_response(changed)

    @delete(operation_id="dropCatalog", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def drop_catalog(self, request: CatalogRequest) -> None:
        """Deletes a catalog that has no namespaces, connectors and unfinished jobs."""
        request.kernel.catalog.changes.delete(request.call())
