"""Functions. The catalog stores none: listings are empty and loads are answered 404."""

from __future__ import annotations

from litestar import Controller, get
from litestar.params import FromPath

from floecat.errors import NoSuchFunctionError
from floecat.identifiers.encoding import decode_segment
from floecat.identifiers.namespace import TableIdentifier
from floecat_rest.http.options import WITHOUT_STORAGE
from floecat_rest.http.requests import CatalogRequest, PageSize, PageToken
from floecat_rest.iceberg.wire import ListFunctionsResponse

__all__ = ["FunctionController", "FunctionsController"]

_FUNCTIONS = "/v1/{prefix:str}/namespaces/{namespace:str}/functions"


class FunctionsController(Controller):
    """The functions of a namespace."""

    path = _FUNCTIONS
    tags = ["Functions"]

    @get(operation_id="listFunctions", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def list_functions(
        self,
        request: CatalogRequest,
        page_token: PageToken = None,  # noqa: ARG002
        page_size: PageSize = None,  # noqa: ARG002
    ) -> ListFunctionsResponse:
        """An empty list, if the namespace exists."""
        call = request.call()
        request.kernel.catalog.namespaces.exists(call, request.namespace(call))
        return ListFunctionsResponse()


class FunctionController(Controller):
    """A function."""

    path = f"{_FUNCTIONS}/{{function:str}}"
    tags = ["Functions"]

    @get(operation_id="loadFunction", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def load_function(self, request: CatalogRequest, function: FromPath[str]) -> None:
        """404: there are no functions."""
        call = request.call()
        namespace = request.namespace(call)
        request.kernel.catalog.namespaces.exists(call, namespace)
        identifier = TableIdentifier(namespace, decode_segment(function).literal)
        raise NoSuchFunctionError(f"Function does not exist: {identifier}")
