"""Bodies of requests. Their memory is reserved before they are read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from floecat.errors import BadRequestError, PayloadTooLargeError, UnavailableError
from floecat_rest.http.requests import header_of
from floecat_rest.process.admission import AdmittedRequest
from floecat_rest.process.services import Services

if TYPE_CHECKING:
    from litestar.types import Receive, ReceiveMessage

__all__ = ["Bodies"]

_LARGE_BYTES: Final = 1 << 20
"""Larger bodies are worked on one at a time: decoding, checking and rendering them hold the interpreter."""
_LEAST_PATIENCE_S: Final = 0.05
_RETRY_AFTER_S: Final = 5


class Bodies:
    """Reads bodies. One that comes slowly gives way to those who wait for its memory."""

    def __init__(self, services: Services, *, patience_s: float | None = None) -> None:
        """Sets the bounds.

        Args:
            services: of the process.
            patience_s: how long a large body may take while others wait for memory; by default half the time
                that they wait.
        """
        self._memory = services.working_memory
        self._patience_s = max(
            self._memory.wait_s / 2 if patience_s is None else patience_s, _LEAST_PATIENCE_S
        )
        self._largest_bytes = services.settings.gateway.max_request_body_bytes

    async def read(
        self, admitted: AdmittedRequest, headers: Iterable[tuple[bytes, bytes]], receive: Receive
    ) -> bytes:
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
            await admitted.hold(size)
        if announced is not None and size <= _LARGE_BYTES:
            return await self._read_parts(receive, None, None)
        until_s = time.monotonic() + self._patience_s
        body = await self._read_parts(receive, until_s, admitted if announced is None else None)
        await admitted.take_turn(len(body))
        return body

    async def _read_parts(
        self, receive: Receive, until_s: float | None, uncounted: AdmittedRequest | None
    ) -> bytes:
        """Reads all parts, and holds memory for them if it is not held yet.

        A slow client is waited for without a bound until `until_s`; None is for ever.
        """
        size = 0
        parts = []
        while True:
            message = await (receive() if until_s is None else self._next_part(receive, until_s))
            if message["type"] != "http.request":
                raise BadRequestError("The client closed the connection before the body was complete")
            part = message["body"]
            size += len(part)
            self._check_size(size)
            if uncounted is not None:
                await uncounted.hold(len(part))
            parts.append(part)
            if not message["more_body"]:
                return b"".join(parts)

    def _check_size(self, size: int) -> None:
        if size > self._largest_bytes:
            raise PayloadTooLargeError(
                "The body of the request is larger than floecat.gateway.max-request-body-bytes"
            )

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
