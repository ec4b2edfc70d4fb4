"""From the `Authorization` header to a principal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from litestar.concurrency import sync_to_thread

from floecat.auth.oidc import TokenVerifier, open_verifier
from floecat.auth.principals import DEVELOPER, Principal
from floecat.errors import NotAuthorizedError
from floecat.memory_budget import MemoryBudget
from floecat.settings import Settings

if TYPE_CHECKING:
    from litestar.types import ASGIApp, Receive, Scope, Send

__all__ = ["PUBLIC", "AuthenticationMiddleware", "Authenticator", "bearer_token", "open_authenticator"]

PUBLIC = "public"
"""Key in `opt` of routes that anybody may call."""

_DOCUMENTATION = "/schema"


class Authenticator(Protocol):
    """Finds out who sends a request."""

    async def authenticate(self, scope: Scope) -> Principal:
        """The principal of a request.

        Raises:
            NotAuthorizedError: it carries no valid identity.
        """
        ...


class DevAuthenticator:
    """Everybody is the same principal, with whatever token or none."""

    def __init__(self, settings: Settings) -> None:
        """Take the account from the settings."""
        self._developer = Principal(DEVELOPER, settings.gateway.default_account_id)

    async def authenticate(self, scope: Scope) -> Principal:  # noqa: ARG002
        """The developer."""
        return self._developer


class OidcAuthenticator:
    """Validates the bearer token of every request."""

    def __init__(self, verifier: TokenVerifier, header: str) -> None:
        """Take the verifier, and the name of the header that carries the token."""
        self._verifier = verifier
        self._header = header.lower().encode("ascii")

    async def authenticate(self, scope: Scope) -> Principal:
        """See `Authenticator.authenticate`."""
        token = bearer_token(scope["headers"], self._header)
        remembered = self._verifier.remembered(token)
        # Verifying may fetch the keys of the issuer, so it must not hold up the event loop.
        if remembered is not None:
            return remembered
        return await sync_to_thread(self._verifier.verify, token)


class AuthenticationMiddleware:
    """Sets `scope["user"]` to the principal, on all routes but public ones."""

    def __init__(self, app: ASGIApp, authenticator: Authenticator) -> None:
        """Wrap an application."""
        self._app = app
        self._authenticator = authenticator

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Authenticate a request and pass it on."""
        if not (scope["route_handler"].opt.get(PUBLIC) or scope["path"].startswith(_DOCUMENTATION)):
            scope["user"] = await self._authenticator.authenticate(scope)
        await self._app(scope, receive, send)


def bearer_token(headers: Iterable[tuple[bytes, bytes]], header: bytes) -> str:
    """The token of `Bearer <token>`.

    Raises:
        NotAuthorizedError: the header is missing, sent twice, or of another form.
    """
    values = [value for name, value in headers if name == header]
    if not values:
        raise NotAuthorizedError("A bearer token is needed")
    scheme, _, token = values[0].partition(b" ")
    token = token.strip()
    if len(values) > 1 or scheme.lower() != b"bearer" or not token or not token.isascii():
        raise NotAuthorizedError("The authorization header is not of the form 'Bearer <token>'")
    return token.decode("ascii")


def open_authenticator(settings: Settings, memory: MemoryBudget) -> Authenticator:
    """The authenticator that the settings ask for.

    Raises:
        SettingsError: `auth-mode=oidc` has no usable source of keys.
    """
    if settings.gateway.auth_mode == "dev":
        return DevAuthenticator(settings)
    verifier = open_verifier(settings.oidc, memory, account_claim=settings.gateway.account_claim)
    return OidcAuthenticator(verifier, settings.gateway.auth_header)
