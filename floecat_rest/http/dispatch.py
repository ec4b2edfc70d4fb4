"""Dispatch of a request to the handler of its route, and back to an answer.

Litestar collects the handlers and what they declare, from which the API descriptions are made, too. Its own
path to a handler serves hooks, layers and dependencies that no route of this service has, and takes as long
as the handler of a small request. So requests are routed, read and answered here.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast
from urllib.parse import unquote

import msgspec
from litestar.enums import ScopeType
from litestar.routes import HTTPRoute

from floecat.auth.principals import Principal
from floecat.errors import BadRequestError
from floecat.runtime import Kernel
from floecat_rest.http.bodies import Bodies
from floecat_rest.http.compression import compressed
from floecat_rest.http.documents import DocumentResponse
from floecat_rest.http.errors import ErrorForm, MethodNotAllowedError, answer_error, iceberg_error
from floecat_rest.http.json_responses import WITHOUT_BODY, Answer
from floecat_rest.http.options import AT_ONCE, PUBLIC, WAITS_FOR_CATALOGS, WITHOUT_STORAGE
from floecat_rest.http.parameters import Parameters
from floecat_rest.http.paths import empty_name_error
from floecat_rest.http.requests import CatalogRequest, HttpServices, header_of
from floecat_rest.http.routes import RouteTable
from floecat_rest.process.admission import AdmittedRequest
from floecat_rest.process.request_threads import WaitsFor

if TYPE_CHECKING:
    from litestar import Litestar
    from litestar.handlers import HTTPRouteHandler
    from litestar.types import ASGIApp, Receive, Scope, Send

__all__ = ["Dispatcher"]

_Check: TypeAlias = Callable[[CatalogRequest], object]

_HOST: Final = re.compile(rb"[0-9A-Za-z!$&'()*+,;=\-._~:\[\]@%]*")


class Dispatcher:
    """ASGI application: authenticates a request, admits it, and calls its handler in a thread of its kind."""

    def __init__(
        self,
        app: Litestar,
        services: HttpServices,
        *,
        error_forms: Mapping[str, ErrorForm],
        checks: Mapping[str, _Check],
    ) -> None:
        """Takes the routes.

        Args:
            app: has them.
            services: what the requests share.
            error_forms: of errors, by the beginnings of paths; those of other paths are Iceberg's.
            checks: what is asked before every handler whose path has a parameter, by its name.
        """
        self._app = app
        self._error_forms = error_forms
        self._services = services
        self._bodies = Bodies(services)
        self._routes: RouteTable[_Endpoint] = RouteTable()
        for route in app.routes:
            if isinstance(route, HTTPRoute):
                asked = [check for name, check in checks.items() if name in route.path_parameters]
                endpoints = [_Endpoint(handler, asked) for handler in route.route_handlers]
                self._routes.add(route, {method: each for each in endpoints for method in each.methods})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return
        with AdmittedRequest(self._services) as admitted:
            try:
                answer = await self._answer(scope, receive, admitted)
            except Exception as error:  # noqa: BLE001 - every error is answered
                answer = compressed(answer_error(scope, error, self.error_form(scope["path"])), scope)
            admitted.release()
            await answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, admitted: AdmittedRequest) -> ASGIApp:
        services = self._services
        kernel = cast("Kernel", services.kernel)
        method = str(scope.get("method"))
        error = empty_name_error(method, scope["path"], kernel.separator)
        if error is not None:
            await services.authenticator.authenticate(scope["headers"])
            raise error
        host = header_of(scope["headers"], b"host")
        if host is not None and not _HOST.fullmatch(host.encode("latin-1")):
            raise BadRequestError("Invalid host header")
        path = scope["path"] = f"/{scope['path'].strip('/')}"
        endpoints, scope["path_template"], scope["path_params"] = self._routes.find(path)
        if method not in endpoints and method != "OPTIONS":
            raise MethodNotAllowedError(_allow(endpoints))
        endpoint = endpoints.get(method) or next(iter(endpoints.values()))
        principal = None
        if not endpoint.is_public:
            principal = await services.authenticator.authenticate(scope["headers"])
        if method not in endpoints:
            return Answer(204, headers=[(b"allow", _allow(endpoints).encode())])
        request = CatalogRequest(scope, services, admitted, principal, endpoint.operation_id)
        # not of the request, which refers to this: it would stay until the garbage collector comes
        admitted.store = partial(self._store_of, principal, scope["path_params"])
        arguments = endpoint.parameters.read(method, scope["path_params"], scope["query_string"])
        if endpoint.takes_body:
            arguments["body"] = await self._bodies.read(admitted, scope["headers"], receive)
        return await endpoint.call(request, arguments)

    def error_form(self, path: str) -> ErrorForm:
        """The form of the errors of a path."""
        found = (each for start, each in self._error_forms.items() if path.startswith(start))
        return next(found, iceberg_error)

    def _store_of(self, principal: Principal | None, parameters: Mapping[str, str]) -> str | None:
        kernel = self._services.kernel
        name = parameters.get("prefix") or parameters.get("catalog")
        if kernel is None or name is None or principal is None:
            return None
        return kernel.catalog.catalogs.storage_of(principal.account_id, unquote(name))


def _allow(endpoints: Mapping[str, _Endpoint]) -> str:
    return ", ".join(sorted([*endpoints, "OPTIONS"]))


class _Endpoint:
    """A handler and its parameters, resolved once at the start.

    Attributes:
        methods: of HTTP; the framework's own answer to OPTIONS is none.
        is_public: whether it needs no login.
        takes_body: whether it takes a body.
        operation_id: its name.
        parameters: of its path and query.
    """

    def __init__(self, handler: HTTPRouteHandler, checks: Sequence[_Check]) -> None:
        names = handler.parsed_fn_signature.parameters
        self.methods = handler.http_methods - {"OPTIONS"}
        self.is_public = bool(handler.opt.get(PUBLIC))
        self.takes_body = "body" in names
        self.operation_id = str(handler.operation_id)
        self.parameters = Parameters(handler)
        self._checks = checks
        self._takes_request = "request" in names
        self._status = handler.status_code
        self._in_thread = bool(handler.sync_to_thread)
        self._function: Callable[..., Any] = getattr(handler.fn, "func", handler.fn)
        self._at_once = AT_ONCE in handler.opt
        self._waits_for: WaitsFor = "store" if WITHOUT_STORAGE in handler.opt else "storage"
        if WAITS_FOR_CATALOGS in handler.opt:
            self._waits_for = "catalogs"

    async def call(self, request: CatalogRequest, arguments: dict[str, Any]) -> ASGIApp:
        """The answer, ready to be sent as far as that takes time: it is done in the thread of the handler."""
        if self._takes_request:
            arguments["request"] = request
        if self._in_thread:
            return await request.admitted.run(
                lambda: self._ready(self._checked(request, arguments), request.scope),
                self._waits_for,
                at_once=self._at_once,
            )
        result = self._checked(request, arguments)
        return self._ready(await result if inspect.isawaitable(result) else result, request.scope)

    def _checked(self, request: CatalogRequest, arguments: dict[str, Any]) -> Any:
        for check in self._checks:
            check(request)
        return self._function(**arguments)

    def _ready(self, result: Any, scope: Scope) -> ASGIApp:
        """Encodes and compresses what a handler returned, where that is no answer of a form of its own."""
        if isinstance(result, DocumentResponse):
            return result
        if not isinstance(result, Answer):
            if self._status in WITHOUT_BODY:
                return Answer(self._status)
            result = Answer(self._status, msgspec.json.encode(result))
        return compressed(result, scope)
