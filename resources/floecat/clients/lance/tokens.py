"""Bearer tokens: a fixed one, or the OAuth2 client credentials flow (RFC 6749, section 4.4)."""

from __future__ import annotations

import time
from threading import Lock
from typing import Final
from urllib.parse import urlencode

from lance_namespace.errors import ServiceUnavailableError, UnauthenticatedError

from floecat.clients.lance.configuration import Configuration
from floecat.clients.lance.transport import Transport
from floecat.clients.lance.wire import Token, decode

__all__ = ["Tokens"]

_EARLY_S: Final = 60.0
_EARLY_SHARE: Final = 0.2
_HEADERS: Final = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}


class Tokens:
    """The current token, renewed some time before it ends. Safe to share between threads."""

    def __init__(self, configuration: Configuration, transport: Transport) -> None:
        """Uses the token or the credential of the configuration; without both, no token is sent."""
        self._credential = configuration.credential
        self._url = configuration.oauth2_server_uri
        self._scope = configuration.scope
        self._transport = transport
        self._lock = Lock()
        self._token = configuration.auth_token
        self._renew_at: float | None = None

    def current(self) -> str | None:
        """The token to send; None if there is none.

        Raises:
            UnauthenticatedError: the token endpoint refuses the credential.
            ServiceUnavailableError: it does not answer.
        """
        with self._lock:
            due = self._renew_at is not None and time.monotonic() >= self._renew_at
            if self._credential is not None and (self._token is None or due):
                self._token = self._fetch(*self._credential)
            return self._token

    def forget(self, token: str | None) -> bool:
        """Drops a token that the catalog refused.

        Returns:
            Whether `current` will fetch another one.
        """
        if token is None or self._credential is None:
            return False
        with self._lock:
            if self._token == token:
                self._token = None
        return True

    def _fetch(self, client_id: str, client_secret: str) -> str:
        form = {
            "grant_type": "client_credentials",
            "client_id": client_id,
            "client_secret": client_secret,
            "scope": self._scope,
        }
        answer = self._transport.send("POST", self._url, headers=_HEADERS, body=urlencode(form).encode())
        if answer.status == 429 or answer.status >= 500:
            raise ServiceUnavailableError(f"The token endpoint {self._url} answered {answer.status}")
        if answer.status != 200:
            # without its text, which may repeat what was sent
            raise UnauthenticatedError(f"The token endpoint {self._url} gave no token: {answer.status}")
        token = decode(answer.body, Token)
        self._renew_at = None
        if token.expires_in is not None:
            early_s = min(_EARLY_S, token.expires_in * _EARLY_SHARE)
            self._renew_at = time.monotonic() + token.expires_in - early_s
        return token.access_token
