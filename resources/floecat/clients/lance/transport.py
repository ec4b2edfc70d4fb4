"""HTTP requests with timeouts and retries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import urllib3
from lance_namespace.errors import ServiceUnavailableError

from floecat.clients.lance.configuration import Configuration

__all__ = ["PARALLEL_REQUESTS", "Answer", "Transport"]

PARALLEL_REQUESTS: Final = 8
"""Connections to the catalog at one time."""

_LONGEST_PAUSE_S: Final = 30


class Answer(NamedTuple):
    """An HTTP response."""

    status: int
    body: bytes


class Transport:
    """Sends requests. Safe to share between threads."""

    def __init__(self, configuration: Configuration) -> None:
        """Sets timeouts and the number of retries; opens no connection yet."""
        self._pool = urllib3.PoolManager(
            num_pools=2,
            maxsize=PARALLEL_REQUESTS,
            timeout=urllib3.Timeout(
                connect=configuration.connect_timeout_ms / 1000, read=configuration.read_timeout_ms / 1000
            ),
        )
        self._repeatable = urllib3.Retry(
            total=configuration.max_retries,
            allowed_methods=None,
            status_forcelist=(502, 503, 504),
            backoff_factor=0.1,
            backoff_max=_LONGEST_PAUSE_S,
            backoff_jitter=0.1,
            raise_on_status=False,
            retry_after_max=_LONGEST_PAUSE_S,
        )
        # still sent again if no connection was made, or the server names the time in Retry-After
        self._once = self._repeatable.new(read=False, other=False, status_forcelist=())

    def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        repeatable: bool = True,
    ) -> Answer:
        """Sends a request, and sends it again if it fails and that is safe.

        Redirects are not followed: the token would go to another server.

        Args:
            method: of HTTP.
            url: absolute.
            headers: of the request.
            body: of the request.
            repeatable: whether receiving the request twice has no more effect than once.

        Raises:
            ServiceUnavailableError: there is no answer.
        """
        try:
            response = self._pool.request(
                method,
                url,
                headers=headers,
                body=body,
                redirect=False,
                retries=self._repeatable if repeatable else self._once,
            )
        except urllib3.exceptions.HTTPError as error:
            cause = getattr(error, "reason", None) or error
            raise ServiceUnavailableError(f"No answer from {url}: {type(cause).__name__}") from error
        return Answer(response.status, response.data)
