"""`/schema`: the OpenAPI documents and the page that shows them, without a login."""

from __future__ import annotations

from typing import Final, cast

from litestar import Controller, get
from litestar.params import FromPath

from floecat.errors import NotFoundError
from floecat_rest.http.html_pages import html_answer
from floecat_rest.http.json_responses import Answer
from floecat_rest.http.options import PUBLIC, WITHOUT_STORAGE
from floecat_rest.http.requests import ApiDescriptions, CatalogRequest

__all__ = ["SchemaController"]

_MEDIA_TYPES: Final = {"json": b"application/json", "yaml": b"application/yaml"}


class SchemaController(Controller):
    """Descriptions of the API, for people and for tools."""

    path = "/schema"
    tags = ["Description"]
    opt = {PUBLIC: True, WITHOUT_STORAGE: True}

    @get(operation_id="describeApi", sync_to_thread=True)
    def describe_api(self, request: CatalogRequest) -> Answer:
        """The operations of this server, as a page."""
        return html_answer(_descriptions(request).page)

    @get("/{document:str}", operation_id="getDescription", sync_to_thread=True)
    def get_description(self, request: CatalogRequest, document: FromPath[str]) -> Answer:
        """An OpenAPI document: `iceberg` or `management`, as `.json` or `.yaml`."""
        files = _descriptions(request).files
        if document not in files:
            raise NotFoundError(f"Document does not exist: choose one of {', '.join(files)}")
        return Answer(200, files[document], media_type=_MEDIA_TYPES[document.rpartition(".")[2]])


def _descriptions(request: CatalogRequest) -> ApiDescriptions:
    return cast("ApiDescriptions", request.services.descriptions)
