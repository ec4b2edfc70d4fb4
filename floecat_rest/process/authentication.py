"""The principal of a request."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from floecat.auth.authentication import Authentication
from floecat.auth.principals import Principal
from floecat.errors import SettingsError, UnavailableError
from floecat.gate import name_account
from floecat_rest.process.request_threads import RequestThreads

__all__ = ["Authenticator"]

_log = logging.getLogger(__name__)


class Authenticator:
    """Authenticates requests by their headers."""

    def __init__(
        self,
        authentication: Authentication,
        threads: RequestThreads,
        logged_in: Callable[[Principal], None] = lambda _: None,
    ) -> None:
        """Sets what it works with.

        Args:
            logged_in: is told, in a thread, of a principal whose token was verified.
        """
        self._authentication = authentication
        self._threads = threads
        self._logged_in = logged_in

    def token_url(self, principal: Principal) -> str | None:
        """The URL where a principal gets its tokens, as far as it is known."""
        return self._authentication.token_url(principal)

    async def check(self) -> None:
        """Fails while nobody can be verified.

        Raises:
            UnavailableError: there are no keys, or no thread.
        """
        try:
            await self._threads.run(self._authentication.check, "login")
        except SettingsError as error:
            _log.error("%s", error.message)
            raise UnavailableError("The settings and the token issuer contradict each other") from None

    async def authenticate(self, headers: Iterable[tuple[bytes, bytes]]) -> Principal:
        """The principal of a request, whose account takes its turn from here on.

        Args:
            headers: names in lower case.

        Raises:
            NotAuthorizedError: the request carries no valid identity.
        """
        authentication = self._authentication
        credentials = [value for name, value in headers if name == authentication.header]
        principal = authentication.remembered(credentials)
        if principal is None:
            # verifying may fetch the keys of the issuer, so it must not hold up the event loop
            principal = await self._threads.run(partial(self._log_in, credentials), "login")
        name_account(principal.account_id)
        return principal

    def _log_in(self, credentials: Sequence[bytes]) -> Principal:
        principal = self._authentication.verify(credentials)
        self._logged_in(principal)
        return principal
