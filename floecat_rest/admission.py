"""Admission of requests to the memory of the process, before their bodies are read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Self

from floecat.errors import BadRequestError, PayloadTooLargeError, UnavailableError
from floecat.working_memory import Reservation, WorkingMemory
from floecat_rest.requests import Services, header_of

if TYPE_CHECKING:
    from litestar.types import Receive, ReceiveMessage

__all__ = ["Admission", "AdmittedRequest"]


_LARGE_BYTES: Final = 1 << 20
"""Larger bodies are worked on one at a time: decoding, checking and rendering them hold the interpreter."""
_LEAST_PATIENCE_S: Final = 0.05
_RETRY_AFTER_S: Final = 5


class Admission:
    """Admits requests.

    A request holds memory from its body to the start of its answer. Requests with large bodies take turns,
    once their bodies are there. A body that comes slowly gives way to those who wait for its memory.
    """

    def __init__(self, services: Services, *, patience_s: float | None = None) -> None:
        """Sets the bounds.

        Args:
            services: of the process.
            patience_s: how long a large body may take while others wait for memory; by default half the time
                that they wait.
        """
        self.memory = services.working_memory
        self.patience_s = max(self.memory.wait_s / 2 if patience_s is None else patience_s, _LEAST_PATIENCE_S)
        # of what needs more than the whole budget, one runs at a time
        self.turns = WorkingMemory(1, wait_ms=services.settings.limits.working_memory_wait_ms)
        self.largest_bytes = services.settings.gateway.max_request_body_bytes

    def request(self) -> AdmittedRequest:
        """The work of a request, a context: what it holds is given back at the end."""
        return AdmittedRequest(self)


class AdmittedRequest:
    """What one request holds."""

    __slots__ = ("_held", "_limits", "_turn")

    def __init__(self, limits: Admission) -> None:
        self._limits = limits
        self._held = limits.memory.work()
        self._turn: Reservation | None = None

    def __enter__(self) -> Self:
        self._held.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.release()
        self._held.__exit__(*error)

    def release(self) -> None:
        """Give everything back: an answer is sent as fast as the client reads it, which is no work."""
        self._held.release()
        if self._turn is not None:
            self._turn.release()

    async def read(self, headers: Iterable[tuple[bytes, bytes]], receive: Receive) -> bytes:
        """The body: reserves what it is announced to take, or what comes of it, and a turn if it is large.

        Raises:
            BadRequestError: its announced length is no number, or the client went away.
            PayloadTooLargeError: it is larger than `floecat.gateway.max-request-body-bytes`.
            UnavailableError: other requests held the memory all the time.
        """
        announced = header_of(headers, b"content-length")
        size = 0
        if announced is not None:
            if not announced.isdecimal():
                raise BadRequestError(f"Invalid content-length: {announced!r}")
            size = int(announced)
            self._check_size(size)
            await self._held.take_async(size)
        if announced is not None and size <= _LARGE_BYTES:
            return await self._read_parts(receive, None, is_counted=True)
        until_s = time.monotonic() + self._limits.patience_s
        body = await self._read_parts(receive, until_s, is_counted=announced is not None)
        self._turn = self._limits.turns.work()
        await self._turn.take_async(len(body))
        return body

    async def _read_parts(self, receive: Receive, until_s: float | None, *, is_counted: bool) -> bytes:
        """Reads all parts. A slow client is waited for without a bound until `until_s`; None is for ever."""
        size = 0
        parts = []
        while True:
            message = await (receive() if until_s is None else self._next_part(receive, until_s))
            if message["type"] != "http.request":
                raise BadRequestError("The client closed the connection before the body was complete")
            part = message["body"]
            size += len(part)
            self._check_size(size)
            if not is_counted:
                await self._held.take_async(len(part))
            parts.append(part)
            if not message["more_body"]:
                return b"".join(parts)

    def _check_size(self, size: int) -> None:
        if size > self._limits.largest_bytes:
            raise PayloadTooLargeError(
                "The body of the request is larger than floecat.gateway.max-request-body-bytes"
            )

    async def _next_part(self, receive: Receive, until_s: float) -> ReceiveMessage:
        """Waits for a part of a body: from a time on only while nobody waits for memory."""
        while True:
            left_s = until_s - time.monotonic()
            if left_s <= 0 and self._limits.memory.is_waited_for:
                raise UnavailableError(
                    "The body comes too slowly while other large requests wait for memory: it took half of"
                    " floecat.limits.working-memory-wait-ms; try again later",
                    retry_after_s=_RETRY_AFTER_S,
                )
            try:
                # not by `wait_for`, which before Python 3.12 may lose that the request is stopped
                async with asyncio.timeout(left_s if left_s > 0 else self._limits.patience_s / 4):
                    return await receive()
            except TimeoutError:
                continue
