"""Requests of browsers: which pages may use the service.

Without logins, no page of another site may (`floecat.auth.browser_requests`). With logins, every request
needs a token, which a page has only if its user gave it one. The setting `cors-allowed-origins` lists the
sites whose pages may then read answers (Fetch Standard, "CORS protocol").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from litestar.enums import ScopeType

from floecat.auth.browser_requests import BrowserRules
from floecat.errors import ForbiddenError
from floecat.settings import GatewaySettings
from floecat_rest.http.errors import ErrorForm, UnsupportedMediaTypeError, answer_error
from floecat_rest.http.json_responses import Answer
from floecat_rest.http.requests import header_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from litestar.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["guard_browsers"]

_SEEN_BY_PAGES: Final = b"ETag, Retry-After, X-Request-Id"
_PREFLIGHT_AGE_S: Final = b"600"
_METHODS: Final = b"GET, HEAD, POST, PUT, DELETE"


def guard_browsers(
    app: ASGIApp, gateway: GatewaySettings, *, forms: str, error_form: Callable[[str], ErrorForm]
) -> ASGIApp:
    """Wraps an application according to the settings.

    Args:
        app: the application.
        gateway: settings of the service.
        forms: the path that takes forms, which are refused by name there.
        error_form: of errors of a path.
    """
    if gateway.auth_mode == "dev":
        rules = BrowserRules(gateway.host, gateway.allowed_hosts, setting="floecat.gateway.allowed-hosts")
        return _OwnPagesOnly(app, rules, forms, error_form)
    if gateway.cors_allowed_origins:
        return _Cors(app, frozenset(gateway.cors_allowed_origins))
    return app


class _OwnPagesOnly:
    """Refuses what pages of other sites send."""

    def __init__(
        self, app: ASGIApp, rules: BrowserRules, forms: str, error_form: Callable[[str], ErrorForm]
    ) -> None:
        self._app = app
        self._rules = rules
        self._forms = forms
        self._error_form = error_form

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == ScopeType.HTTP:
            refusal = self._rules.refusal(scope["method"], scope["headers"])
            is_form = refusal is not None and refusal.status == 415
            if refusal is not None and not (is_form and scope["path"] == self._forms):
                error = (UnsupportedMediaTypeError if is_form else ForbiddenError)(refusal.message)
                await answer_error(scope, error, self._error_form(scope["path"]))(scope, receive, send)
                return
        await self._app(scope, receive, send)


class _Cors:
    """Lets pages of listed sites read answers."""

    def __init__(self, app: ASGIApp, origins: frozenset[str]) -> None:
        self._app = app
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return
        origin = header_of(scope["headers"], b"origin")
        allowed = [(b"vary", b"Origin")]
        if origin in self._origins:
            allowed.append((b"access-control-allow-origin", origin.encode("latin-1")))
            allowed.append((b"access-control-expose-headers", _SEEN_BY_PAGES))
        wanted = header_of(scope["headers"], b"access-control-request-method")
        if scope["method"] == "OPTIONS" and wanted is not None and origin in self._origins:
            asked = header_of(scope["headers"], b"access-control-request-headers") or ""
            preflight = [
                (b"access-control-allow-methods", _METHODS),
                (b"access-control-allow-headers", asked.encode("latin-1")),
                (b"access-control-max-age", _PREFLIGHT_AGE_S),
            ]
            await Answer(204, headers=[*allowed, *preflight])(scope, receive, send)
            return

        async def send_allowed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *allowed]
            await send(message)

        await self._app(scope, receive, send_allowed)
