"""Authentication of a request by its credentials, whatever protocol carries them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from floecat.auth.issuers import TokenVerifiers, open_verifiers
from floecat.auth.principals import DEVELOPER, Principal
from floecat.errors import NotAuthorizedError
from floecat.memory_budget import MemoryBudget
from floecat.settings import Settings

__all__ = ["Authentication", "bearer_token", "open_authentication"]

_OF_PYICEBERG_WITHOUT_LOGIN = b"Bearer None"


class Authentication(Protocol):
    """Finds out who sends a request.

    Attributes:
        header: name of the header or metadata entry that carries the credentials, in lower case.
    """

    header: bytes

    def token_url(self, principal: Principal, /) -> str | None:
        """The URL where a principal gets its tokens, as far as it is known: that of its own issuer."""
        ...

    def check(self) -> None:
        """Fails while nobody can be verified. May fetch the keys of an issuer.

        Raises:
            SettingsError: the issuer calls itself something other than the setting.
            UnavailableError: there are no keys.
        """
        ...

    def remembered(self, credentials: Sequence[bytes], /) -> Principal | None:
        """The principal, where that takes no I/O: credentials that were verified a short while ago.

        Args:
            credentials: all values of `header`.

        Raises:
            NotAuthorizedError: they are missing or malformed.
        """
        ...

    def verify(self, credentials: Sequence[bytes], /) -> Principal:
        """The principal. May fetch the keys of an issuer.

        Raises:
            NotAuthorizedError: the credentials are no valid identity.
            UnavailableError: they cannot be verified now.
        """
        ...


class DevAuthentication:
    """Everybody is the same principal, with whatever token or none."""

    def __init__(self, settings: Settings) -> None:
        self.header = _header(settings)
        self._developer = Principal(DEVELOPER, settings.gateway.default_account_id)

    def token_url(self, _principal: Principal, /) -> str | None:
        """Nowhere."""
        return None

    def check(self) -> None:
        """Never fails."""

    def remembered(self, _credentials: Sequence[bytes], /) -> Principal | None:
        """The developer."""
        return self._developer

    def verify(self, _credentials: Sequence[bytes], /) -> Principal:
        """The developer."""
        return self._developer


class OidcAuthentication:
    """Validates the bearer token of every request."""

    def __init__(self, verifiers: TokenVerifiers, header: bytes) -> None:
        self.header = header
        self._verifiers = verifiers

    def token_url(self, principal: Principal, /) -> str | None:
        """See `Authentication.token_url`."""
        return self._verifiers.token_url(principal.issuer)

    def check(self) -> None:
        """See `Authentication.check`."""
        self._verifiers.check()

    def remembered(self, credentials: Sequence[bytes], /) -> Principal | None:
        """See `Authentication.remembered`."""
        return self._verifiers.remembered(bearer_token(credentials))

    def verify(self, credentials: Sequence[bytes], /) -> Principal:
        """See `Authentication.verify`."""
        return self._verifiers.verify(bearer_token(credentials))


def bearer_token(credentials: Sequence[bytes]) -> str:
    """The token of `Bearer <token>`.

    Raises:
        NotAuthorizedError: there are no credentials, several, or some of another form.
    """
    if not credentials or credentials == [_OF_PYICEBERG_WITHOUT_LOGIN]:
        raise NotAuthorizedError("A bearer token is needed")
    scheme, _, token = credentials[0].partition(b" ")
    token = token.strip()
    if len(credentials) > 1 or scheme.lower() != b"bearer" or not token or not token.isascii():
        raise NotAuthorizedError("The authorization header is not of the form 'Bearer <token>', once")
    return token.decode("ascii")


def open_authentication(settings: Settings, memory: MemoryBudget) -> Authentication:
    """The authentication that the settings ask for.

    Raises:
        SettingsError: an issuer has no usable source of keys, or several contradict each other.
    """
    if settings.gateway.auth_mode == "dev":
        return DevAuthentication(settings)
    return OidcAuthentication(open_verifiers(settings, memory), _header(settings))


def _header(settings: Settings) -> bytes:
    return settings.gateway.auth_header.lower().encode("ascii")
