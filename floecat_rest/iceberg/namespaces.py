"""Namespaces."""

from __future__ import annotations

from litestar import Controller, delete, get, head, post
from litestar.params import RawBody

from floecat.catalog.namespaces import NamespaceInfo, PropertiesUpdated
from floecat.entries.calls import PageRequest
from floecat_rest.http.options import AT_ONCE, WITHOUT_STORAGE
from floecat_rest.http.requests import CatalogRequest, PageSize, PageToken
from floecat_rest.iceberg.wire import (
    CreateNamespaceRequest,
    ListNamespacesResponse,
    UpdateNamespacePropertiesRequest,
)

__all__ = ["NamespaceController", "NamespacePropertiesController", "NamespacesController"]

_NAMESPACES = "/v1/{prefix:str}/namespaces"
_NAMESPACE = "/v1/{prefix:str}/namespaces/{namespace:str}"


class NamespacesController(Controller):
    """The namespaces of a catalog."""

    path = _NAMESPACES
    tags = ["Namespaces"]

    @get(operation_id="listNamespaces", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def list_namespaces(
        self, request: CatalogRequest, page_token: PageToken = None, page_size: PageSize = None
    ) -> ListNamespacesResponse:
        """Direct children of `parent`, or the top level."""
        call = request.call()
        page = request.kernel.catalog.namespaces.list(
            call, request.parent(call), PageRequest(page_token, page_size)
        )
        return ListNamespacesResponse(page.items, page.next_token)

    @post(operation_id="createNamespace", status_code=200, sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def create_namespace(self, request: CatalogRequest, body: RawBody) -> NamespaceInfo:
        """Creates a namespace, together with parents that are missing."""
        sent = request.read(body, CreateNamespaceRequest)
        return request.kernel.catalog.namespaces.create(
            request.mutation(body), sent.namespace, sent.properties or {}
        )


class NamespaceController(Controller):
    """A namespace."""

    path = _NAMESPACE
    tags = ["Namespaces"]

    @get(
        operation_id="loadNamespaceMetadata", sync_to_thread=True, opt={WITHOUT_STORAGE: True, AT_ONCE: True}
    )
    def load_namespace(self, request: CatalogRequest) -> NamespaceInfo:
        """The namespace and its properties."""
        call = request.call()
        return request.kernel.catalog.namespaces.load(call, request.namespace(call))

    @head(
        operation_id="namespaceExists",
        status_code=204,
        sync_to_thread=True,
        opt={WITHOUT_STORAGE: True, AT_ONCE: True},
    )
    def namespace_exists(self, request: CatalogRequest) -> None:
        """204 if it exists."""
        call = request.call()
        request.kernel.catalog.namespaces.exists(call, request.namespace(call))

    @delete(operation_id="dropNamespace", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def drop_namespace(self, request: CatalogRequest) -> None:
        """Removes an empty namespace."""
        call = request.mutation()
        request.kernel.catalog.namespaces.drop(call, request.namespace(call))


class NamespacePropertiesController(Controller):
    """The properties of a namespace."""

    path = f"{_NAMESPACE}/properties"
    tags = ["Namespaces"]

    @post(operation_id="updateProperties", status_code=200, sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def update_properties(self, request: CatalogRequest, body: RawBody) -> PropertiesUpdated:
        """Sets and removes properties."""
        sent = request.read(body, UpdateNamespacePropertiesRequest)
        call = request.mutation(body)
        return request.kernel.catalog.namespaces.update_properties(
            call, request.namespace(call), sent.removals or [], sent.updates or {}
        )
