"""Catalogs: their locations, and their removal. They are created on the command line."""

from __future__ import annotations

from litestar import Controller, delete, get, post
from litestar.params import RawBody

from floecat_rest.management.catalog_wire import CatalogResponse, UpdateCatalogRequest, catalog_response
from floecat_rest.requests import CatalogRequest
from floecat_rest.threads import WITHOUT_STORAGE

__all__ = ["ManagedCatalogController"]


class ManagedCatalogController(Controller):
    """One catalog."""

    path = "/management/v1/catalogs/{catalog:str}"
    tags = ["Management"]

    @get(operation_id="loadCatalog", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def load_catalog(self, request: CatalogRequest) -> CatalogResponse:
        """The catalog and its locations."""
        return catalog_response(request.call().catalog)

    @post(operation_id="updateCatalog", status_code=200, sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def update_catalog(self, request: CatalogRequest, body: RawBody) -> CatalogResponse:
        """Adds allowed locations, and removes some in which no table, view, connector or open job lies."""
        sent = request.read(body, UpdateCatalogRequest)
        changed = request.kernel.catalog_changes.update(
            request.call(), add=sent.add_locations, remove=sent.remove_locations
        )
        return catalog_response(changed)

    @delete(operation_id="dropCatalog", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def drop_catalog(self, request: CatalogRequest) -> None:
        """Deletes a catalog that has no namespaces, connectors and unfinished jobs."""
        request.kernel.catalog_changes.delete(request.call())
