"""HTTP requests with timeouts and retries."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final, NamedTuple

import urllib3
from lance_namespace.errors import InternalError, ServiceUnavailableError

from floecat.clients.lance.configuration import Configuration

__all__ = ["PARALLEL_REQUESTS", "HttpAnswer", "Transport"]

PARALLEL_REQUESTS: Final = 8
"""Connections to the catalog at one time."""

_LONGEST_PAUSE_S: Final = 30
_STEP_BYTES: Final = 1 << 20
_LONGEST_ANSWER: Final = 10
"""Times the read timeout, which is that of each part of an answer."""


class HttpAnswer(NamedTuple):
    """An HTTP response."""

    status: int
    body: bytes


class Transport:
    """Sends requests. Safe to share between threads."""

    def __init__(self, configuration: Configuration) -> None:
        """Sets timeouts, bounds and the number of retries; opens no connection yet."""
        self._max_retries = configuration.max_retries
        self._most_bytes = configuration.max_answer_bytes
        self._longest_s = _LONGEST_ANSWER * configuration.read_timeout_ms / 1000
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
    ) -> HttpAnswer:
        """Sends a request, and sends it again if it fails and that is safe.

        Redirects are not followed: the token would go to another server.

        Args:
            method: of HTTP.
            url: absolute.
            headers: of the request.
            body: of the request.
            repeatable: whether receiving the request twice has no more effect than once.

        Raises:
            InternalError: the answer is too large.
            ServiceUnavailableError: there is no answer, or it does not come in time.
        """
        again = self._max_retries if repeatable else 0
        while True:
            try:
                return self._asked(method, url, headers, body, repeatable=repeatable)
            except urllib3.exceptions.HTTPError as error:
                # one that breaks off is not sent again by the library
                if isinstance(error, urllib3.exceptions.ProtocolError) and again > 0:
                    again -= 1
                    continue
                cause = getattr(error, "reason", None) or error
                raise ServiceUnavailableError(f"No answer from {url}: {type(cause).__name__}") from error

    def _asked(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, *, repeatable: bool
    ) -> HttpAnswer:
        response = self._pool.request(
            method,
            url,
            headers=headers,
            body=body,
            redirect=False,
            retries=self._repeatable if repeatable else self._once,
            preload_content=False,
            decode_content=False,  # nothing compressed is asked for
        )
        try:
            return HttpAnswer(response.status, self._content(response, url))
        finally:
            response.release_conn()

    def _content(self, response: urllib3.BaseHTTPResponse, url: str) -> bytes:
        """The content of an answer, which another program sends: neither its size nor its time is ours."""
        parts, size_bytes = [], 0
        until_s = time.monotonic() + self._longest_s
        while part := response.read1(_STEP_BYTES):
            size_bytes += len(part)
            if size_bytes > self._most_bytes:
                response.close()
                raise InternalError(
                    f"The answer from {url} is larger than {self._most_bytes} bytes (max_answer_bytes)"
                )
            if time.monotonic() > until_s:
                response.close()
                raise ServiceUnavailableError(
                    f"The answer from {url} did not come within {self._longest_s:g} s (read_timeout)"
                )
            parts.append(part)
        return b"".join(parts)
