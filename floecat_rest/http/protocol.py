"""HTTP, as the server speaks it before the application sees a request.

No client has logged in yet, so every part of a message has a bound (`floecat.limits`). A refusal has the
shape of the specification and names the setting. The request of a client that is gone is stopped: if it waits
for a thread, its handler does not start.
"""

from __future__ import annotations

import asyncio
from contextvars import Context
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from floecat_rest.http.errors import ErrorModel, encode_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from litestar.types import Receive, Scope, Send

    from floecat_rest.http.connections import Connections

__all__ = ["CatalogHttpProtocol"]

_FRAMING = frozenset({b"content-length", b"transfer-encoding"})
_CLOSE = b"CLOSE / HTTP/1."
"""Request of a method of no standard, by which Gravitino's Python client says that it ends."""
_UNAVAILABLE = "ServiceUnavailableException"
_JOINED_BYTES = 64 << 10
"""Longest part of a body that is copied to go out with the head."""
_LINGER_S = 2.0
"""Time that a refused client has to read the reason, and to stop sending."""


class _RefusedError(Exception):
    """Ends the parser where a message is refused."""


class _NoTrailers(list[tuple[bytes, bytes]]):
    """Takes the headers after a body, which nothing reads."""

    def append(self, _: tuple[bytes, bytes]) -> None:
        """Drops a header."""


_NO_TRAILERS = _NoTrailers()


class _AnswerTransport:
    """The connection as one answer uses it: the head goes out with the body behind it, in one write.

    The server writes them one after the other, and each write is a call to the system that wakes the client.
    """

    __slots__ = ("_cycle", "_head", "_linger", "_transport")

    def __init__(self, cycle: RequestResponseCycle, linger: Callable[[], None]) -> None:
        self._cycle = cycle
        self._transport = cycle.transport
        self._linger = linger
        self._head: bytes | None = None

    def write(self, data: bytes) -> None:
        """Keeps the head; sends anything else, with the head before it."""
        if self._head is None and self._cycle.response_started:
            self._head = data
            return
        if self._head and len(data) <= _JOINED_BYTES:
            data = self._head + data
            self._head = b""
        self.flush()
        self._transport.write(data)

    def end(self) -> None:
        """Sends what was kept: an answer to HEAD has no body."""
        self.flush()
        self.release()

    def release(self) -> None:
        """Drops what was not read of the request."""
        self._cycle.body = bytearray()
        # a circle of references otherwise, until the garbage collector comes
        self._cycle.transport = self._transport

    def flush(self) -> None:
        """Sends the head if it was kept."""
        if self._head:
            self._transport.write(self._head)
            self._head = b""

    def is_closing(self) -> bool:
        """As the connection."""
        return self._transport.is_closing()

    def close(self) -> None:
        """Sends what was kept, and closes the connection, or lets it linger if the client still sends."""
        self.flush()
        if self._cycle.response_complete and self._cycle.more_body:
            self._linger()
        else:
            self._transport.close()


