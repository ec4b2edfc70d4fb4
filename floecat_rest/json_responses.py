"""Answers of handlers that return a struct, as nearly all do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from litestar import Request, Response
from litestar.enums import MediaType
from litestar.serialization import default_serializer, encode_json

if TYPE_CHECKING:
    from litestar.types import Receive, Scope, Send

__all__ = ["Answer", "JsonResponse"]

_WITHOUT_BODY: Final = frozenset({204, 304})


class JsonResponse(Response[Any]):
    """Sends a struct as JSON.

    The framework's own response collects headers, cookies and encoders of all layers for each answer, which
    costs more than the reading of a namespace. No handler of this service has any of these.
    """

    def to_asgi_response(self, app: Any, request: Request[Any, Any, Any], **options: Any) -> Any:
        """The ASGI application that sends the answer."""
        if self.media_type != MediaType.JSON or isinstance(self.content, bytes | str):
            return super().to_asgi_response(app, request, **options)
        if self.status_code in _WITHOUT_BODY:
            return Answer(self.status_code)
        return Answer(self.status_code or 200, encode_json(self.content, default_serializer))


class Answer:
    """Sends a JSON body that is ready. A 204 or 304 has none, nor its headers (RFC 9110 section 8.6)."""

    __slots__ = ("_body", "_headers", "_status")

    def __init__(self, status: int, body: bytes = b"", headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        self._status = status
        self._body = body
        self._headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the answer."""
        headers = [*self._headers]
        if self._status not in _WITHOUT_BODY:
            length = str(len(self._body)).encode()
            headers += [(b"content-type", b"application/json"), (b"content-length", length)]
        await send({"type": "http.response.start", "status": self._status, "headers": headers})
        await send({"type": "http.response.body", "body": self._body, "more_body": False})
