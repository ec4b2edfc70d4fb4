"""Admission of requests to the memory and the threads of the process, before their bodies are read."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING
from urllib.parse import unquote

from floecat.working_memory import Reservation, WorkingMemory
from floecat_rest.requests import Services, header_of
from floecat_rest.threads import AT_ONCE, WITHOUT_STORAGE, name_store, read_at_once, use_storage_threads

if TYPE_CHECKING:
    from litestar.types import ASGIApp, Message, Receive, ReceiveMessage, Scope, Send

__all__ = ["Admission"]


_BODILESS = frozenset({"GET", "HEAD"})
_LARGE_BYTES = 1 << 20
"""Larger bodies are worked on one at a time: decoding, checking and rendering them hold the interpreter."""


class Admission:
    """Middleware behind authentication.

    A request holds memory from its body to the start of its answer. It runs in threads of its kind. Requests
    with large bodies take turns, once their bodies are there.
    """

    def __init__(self, app: ASGIApp, services: Services) -> None:
        """Wrap an application."""
        self._app = app
        self._services = services
        self._memory = services.working_memory
        # of what needs more than the whole budget, one runs at a time
        self._turns = WorkingMemory(1, wait_ms=services.settings.limits.working_memory_wait_ms)
        self._largest_bytes = services.settings.gateway.max_request_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reserve what the body is announced to take, or what comes of it, and pass the request on.

        Raises:
            UnavailableError: other requests held the memory all the time.
        """
        options = scope["route_handler"].opt
        if AT_ONCE in options:
            read_at_once()
        elif WITHOUT_STORAGE not in options:
            use_storage_threads()
        name_store(lambda: self._store_of(scope))
        with self._memory.work() as held:
            announced = header_of(scope["headers"], b"content-length")
            turn: Reservation | None = None
            if announced is None:
                if scope.get("method") not in _BODILESS:
                    turn = self._turns.work()
                    receive = _counted(receive, held, turn)
            elif announced.isdecimal() and int(announced) <= self._largest_bytes:
                # a larger one is answered 413 by the application, which does not read it
                await held.take_async(int(announced))
                if int(announced) > _LARGE_BYTES:
                    turn = self._turns.work()
                    receive = _counted(receive, None, turn)

            def answer(message: Message) -> Awaitable[None]:
                # the answer is sent as fast as the client reads it, which is no work
                held.release()
                if turn is not None:
                    turn.release()
                return send(message)

            try:
                await self._app(scope, receive, answer)
            finally:
                if turn is not None:
                    turn.release()

    def _store_of(self, scope: Scope) -> str | None:
        kernel, parameters = self._services.kernel, scope["path_params"]
        name = parameters.get("prefix") or parameters.get("catalog")
        if kernel is None or name is None:
            return None
        return kernel.catalogs.storage_of(scope["user"].account_id, unquote(name))


def _counted(receive: Receive, held: Reservation | None, turn: Reservation) -> Receive:
    """Reserves memory for a body as it comes, unless it was announced, and a turn once all of it is there."""
    size = 0

    async def counted() -> ReceiveMessage:
        nonlocal size
        message = await receive()
        if message["type"] == "http.request":
            size += len(message["body"])
            if held is not None:
                await held.take_async(len(message["body"]))
            if not message["more_body"]:
                await turn.take_async(size)
        return message

    return counted
