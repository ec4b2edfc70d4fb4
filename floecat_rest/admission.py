"""Admission of requests to the memory and the threads of the process, before their bodies are read."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from floecat.working_memory import Reservation
from floecat_rest.requests import Services, header_of
from floecat_rest.threads import WITHOUT_STORAGE, use_storage_threads

if TYPE_CHECKING:
    from litestar.types import ASGIApp, Message, Receive, ReceiveMessage, Scope, Send

__all__ = ["Admission"]


_BODILESS = frozenset({"GET", "HEAD"})


class Admission:
    """Middleware behind authentication.

    A request holds memory from its body to the start of its answer. It runs in threads of its kind.
    """

    def __init__(self, app: ASGIApp, services: Services) -> None:
        """Wrap an application."""
        self._app = app
        self._memory = services.working_memory
        self._largest_bytes = services.settings.gateway.max_request_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reserve what the body is announced to take, or what comes of it, and pass the request on.

        Raises:
            UnavailableError: other requests held the memory all the time.
        """
        if not scope["route_handler"].opt.get(WITHOUT_STORAGE):
            use_storage_threads()
        with self._memory.work() as held:
            announced = header_of(scope["headers"], b"content-length")
            if announced is None:
                if scope.get("method") not in _BODILESS:
                    receive = _counted(receive, held)
            elif announced.isdecimal() and int(announced) <= self._largest_bytes:
                # a larger one is answered 413 by the application, which does not read it
                await held.take_async(int(announced))

            def answer(message: Message) -> Awaitable[None]:
                # the answer is sent as fast as the client reads it, which is no work
                held.release()
                return send(message)

            await self._app(scope, receive, answer)


def _counted(receive: Receive, held: Reservation) -> Receive:
    async def counted() -> ReceiveMessage:
        message = await receive()
        if message["type"] == "http.request":
            await held.take_async(len(message["body"]))
        return message

    return counted
