"""Requests to the services that make keys: each within bounds of time and size."""

from __future__ import annotations

import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Final, NamedTuple

from floecat.auth.deadlines import Deadline, NoRedirects, opener, reason_of

__all__ = ["PostAnswer", "PostError", "Poster"]

_MOST_BYTES: Final = 256 << 10


class PostError(Exception):
    """No answer; the message says why, for an operator.

    Attributes:
        kind: what clients are told.
    """

    def __init__(self, message: str, kind: str = "its service gives none") -> None:
        super().__init__(message)
        self.kind = kind


class PostAnswer(NamedTuple):
    """What a service answered, whatever the status."""

    status: int
    body: bytes


class Poster:
    """Sends requests. Proxies are those of the environment, redirects are not followed. Thread-safe."""

    def __init__(self, *, timeout_s: float) -> None:
        """Sets how long a request may take."""
        self._timeout_s = timeout_s
        self._trusted = ssl.create_default_context()

    def send(self, url: str, body: bytes | None, headers: Mapping[str, str]) -> PostAnswer:
        """Sends a body by POST, or asks by GET without one.

        Raises:
            PostError: no answer came in time, or it is too large.
        """
        request = urllib.request.Request(url, body, dict(headers))  # noqa: S310 - of an operator
        with Deadline(self._timeout_s) as deadline:
            found_by = opener(deadline, self._trusted, NoRedirects())
            try:
                try:
                    answer = found_by.open(request, timeout=self._timeout_s)
                except urllib.error.HTTPError as refusal:
                    answer = refusal
                with answer:
                    found = PostAnswer(answer.status, answer.read(_MOST_BYTES + 1))
            except (OSError, ValueError, http.client.HTTPException) as error:
                late = deadline.is_over
                raise PostError(self._too_late() if late else reason_of(error)) from None
            if deadline.is_over:
                raise PostError(self._too_late())
        if len(found.body) > _MOST_BYTES:
            raise PostError(f"the answer is larger than {_MOST_BYTES} bytes")
        return found

    def _too_late(self) -> str:
        return f"no answer within {self._timeout_s:g} s (floecat.storage.authorities.timeout-ms)"
