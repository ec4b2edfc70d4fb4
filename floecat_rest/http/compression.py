"""Compression of answers that do not bring their own (metadata documents do, `documents`)."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Final

from floecat_rest.http.documents import accepts_gzip
from floecat_rest.http.json_responses import Answer
from floecat_rest.http.requests import header_of

if TYPE_CHECKING:
    from litestar.types import ASGIApp, HTTPResponseStartEvent, Message, Receive, Scope, Send

    from floecat_rest.http.json_responses import Answer

__all__ = ["AnswerCompression", "compressed"]

_LEAST_BYTES: Final = 1 << 10
_LEVEL: Final = 3
_OWN: Final = frozenset({b"content-encoding", b"vary"})
_GZIP: Final = ((b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding"))


class AnswerCompression:
    """ASGI wrapper that sends bodies of at least 1 KiB as gzip to clients that accept it."""

    def __init__(self, app: ASGIApp) -> None:
        """Wrap an application that sends each body whole."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and compress its answer where that is worth it."""
        start: HTTPResponseStartEvent | None = None

        async def send_compressed(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                return
            if start is not None and message["type"] == "http.response.body":
                body = message["body"]
                if len(body) >= _LEAST_BYTES and not message["more_body"]:
                    accepted = accepts_gzip(header_of(scope["headers"], b"accept-encoding"))
                    message["body"] = _compressed(start, body) if accepted else body
                await send(start)
                start = None
            await send(message)

        await self._app(scope, receive, send_compressed)


def compressed(answer: Answer, scope: Scope) -> Answer:
    """The answer as gzip, if the client accepts it and it is long enough to be worth it. May take a while."""
    if len(answer.body) < _LEAST_BYTES or not _OWN.isdisjoint(answer.header_names):
        return answer
    if not accepts_gzip(header_of(scope["headers"], b"accept-encoding")):
        return answer
    body = gzip.compress(answer.body, _LEVEL, mtime=0)
    return answer.replaced(body, *_GZIP)


def _compressed(start: HTTPResponseStartEvent, body: bytes) -> bytes:
    """The body to send; the headers are those of what is returned."""
    if any(name.lower() in _OWN for name, _ in start["headers"]):
        return body
    sent = gzip.compress(body, _LEVEL, mtime=0)
    start["headers"] = [
        *((name, value) for name, value in start["headers"] if name.lower() != b"content-length"),
        (b"content-length", str(len(sent)).encode()),
        *_GZIP,
    ]
    return sent