class CatalogHttpProtocol(HttpToolsProtocol):
    """A connection of a client."""

    def __init__(self, connections: Connections, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._all = connections
        self._limits = connections.limits
        self._waiting = connections.silent
        self._running: tuple[RequestResponseCycle, asyncio.Task[None]] | None = None
        self._sending: _AnswerTransport | None = None
        self._is_refused = False
        self._discarded_bytes = 0
        """Bytes that came after a refusal, or of a body after its answer."""
        self._unread_bytes = 0
        """Bytes that were parsed since the last head or piece of a body was complete."""
        self._body_bytes = 0
        self._head_of_body = b""
        """Head of a request that asks for another protocol: what makes a new parser read its body."""
        self._phase: tuple[str, RequestResponseCycle | None] = "idle", None
        self._phase_s = 0.0
        """Time since the phase began."""
        self._unsent_bytes = 0
        """Bytes that were waiting to be sent when the time of `_unsent_s` began."""
        self._unsent_s = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Takes a connection, or refuses it if there are too many."""
        super().connection_made(transport)
        if not self._all.add(self):
            self._refuse_limit(503, "connections", "too many connections are open", ("Retry-After", "1"))
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops the request of a client that is gone."""
        self._all.discard(self)
        self.pipeline.clear()
        super().connection_lost(exc)
        self._stop_request()
        if self._running is not None:
            self._running[1].add_done_callback(self._release)

    def _release(self, _: asyncio.Task[None]) -> None:
        """Breaks circles of references: the garbage collector may be long in coming."""
        if self._sending is not None:
            self._sending.release()
        self.cycle = self.scope = self.headers = None  # type: ignore[assignment]
        self._running = self._sending = None
        self._phase = "idle", None

    def data_received(self, data: bytes) -> None:
        """Parses what a client sends."""
        if self._is_refused:
            self._discard(len(data))
            return
        self._unread_bytes += len(data)
        try:
            self._parse(data)
        except httptools.HttpParserError:
            if data.startswith(_CLOSE) and self.cycle is None:
                self._write(200, b'{"code":0}')
                self._linger()
            elif not self._is_refused:
                self._refuse(400, "Invalid HTTP request received.")
        else:
            if self._unread_bytes > self._limits.head_bytes:
                self._refuse_limit(431, "head-bytes", "the head of the request is too large")

    def _parse(self, data: bytes) -> None:
        """Parses; a request that asks for another protocol is answered in this one."""
        while data:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = data[upgrade.args[0] :]
            else:
                return
            if self._head_of_body:
                # the parser ended with the head, and would take the body for the next request
                self.parser = httptools.HttpRequestParser(self)
                data = self._head_of_body + data

    def on_headers_complete(self) -> None:
        """Checks the head, and hands the request to the application."""
        if self._head_of_body:
            self._head_of_body = b""
            self.headers = _NO_TRAILERS
            return
        headers, limits = self.headers, self._limits
        if len(headers) > limits.headers:
            self._refuse_limit(431, "headers", "the request has too many headers")
            raise _RefusedError
        if self._unread_bytes > limits.head_bytes:
            # of several requests at once, or with a body
            size = len(self.url) + sum(len(name) + len(value) for name, value in headers)
            if size > limits.head_bytes:
                self._refuse_limit(431, "head-bytes", "the head of the request is too large")
                raise _RefusedError
        if [name for name, _ in headers].count(b"host") != 1 or not self.url.startswith(b"/"):
            self._check_host()
        if len(self.pipeline) >= limits.pipelined_requests:
            self._all.log("pipelined-requests")
            self._close_after_answer()
            raise _RefusedError
        self._unread_bytes = self._body_bytes = self._discarded_bytes = 0
        self._waiting.pop(self, None)
        super().on_headers_complete()
        self.headers = _NO_TRAILERS
        if self.scope["http_version"] == "0.9":
            self._is_refused = True
            self._stop_request()
            self.transport.close()
            raise _RefusedError
        if self.parser.should_upgrade():
            self._head_of_body = _head_of_body(headers)

    def on_message_complete(self) -> None:
        """Ends the body, unless it is yet to be read."""
        if not self._head_of_body:
            super().on_message_complete()

    def on_body(self, body: bytes) -> None:
        """Takes a piece of a body."""
        self._unread_bytes = 0
        self._body_bytes += len(body)
        if self.cycle.response_complete:
            self._discard(len(body))
            if self._is_refused:
                raise _RefusedError
        super().on_body(body)

    def on_response_complete(self) -> None:
        """Goes on with the next request, or waits for it."""
        if self._sending is not None:
            self._sending.end()
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._unread_bytes = 0
            self._waiting = self._all.idle
            self._waiting[self] = None

    @property
    def body_s(self) -> float:
        """Seconds since the body of the request began to come, as of the last tick; 0 if none is coming."""
        return (
            self._phase_s
            if ("body", self.cycle) == self._phase == (self._current_phase(), self.cycle)
            else 0.0
        )

    def give_way(self) -> None:
        """Ends at once, as another connection takes its place; one that sends a body gets an answer.

        Nothing looks after the connection from here on, so a client that does not read cannot hold it.
        """
        if self._current_phase() == "body" and not self.transport.get_write_buffer_size():
            problem = "the body comes slowly, and others have no connection"
            self._refuse_limit(503, "connections", problem, ("Retry-After", "1"))
            self.transport.close()
            self.loop.call_later(_LINGER_S, self.transport.abort)
        else:
            self.transport.abort()

    def tick(self) -> None:
        """Looks after the connection, once a second."""
        if self._is_slow_reader():
            self._all.log("body-bytes-per-second")
            self.transport.abort()
            return
        phase = self._current_phase(), self.cycle
        if phase != self._phase:
            self._phase, self._phase_s = phase, 0.0
        self._phase_s += self._all.tick_s
        limits, cycle = self._limits, self.cycle
        timeout_s = limits.head_timeout.seconds
        late_s = self._phase_s - timeout_s
        match phase[0]:
            case "refused" if self._phase_s > _LINGER_S:
                if cycle is None or cycle.response_complete or cycle.disconnected:
                    self.transport.abort()
            case "head" if late_s > 0:
                self._refuse_limit(408, "head-timeout", "the head of the request took too long")
            case "body" if self._body_bytes < late_s * limits.body_bytes_per_second:
                self._refuse_limit(408, "body-bytes-per-second", "the body comes too slowly")
            case "idle" if self._phase_s > (self._all.keep_alive_s if cycle else timeout_s):
                self.transport.close()

    def _current_phase(self) -> str:
        cycle = self.cycle
        if self._is_refused:
            return "refused"
        if cycle is not None and not cycle.response_complete:
            return "body" if cycle.more_body and not self.flow.read_paused else "answer"
        return "head" if self._unread_bytes else "idle"

    def _check_host(self) -> None:
        hosts = [value for name, value in self.headers if name == b"host"]
        if len(hosts) > 1 or (not hosts and self.parser.get_http_version() == "1.1"):
            self._refuse(400, f"Invalid header Host: sent {len(hosts)} times, must be sent once")
            raise _RefusedError
        if not self.url.startswith(b"/"):
            # the absolute form (RFC 9112 section 3.2.2) has a host of its own; `*` names no resource
            named = self.url.partition(b"://")[2].partition(b"/")[0].partition(b"?")[0]
            if [named.lower()] != [host.lower() for host in hosts]:
                self._refuse(400, "Invalid request target: neither a path nor a URL of the header Host")
                raise _RefusedError

    def _refuse_limit(self, status: int, limit: str, problem: str, *headers: tuple[str, str]) -> None:
        self._all.log(limit)
        self._refuse(status, f"Over the limit: {problem} (floecat.limits.{limit})", *headers)

    def _refuse(self, status: int, message: str, *headers: tuple[str, str]) -> None:
        """Answers, and closes the connection: where the next request would begin is unknown."""
        is_own_body = self.cycle is not None and self.cycle.more_body
        self._close_after_answer()
        cycle = self.cycle
        if self.transport.is_closing():
            return
        if cycle is not None and not cycle.response_complete:
            if not is_own_body:
                return  # the requests before it are answered
            if self.pipeline or cycle.response_started:
                self.transport.abort()
                return
            self._stop_request()
        kind = _UNAVAILABLE if status == 503 else "BadRequestException"
        body = encode_error(ErrorModel(message, kind, status))
        self._write(status, body, *headers)
        self._linger()

    def _write(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers).encode()
        self.transport.write(
            b"HTTP/1.1 %d %b\r\n"
            b"content-type: application/json\r\n"
            b"content-length: %d\r\n"
            b"%bconnection: close\r\n\r\n%b"
            % (status, HTTPStatus(status).phrase.encode(), len(body), lines, body)
        )

    def _linger(self) -> None:
        """Ends the connection of a client that still sends: a close would reset it before it has read why."""
        self._is_refused = True
        self.transport.write_eof()

    def _discard(self, size: int) -> None:
        self._discarded_bytes += size
        if self._discarded_bytes > self._limits.discarded_bytes:
            self._is_refused = True
            self._all.log("discarded-bytes")
            self.transport.abort()

    def _close_after_answer(self) -> None:
        """Reads nothing more, and ends the connection with the answer that is under way."""
        self._is_refused = True
        if self.cycle is not None:
            self.cycle.keep_alive = False

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:  # noqa: ARG002
        # a request that was sent behind another one starts in the task of that one, whose account, threads
        # and memory are not its own
        task = self.loop.create_task(cycle.run_asgi(self._answer), context=Context())  # type: ignore[arg-type]
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)
        self._running = cycle, task
        cycle.transport = self._sending = _AnswerTransport(cycle, self._linger)  # type: ignore[assignment]

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self.app(scope, receive, send)
        except asyncio.CancelledError:
            cycle = self._running[0] if self._running else self.cycle
            if cycle.response_started:
                cycle.disconnected = True
                self.transport.abort()
            # `send` drops the answer if the client is gone
            body = encode_error(ErrorModel("The service is shutting down", _UNAVAILABLE, 503))
            headers = [
                (b"content-type", b"application/json"),
                (b"retry-after", b"1"),
                (b"connection", b"close"),
            ]
            await send({"type": "http.response.start", "status": 503, "headers": headers})
            await send({"type": "http.response.body", "body": body, "more_body": False})

    def _stop_request(self) -> None:
        if self._running is not None and not self._running[0].response_complete:
            cycle, task = self._running
            cycle.disconnected = True
            task.cancel()

    def _is_slow_reader(self) -> bool:
        """Whether a client took less of an answer, in a whole period, than it must."""
        unsent: int = self.transport.get_write_buffer_size()
        if not unsent or not self._unsent_s:
            self._unsent_bytes = unsent
        self._unsent_s = self._unsent_s + self._all.tick_s if unsent else 0.0
        if self._unsent_s <= self._limits.head_timeout.seconds:
            return False
        taken = self._unsent_bytes - unsent
        is_slow = 0 <= taken < self._limits.body_bytes_per_second * self._unsent_s
        self._unsent_s = 0.0
        return is_slow


def _head_of_body(headers: list[tuple[bytes, bytes]]) -> bytes:
    """A head with the same body; empty if there is none."""
    framing = b"".join(b"%b: %b\r\n" % each for each in headers if each[0] in _FRAMING)
    return b"POST / HTTP/1.1\r\n%b\r\n" % framing if framing else b""
