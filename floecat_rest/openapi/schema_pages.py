"""`/schema`: the OpenAPI documents and the page that shows them, without a login."""

from __future__ import annotations

from typing import Final, cast

from litestar import Controller, Response, get
from litestar.params import FromPath

from floecat.errors import NotFoundError
from floecat_rest.http.html_pages import HTML_HEADERS
from floecat_rest.http.options import PUBLIC, WITHOUT_STORAGE
from floecat_rest.http.requests import CatalogRequest
from floecat_rest.openapi.descriptions import Descriptions

__all__ = ["SchemaController"]

_MEDIA_TYPES: Final = {"json": "application/json", "yaml": "application/yaml"}


class SchemaController(Controller):
    """What is served, for people and for tools."""

    path = "/schema"
    tags = ["Description"]
    opt = {PUBLIC: True, WITHOUT_STORAGE: True}

    @get(operation_id="describeApi", sync_to_thread=True)
    def describe_api(self, request: CatalogRequest) -> Response[bytes]:
        """The operations of this server, as a page."""
        return Response(_descriptions(request).page, media_type="text/html", headers=HTML_HEADERS)

    @get("/{document:str}", operation_id="getDescription", sync_to_thread=True)
    def get_description(self, request: CatalogRequest, document: FromPath[str]) -> Response[bytes]:
        """An OpenAPI document: `iceberg` or `management`, as `.json` or `.yaml`."""
        files = _descriptions(request).files
        if document not in files:
            raise NotFoundError(f"Document does not exist: choose one of {', '.join(files)}")
        return Response(files[document], media_type=_MEDIA_TYPES[document.rpartition(".")[2]])


def _descriptions(request: CatalogRequest) -> Descriptions:
    return cast("Descriptions", request.app.state[Descriptions.STATE])
