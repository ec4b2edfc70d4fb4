"""Views."""

from __future__ import annotations

from litestar import Controller, delete, get, head, post
from litestar.params import RawBody

from floecat.commits.view_commits import CreateView
from floecat.entries.calls import PageRequest
from floecat_rest.http.documents import DocumentResponse
from floecat_rest.http.options import AT_ONCE, WITHOUT_STORAGE
from floecat_rest.http.requests import CatalogRequest, PageSize, PageToken
from floecat_rest.iceberg.wire import (
    CommitViewRequest,
    ListTablesResponse,
    RegisterViewRequest,
    RenameTableRequest,
    list_tables,
)

__all__ = ["RegisterViewController", "RenameViewController", "ViewController", "ViewsController"]

_NAMESPACE = "/v1/{prefix:str}/namespaces/{namespace:str}"


class ViewsController(Controller):
    """The views of a namespace."""

    path = f"{_NAMESPACE}/views"
    tags = ["Views"]

    @get(operation_id="listViews", sync_to_thread=True, opt={WITHOUT_STORAGE: True, AT_ONCE: True})
    def list_views(
        self, request: CatalogRequest, page_token: PageToken = None, page_size: PageSize = None
    ) -> ListTablesResponse:
        """Identifiers of the views, by name."""
        call = request.call()
        page = PageRequest(page_token, page_size)
        return list_tables(request.kernel.catalog.views.list(call, request.namespace(call), page))

    @post(operation_id="createView", status_code=200, sync_to_thread=True)
    def create_view(self, request: CatalogRequest, body: RawBody) -> DocumentResponse:
        """Creates a view."""
        sent = request.read(body, CreateView)
        call = request.mutation(body)
        return request.view_answer(request.kernel.commits.views.create(call, request.namespace(call), sent))


class ViewController(Controller):
    """A view."""

    path = f"{_NAMESPACE}/views/{{view:str}}"
    tags = ["Views"]

    @get(operation_id="loadView", sync_to_thread=True, opt={WITHOUT_STORAGE: True, AT_ONCE: True})
    def load_view(self, request: CatalogRequest) -> DocumentResponse:
        """The view with its metadata document."""
        call = request.call()
        name = request.entry(call, "view")
        reading = request.through_views(call, "view", name)
        return request.view_answer(request.kernel.catalog.views.load(reading, name))

    @head(
        operation_id="viewExists",
        status_code=204,
        sync_to_thread=True,
        opt={WITHOUT_STORAGE: True, AT_ONCE: True},
    )
    def view_exists(self, request: CatalogRequest) -> None:
        """204 if it exists."""
        call = request.call()
        request.kernel.catalog.views.exists(call, request.entry(call, "view"))

    @post(operation_id="replaceView", status_code=200, sync_to_thread=True)
    def replace_view(self, request: CatalogRequest, body: RawBody) -> DocumentResponse:
        """Checks the requirements and applies the updates."""
        sent = request.read(body, CommitViewRequest)
        call = request.mutation(body)
        view = request.kernel.commits.views.replace(
            call, request.entry(call, "view"), sent.requirements or [], sent.updates or []
        )
        return request.view_answer(view)

    @delete(operation_id="dropView", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def drop_view(self, request: CatalogRequest) -> None:
        """Removes the view."""
        call = request.mutation()
        request.kernel.catalog.views.drop(call, request.entry(call, "view"))


class RegisterViewController(Controller):
    """Registration of views that exist as files."""

    path = f"{_NAMESPACE}/register-view"
    tags = ["Views"]

    @post(operation_id="registerView", status_code=200, sync_to_thread=True)
    def register_view(self, request: CatalogRequest, body: RawBody) -> DocumentResponse:
        """Registers a metadata file as a view."""
        sent = request.read(body, RegisterViewRequest)
        call = request.mutation(body)
        view = request.kernel.commits.views.register(
            call, request.namespace(call), sent.name, sent.metadata_location
        )
        return request.view_answer(view)


class RenameViewController(Controller):
    """Renames of views."""

    path = "/v1/{prefix:str}/views/rename"
    tags = ["Views"]

    @post(operation_id="renameView", status_code=204, sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def rename_view(self, request: CatalogRequest, body: RawBody) -> None:
        """Renames a view, or moves it to another namespace."""
        sent = request.read(body, RenameTableRequest)
        request.kernel.catalog.views.rename(
            request.mutation(body), sent.source.to_identifier(), sent.destination.to_identifier()
        )
