"""Admission of requests to the memory and the threads of the process, before their bodies are read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import TYPE_CHECKING
from urllib.parse import unquote

from floecat.errors import UnavailableError
from floecat.working_memory import Reservation, WorkingMemory
from floecat_rest.requests import Services, header_of
from floecat_rest.threads import AT_ONCE, WITHOUT_STORAGE, name_store, read_at_once, use_storage_threads

if TYPE_CHECKING:
    from litestar.types import ASGIApp, Message, Receive, ReceiveMessage, Scope, Send

__all__ = ["Admission"]


_BODILESS = frozenset({"GET", "HEAD"})
_LARGE_BYTES = 1 << 20
"""Larger bodies are worked on one at a time: decoding, checking and rendering them hold the interpreter."""
_LEAST_PATIENCE_S = 0.05
_RETRY_AFTER_S = 5


class Admission:
    """Middleware behind authentication.

    A request holds memory from its body to the start of its answer. It runs in threads of its kind. Requests
    with large bodies take turns, once their bodies are there. A body that comes slowly gives way to those who
    wait for its memory.
    """

    def __init__(self, app: ASGIApp, services: Services, *, patience_s: float | None = None) -> None:
        """Wrap an application.

        Args:
            app: the application.
            services: of the process.
            patience_s: how long a large body may take while others wait for memory; by default half the time
                that they wait.
        """
        self._app = app
        self._services = services
        self._memory = services.working_memory
        self._patience_s = max(
            self._memory.wait_s / 2 if patience_s is None else patience_s, _LEAST_PATIENCE_S
        )
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
                    receive = self._counted(receive, held, turn)
            elif announced.isdecimal() and int(announced) <= self._largest_bytes:
                # a larger one is answered 413 by the application, which does not read it
                await held.take_async(int(announced))
                if int(announced) > _LARGE_BYTES:
                    turn = self._turns.work()
                    receive = self._counted(receive, None, turn)

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

    def _counted(self, receive: Receive, held: Reservation | None, turn: Reservation) -> Receive:
        """Reserves memory for a body as it comes, unless it was announced, and a turn once it is there."""
        size = 0
        until_s = time.monotonic() + self._patience_s

        async def counted() -> ReceiveMessage:
            nonlocal size
            message = await self._next_part(receive, until_s)
            if message["type"] == "http.request":
                size += len(message["body"])
                if held is not None:
                    await held.take_async(len(message["body"]))
                if not message["more_body"]:
                    await turn.take_async(size)
            return message

        return counted

    async def _next_part(self, receive: Receive, until_s: float) -> ReceiveMessage:
        """Waits for a part of a body: from a time on only while nobody waits for memory."""
        while True:
            left_s = until_s - time.monotonic()
            if left_s <= 0 and self._memory.is_waited_for:
                raise UnavailableError(
                    "The body comes too slowly while other large requests wait for memory: it took half of"
                    " floecat.limits.working-memory-wait-ms; try again later",
                    retry_after_s=_RETRY_AFTER_S,
                )
            try:
                # not by `wait_for`, which before Python 3.12 may lose that the request is stopped
                async with asyncio.timeout(left_s if left_s > 0 else self._patience_s / 4):
                    return await receive()
            except TimeoutError:
                continue

    def _store_of(self, scope: Scope) -> str | None:
        kernel, parameters = self._services.kernel, scope["path_params"]
        name = parameters.get("prefix") or parameters.get("catalog")
        if kernel is None or name is None:
            return None
        return kernel.catalogs.storage_of(scope["user"].account_id, unquote(name))
