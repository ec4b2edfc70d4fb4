"""Answers with a JSON body."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from litestar.types import Receive, Scope, Send

__all__ = ["WITHOUT_BODY", "Answer"]

WITHOUT_BODY: Final = frozenset({204, 304})
"""Statuses of answers that have no body, nor its headers (RFC 9110 section 8.6)."""


class Answer:
    """Sends a JSON body that is ready."""

    __slots__ = ("_headers", "_status", "body")

    def __init__(self, status: int, body: bytes = b"", headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        self.body = body
        self._status = status
        self._headers = headers

    def replaced(self, body: bytes, *headers: tuple[bytes, bytes]) -> Answer:
        """The answer with another form of the body, and the headers that tell about it."""
        return Answer(self._status, body, (*self._headers, *headers))

    @property
    def header_names(self) -> set[bytes]:
        """The names of its own headers, in lower case."""
        return {name.lower() for name, _ in self._headers}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the answer."""
        headers = [*self._headers]
        if self._status not in WITHOUT_BODY:
            length = str(len(self.body)).encode()
            headers += [(b"content-type", b"application/json"), (b"content-length", length)]
        await send({"type": "http.response.start", "status": self._status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": False})
