"""Answers with a body that is ready."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from litestar.types import Receive, Scope, Send

__all__ = ["WITHOUT_BODY", "Answer"]

WITHOUT_BODY: Final = frozenset({204, 304})
"""Statuses of answers that have no body, nor its headers (RFC 9110 section 8.6)."""


class Answer:
    """Sends a body that is ready, JSON if nothing else is said."""

    __slots__ = ("_headers", "_media_type", "_status", "body")

    def __init__(
        self,
        status: int,
        body: bytes = b"",
        headers: Iterable[tuple[bytes, bytes]] = (),
        media_type: bytes = b"application/json",
    ) -> None:
        self.body = body
        self._status = status
        self._headers = headers
        self._media_type = media_type

    def replaced(self, body: bytes, *headers: tuple[bytes, bytes]) -> Answer:
        """The answer with another form of the body, and the headers that tell about it."""
        return Answer(self._status, body, (*self._headers, *headers), self._media_type)

    @property
    def header_names(self) -> set[bytes]:
        """The names of its own headers, in lower case."""
        return {name.lower() for name, _ in self._headers}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Sends the answer."""
        headers = [*self._headers]
        if self._status not in WITHOUT_BODY:
            length = str(len(self.body)).encode()
            headers += [(b"content-type", self._media_type), (b"content-length", length)]
        await send({"type": "http.response.start", "status": self._status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": False})
