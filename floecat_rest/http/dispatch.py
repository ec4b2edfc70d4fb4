"""From a request to the handler of its route, and back to an answer.

Litestar finds the handler, reads its parameters, and knows what the API descriptions are made from. Its own
path to the handler serves hooks, layers and dependencies that no route of this service has, and takes as long
as the handler of a small request. So handlers are called from here.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote

from litestar import Litestar, Response
from litestar._asgi.routing_trie.traversal import parse_path_params
from litestar.enums import ScopeType
from litestar.exceptions import ClientException
from litestar.routes import HTTPRoute
from litestar.serialization import default_serializer, encode_json
from litestar.utils.sync import AsyncCallable

from floecat.runtime import Kernel
from floecat_rest.http.bodies import Bodies
from floecat_rest.http.compression import AnswerCompression, compressed
from floecat_rest.http.documents import DocumentResponse
from floecat_rest.http.errors import answer_error
from floecat_rest.http.json_responses import WITHOUT_BODY, Answer
from floecat_rest.http.options import AT_ONCE, PUBLIC, WITHOUT_STORAGE
from floecat_rest.http.paths import check_parameters_once, empty_name_error
from floecat_rest.http.requests import CatalogRequest, HttpServices, header_of
from floecat_rest.process.admission import AdmittedRequest
from floecat_rest.process.request_threads import WaitsFor

if TYPE_CHECKING:
    from litestar.handlers import HTTPRouteHandler
    from litestar.types import ASGIApp, Receive, Scope, Send

__all__ = ["Dispatcher"]

_HOST: Final = re.compile(rb"[0-9A-Za-z!$&'()*+,;=\-._~:\[\]@%]*")
_NO_PARAMETERS: Final = frozenset({"request", "body"})
_LONGEST_KEPT_PATH: Final = 512
"""The framework keeps a thousand paths and names, which need no login. Long ones would fill the memory."""


class Dispatcher:
    """ASGI application: authenticates a request, admits it, and calls its handler in a thread of its kind."""

    def __init__(self, app: Litestar, services: HttpServices) -> None:
        self._app = app
        self._services = services
        self._bodies = Bodies(services)
        self._endpoints = {
            handler: _Endpoint(handler, arguments)
            for route in app.routes
            if isinstance(route, HTTPRoute)
            for handler, arguments in route.route_handler_map.values()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return
        with AdmittedRequest(self._services) as admitted:
            try:
                answer = await self._answer(scope, receive, admitted)
            except Exception as error:  # noqa: BLE001 - every error is answered
                answer = compressed(answer_error(scope, error), scope)
            admitted.release()
            await answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, admitted: AdmittedRequest) -> ASGIApp:
        kernel = cast("Kernel", self._services.kernel)
        error = empty_name_error(str(scope.get("method")), scope["path"], kernel.separator)
        if error is not None:
            await self._services.authenticator.authenticate(scope["headers"])
            raise error
        endpoint = self._route(scope)
        if not endpoint.is_public:
            scope["user"] = await self._services.authenticator.authenticate(scope["headers"])
        admitted.store = partial(self._store_of, scope)
        request = CatalogRequest(scope)
        request.admitted = admitted
        read = partial(self._bodies.read, admitted, scope["headers"], receive)
        arguments = await endpoint.arguments(request, read)
        result = await endpoint.call(arguments, request)
        return await endpoint.render(result, request)

    def _route(self, scope: Scope) -> _Endpoint:
        host = header_of(scope["headers"], b"host")
        if host is not None and not _HOST.fullmatch(host.encode("latin-1")):
            raise ClientException("Invalid host header")
        path = f"/{scope['path'].strip('/')}"
        find = self._app.asgi_router.handle_routing
        try:
            found = find(path=path, method=scope.get("method"))
        finally:
            if len(path) > _LONGEST_KEPT_PATH:
                find.cache_clear()
                parse_path_params.cache_clear()
        _, handler, scope["path"], scope["path_params"], scope["path_template"] = found
        scope["app"] = scope["litestar_app"] = self._app
        scope["route_handler"] = handler
        return self._endpoints[cast("HTTPRouteHandler", handler)]

    def _store_of(self, scope: Scope) -> str | None:
        kernel, parameters = self._services.kernel, scope["path_params"]
        name = parameters.get("prefix") or parameters.get("catalog")
        if kernel is None or name is None:
            return None
        return kernel.catalog.catalogs.storage_of(scope["user"].account_id, unquote(name))


class _Endpoint:
    """A handler, and what it needs, which is found out once.

    Attributes:
        is_public: whether it needs no login.
    """

    def __init__(self, handler: HTTPRouteHandler, parameters: Any) -> None:
        self.is_public = bool(handler.opt.get(PUBLIC))
        self._handler = handler
        self._parameters = parameters
        self._names = handler.parsed_fn_signature.parameters.keys()
        self._query = [each.field_alias.encode() for each in parameters.expected_query_params]
        self._has_parameters = not self._names <= _NO_PARAMETERS
        self._check = handler.resolve_before_request()
        self._in_thread = isinstance(handler.fn, AsyncCallable)
        self._function: Callable[..., Any] = getattr(handler.fn, "func", handler.fn)
        self._at_once = AT_ONCE in handler.opt
        self._waits_for: WaitsFor = "store" if WITHOUT_STORAGE in handler.opt else "storage"

    async def arguments(
        self, request: CatalogRequest, read_body: Callable[[], Awaitable[bytes]]
    ) -> Mapping[str, Any]:
        """The arguments for a request.

        Raises:
            HTTPException: a parameter is invalid.
            FloecatError: the controller refuses the request, or the body is not admitted.
        """
        if self._check is not None:
            await self._check(request)
        else:
            check_parameters_once(request.scope["query_string"], self._query)
        if "body" in self._names:
            request.sent = await read_body()
        if self._has_parameters:
            read = await self._parameters.to_kwargs(connection=request)
            model = self._handler.signature_model
            return model.parse_values_from_connection_kwargs(connection=request, kwargs=read)
        known = {"request": request, "body": request.sent}
        return {name: known[name] for name in self._names}

    async def call(self, arguments: Mapping[str, Any], request: CatalogRequest) -> Any:
        """What the handler returns, ready to be sent as far as that takes time: it is done in its thread."""
        scope = request.scope
        if self._in_thread:
            return await request.admitted.run(
                lambda: self._ready(self._function(**arguments), scope),
                self._waits_for,
                at_once=self._at_once,
            )
        result = self._function(**arguments)
        return self._ready(result if self._handler.has_sync_callable else await result, scope)

    def _ready(self, result: Any, scope: Scope) -> Any:
        """Encodes and compresses what a handler returned, where that is no answer of a form of its own."""
        status = self._handler.status_code
        if isinstance(result, DocumentResponse | Response):
            return result
        if not isinstance(result, Answer):
            if status in WITHOUT_BODY:
                return Answer(status)
            result = Answer(status, encode_json(result, default_serializer))
        return compressed(result, scope)

    async def render(self, result: Any, request: CatalogRequest) -> ASGIApp:
        """The answer that sends what the handler returned."""
        if isinstance(result, Response):
            response = await self._handler.to_response(app=request.app, data=result, request=request)
            return AnswerCompression(response)
        return cast("ASGIApp", result)
