"""Clients of a catalog: closed loops, each with one request at a time, and open loops at a fixed rate."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from socket import IPPROTO_TCP, TCP_NODELAY, create_connection, socket
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from httptools import HttpParserError, HttpResponseParser

__all__ = ["Client", "Loop", "Request", "Run", "closed", "opened"]


class Request(NamedTuple):
    """One request; the path lies below the URL of the catalog."""

    kind: str
    method: str
    path: str
    body: Any = None


class Client:
    """One connection that stays open; asks for no compression.

    It shares the cores with the servers that it measures, so it does no more than it needs: a request takes
    half the processor time that it takes with the standard library's client, a sixth of httpx's.
    """

    def __init__(self, api: str, headers: dict[str, str]) -> None:
        address = urlsplit(api)
        self._address = (str(address.hostname), int(address.port or 80))
        self._prefix = address.path
        sent = {
            "host": address.netloc,
            "accept-encoding": "identity",
            "content-type": "application/json",
            **headers,
        }
        self._head = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        self._socket: socket | None = None

    def send(self, request: Request) -> tuple[int, bytes]:
        """Status and body of the answer; 0 if there was none."""
        body = b"" if request.body is None else json.dumps(request.body).encode()
        line = f"{request.method} {self._prefix}/{request.path} HTTP/1.1\r\n"
        head = f"{line}{self._head}content-length: {len(body)}\r\n\r\n"
        try:
            if self._socket is None:
                self._socket = create_connection(self._address, timeout=60)
                self._socket.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
            self._socket.sendall(head.encode() + body)
            return _Answer(is_bodyless=request.method == "HEAD").read(self._socket)
        except (HttpParserError, OSError):
            self.close()
            return 0, b""

    def close(self) -> None:
        """Closes the connection; the next request opens another one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def json(self, request: Request) -> Any:
        """The answer to a request that must succeed."""
        status, body = self.send(request)
        if status >= 300 or status == 0:
            raise RuntimeError(f"{request.method} {request.path} answered {status}: {body[:300]!r}")
        return json.loads(body) if body else None


class _Answer:
    """The answer to one request, as the parser reports its parts."""

    def __init__(self, *, is_bodyless: bool) -> None:
        self._parser = HttpResponseParser(self)
        self._is_bodyless = is_bodyless
        self._body = b""
        self._is_whole = False

    def read(self, connection: socket) -> tuple[int, bytes]:
        while not self._is_whole:
            received = connection.recv(1 << 18)
            if not received:
                raise OSError("the connection was closed")
            self._parser.feed_data(received)
        return self._parser.get_status_code(), self._body

    def on_headers_complete(self) -> None:
        self._is_whole = self._is_bodyless

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self._is_whole = True


Loop: TypeAlias = Callable[[Client, int], int]
"""Does one thing as client number n, and returns the status of its answer."""


class Run(NamedTuple):
    """What a number of clients met."""

    statuses: Counter[int]
    seconds: float
    times_ms: list[float]

    @property
    def rate(self) -> float:
        """Answers below 300 in a second."""
        return sum(number for status, number in self.statuses.items() if 0 < status < 300) / self.seconds

    @property
    def failures(self) -> int:
        """All other answers."""
        return sum(number for status, number in self.statuses.items() if not 0 < status < 300)


def closed(connect: Callable[[], Client], loops: Sequence[Loop], seconds: float) -> Run:
    """As many clients as loops, each of which begins again when it is answered."""
    stop = time.monotonic() + seconds

    def work(number: int, note: Callable[[int, float], None]) -> None:
        client = connect()
        while time.monotonic() < stop:
            begin = time.perf_counter()
            note(loops[number](client, number), begin)

    return _run(len(loops), work)


def opened(connect: Callable[[], Client], loop: Loop, rate: float, seconds: float, threads: int = 48) -> Run:
    """Requests at a fixed rate, whatever the answers take; each is timed from when it was meant to begin."""
    numbers = count()
    start = time.perf_counter() + 0.05

    def work(_: int, note: Callable[[int, float], None]) -> None:
        client = connect()
        while (number := next(numbers)) < rate * seconds:
            intended = start + number / rate
            time.sleep(max(0.0, intended - time.perf_counter()))
            note(loop(client, number), intended)

    return _run(threads, work)


def _run(threads: int, work: Callable[[int, Callable[[int, float], None]], None]) -> Run:
    statuses: Counter[int] = Counter()
    times_ms: list[float] = []
    lock = threading.Lock()

    def thread(number: int) -> None:
        mine: Counter[int] = Counter()
        taken_ms: list[float] = []

        def note(status: int, begin: float) -> None:
            taken_ms.append((time.perf_counter() - begin) * 1000)
            mine[status] += 1

        work(number, note)
        with lock:
            statuses.update(mine)
            times_ms.extend(taken_ms)

    begin = time.monotonic()
    started = [threading.Thread(target=thread, args=(number,)) for number in range(threads)]
    for each in started:
        each.start()
    for each in started:
        each.join()
    return Run(statuses, time.monotonic() - begin, times_ms)
