from __future__ import annotations

import asyncio
import gc
import json
import logging
import resource
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import pytest
import uvicorn

from floecat.gate import current_account, name_account
from floecat.settings import Duration
from floecat.settings.limits import LimitSettings
from floecat_rest.http.connections import Connections
from floecat_rest.http.protocol import CatalogHttpProtocol

HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n"
QUICK = LimitSettings(head_timeout=Duration(200))


async def echo(scope, receive, send):
    """Answers with the number of headers and the size of the body."""
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size, more = size + len(message["body"]), message["more_body"]
    body = json.dumps({"headers": len(scope["headers"]), "body": size}).encode()
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def at_once(scope, receive, send):
    """Answers without reading the body."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"{}", "more_body": False})


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> tuple[int, Any]:
        """Status and body of the next answer; 0 at the end of the connection."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return 0, None
        size = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        return int(head.split()[1]), json.loads(await self.reader.readexactly(size))

    async def ends(self) -> bool:
        """Whether nothing more comes."""
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True


Connect = Callable[[], Awaitable[Client]]


@asynccontextmanager
async def service(
    limits: LimitSettings, app: Any = echo, protocol: Any = CatalogHttpProtocol, **times: float
) -> AsyncIterator[Connect]:
    connections = Connections(limits, **({"tick_s": 0.05} | times))
    protocol = partial(protocol, connections)
    config = uvicorn.Config(app, port=0, http=protocol, lifespan="off", log_config=None, ws="none")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server._serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    clients: list[Client] = []

    async def connect() -> Client:
        clients.append(Client(*await asyncio.open_connection("127.0.0.1", port)))
        return clients[-1]

    try:
        yield connect
    finally:
        for client in clients:
            client.writer.close()
        server.should_exit = True
        await serving


def run(work: Callable[[Connect], Awaitable[Any]], limits: LimitSettings | None = None, **given: Any) -> Any:
    async def main() -> Any:
        async with service(limits or LimitSettings(), **given) as connect:
            return await asyncio.wait_for(work(connect), 120)

    return asyncio.run(main())


def ask(*pieces: bytes, limits: LimitSettings | None = None, **given: Any) -> tuple[int, Any]:
    """The first answer to bytes that are sent piece by piece."""

    async def work(connect: Connect) -> tuple[int, Any]:
        client = await connect()
        for piece in pieces:
            await client.send(piece)
            await asyncio.sleep(0)
        return await client.answer()

    return run(work, limits, **given)


def refusal_of(answer: tuple[int, Any]) -> tuple[int, str]:
    status, body = answer
    assert body["error"]["code"] == status
    return status, body["error"]["message"]


def test_the_defaults() -> None:
    limits = LimitSettings()
    assert (limits.head_bytes, limits.headers, limits.head_timeout.seconds) == (65_536, 100, 30)
    assert (limits.body_bytes_per_second, limits.pipelined_requests) == (1024, 32)
    assert limits.discarded_bytes == 64 << 20
    assert (limits.connections, limits.reserved_descriptors) == (2048, 256)
    assert limits.shutdown_grace.seconds == 30


def head_of(size: int) -> bytes:
    """A request whose path and headers, without separators, have a size."""
    names = len(b"/" + b"Host" + b"x" + b"A")
    return HEAD + b"A: " + b"a" * (size - names) + b"\r\n\r\n"


def test_a_head_of_the_largest_size_is_served_and_one_byte_more_is_refused() -> None:
    assert ask(head_of(65_536))[0] == 200
    status, message = refusal_of(ask(head_of(65_537)))
    assert status == 431
    assert "floecat.limits.head-bytes" in message


def test_a_head_that_comes_in_pieces_has_the_same_bound() -> None:
    pieces = [HEAD, *[b"a%d: b\r\n" % number for number in range(100)]]
    assert refusal_of(ask(*pieces, b"\r\n", limits=LimitSettings(head_bytes=400)))[0] == 431
    assert refusal_of(ask(HEAD, b"A: ", *[b"a" * 100] * 10, limits=LimitSettings(head_bytes=400)))[0] == 431


def test_many_requests_in_one_piece_are_not_one_large_head() -> None:
    assert ask((HEAD + b"\r\n") * 20, limits=LimitSettings(head_bytes=100))[0] == 200
    body = b"x" * 100_000
    sent = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + body
    assert ask(sent) == (200, {"headers": 2, "body": 100_000})


def test_the_number_of_headers_is_bounded() -> None:
    headers = b"".join(b"a%d: b\r\n" % number for number in range(99))
    assert ask(HEAD + headers + b"\r\n") == (200, {"headers": 100, "body": 0})
    status, message = refusal_of(ask(HEAD + headers + b"one: more\r\n\r\n"))
    assert status == 431
    assert "floecat.limits.headers" in message


def test_headers_after_a_body_are_bounded_and_dropped() -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"
    assert ask(head + b"a: b\r\n" * 200 + b"\r\n") == (200, {"headers": 2, "body": 1})
    status, _ = refusal_of(ask(head, *[b"a: b\r\n" * 100] * 10, limits=LimitSettings(head_bytes=2000)))
    assert status == 431


@pytest.mark.parametrize("sent", [b"G", HEAD, HEAD + b"A: a"])
def test_half_a_head_is_answered_after_a_time(sent: bytes) -> None:
    status, message = refusal_of(ask(sent, limits=QUICK))
    assert status == 408
    assert "floecat.limits.head-timeout" in message


def test_a_client_that_dribbles_its_head_gains_no_time() -> None:
    async def work(connect: Connect) -> tuple[int, Any]:
        client = await connect()

        async def dribble() -> None:
            while True:
                await client.send(b"a")
                await asyncio.sleep(0.02)

        await client.send(HEAD)
        dribbling = asyncio.create_task(dribble())
        try:
            return await client.answer()
        finally:
            dribbling.cancel()

    assert refusal_of(run(work, QUICK))[0] == 408


def test_idle_connections_are_closed_and_busy_ones_are_not() -> None:
    goes_on = asyncio.Event()

    async def slow(scope, receive, send):
        await goes_on.wait()
        await echo(scope, receive, send)

    async def work(connect: Connect) -> None:
        silent, busy = await connect(), await connect()
        await busy.send(HEAD + b"\r\n")
        assert await silent.ends()
        goes_on.set()
        assert (await busy.answer())[0] == 200
        assert await busy.ends()

    run(work, LimitSettings(head_timeout=Duration(1500)), app=slow, keep_alive_s=0.3)


def test_a_body_that_comes_too_slowly_is_refused() -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n"
    status, message = refusal_of(ask(head, b"a" * 10, limits=QUICK))
    assert status == 408
    assert "floecat.limits.body-bytes-per-second" in message


def test_a_client_that_does_not_take_its_answer_is_cut_off() -> None:
    lost = asyncio.Event()

    async def large(scope, receive, send):
        headers = [(b"content-length", b"%d" % (200 << 20))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        try:
            for _ in range(200):
                await send({"type": "http.response.body", "body": bytes(1 << 20), "more_body": True})
        finally:
            lost.set()

    async def work(connect: Connect) -> None:
        await (await connect()).send(HEAD + b"\r\n")
        await lost.wait()

    run(work, QUICK, app=large)


def test_a_client_that_takes_its_answer_slowly_enough_gets_all() -> None:
    async def large(scope, receive, send):
        headers = [(b"content-length", b"%d" % (20 << 20))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": bytes(20 << 20), "more_body": False})

    async def work(connect: Connect) -> int:
        client = await connect()
        await client.send(HEAD + b"\r\n")
        await client.reader.readuntil(b"\r\n\r\n")
        size = 0
        while size < 20 << 20:
            size += len(await client.reader.read(1 << 20))
            await asyncio.sleep(0.02)
        return size

    assert run(work, LimitSettings(head_timeout=Duration(2000)), app=large) == 20 << 20


def test_pipelined_requests_are_bounded() -> None:
    async def work(connect: Connect) -> list[int]:
        client = await connect()
        await client.send((HEAD + b"\r\n") * 100)
        return [(await client.answer())[0] for _ in range(6)]

    # one runs and four wait; what comes after them is not read
    assert run(work, LimitSettings(pipelined_requests=4))[5] == 0


def test_a_request_sent_behind_another_one_has_nothing_of_it() -> None:
    accounts = []

    async def app(scope, receive, send):
        accounts.append(current_account())
        name_account("of the first")
        await at_once(scope, receive, send)

    async def work(connect: Connect) -> None:
        client = await connect()
        await client.send((HEAD + b"\r\n") * 3)
        assert [(await client.answer())[0] for _ in range(3)] == [200] * 3

    run(work, app=app)
    assert accounts == [None] * 3


def test_the_connection_that_is_idle_longest_makes_room() -> None:
    async def work(connect: Connect) -> None:
        first, second = await connect(), await connect()
        for client in (first, second, first):
            await client.send(HEAD + b"\r\n")
            assert (await client.answer())[0] == 200
        third = await connect()
        assert await second.ends()
        for client in (first, third):
            await client.send(HEAD + b"\r\n")
            assert (await client.answer())[0] == 200

    run(work, LimitSettings(connections=2))


def test_without_an_idle_connection_a_new_one_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "floecat.limits")

    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def held(scope, receive, send):
        begun.set()
        await goes_on.wait()
        await at_once(scope, receive, send)

    async def work(connect: Connect) -> None:
        busy = await connect()
        await busy.send(HEAD + b"\r\n")
        await begun.wait()
        for _ in range(3):
            status, message = refusal_of(await (await connect()).answer())
            assert status == 503
            assert "floecat.limits.connections" in message
        goes_on.set()
        assert (await busy.answer())[0] == 200

    run(work, LimitSettings(connections=1), app=held)
    assert [line for line in caplog.messages if "floecat.limits.connections" in line] == [
        "bound floecat.limits.connections was hit, 0 times more since the last line"
    ]


def test_without_an_idle_connection_the_body_that_comes_for_longest_gives_way() -> None:
    async def work(connect: Connect) -> None:
        bodies = []
        for _ in range(2):
            bodies.append(await connect())
            await bodies[-1].send(
                b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
            )
            await bodies[-1].reader.readuntil(b"\r\n\r\n")
        status = 0
        while status != 200:  # until it is known how long bodies take
            third = await connect()
            with suppress(ConnectionError):
                await third.send(HEAD + b"\r\n")
            status, _ = await third.answer()
        status, message = refusal_of(await bodies[0].answer())
        assert (status, await bodies[0].ends()) == (503, True)
        assert "(floecat.limits.connections)" in message
        await bodies[1].send(b"ab")
        assert await bodies[1].answer() == (200, {"headers": 3, "body": 2})

    run(work, LimitSettings(connections=2))


def test_a_connection_that_gives_way_ends_though_its_client_reads_nothing() -> None:
    lost = asyncio.Event()

    async def large(scope, receive, send):
        body = b"x" * ((100 << 20) if scope["method"] == "GET" else 2)
        headers = [(b"content-length", b"%d" % len(body))]
        if scope["method"] != "GET":
            await receive()
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    class Noting(CatalogHttpProtocol):
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            if self.first:
                lost.set()

        def connection_made(self, transport: Any) -> None:
            self.first = not made
            made.append(None)
            super().connection_made(transport)

    made: list[None] = []

    async def work(connect: Connect) -> None:
        unread = await connect()
        await unread.send(HEAD + b"\r\nPOST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\na")
        while not lost.is_set() and len(made) < 200:  # until it is known how long the body takes
            (await connect()).writer.close()
            await asyncio.sleep(0.01)
        await lost.wait()

    run(work, LimitSettings(connections=1), app=large, protocol=Noting)


def test_connections_leave_a_reserve_of_descriptors() -> None:
    _, most = before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        for descriptors, expected in ((1024, 768), (128, 64)):
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, most))
            assert Connections(LimitSettings()).most == expected
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert Connections(LimitSettings(connections=10)).most == 10


@pytest.mark.parametrize(
    "sent",
    [
        b"GARBAGE\r\n\r\n",
        b"GET /v1/\xc3\xa9 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /v1/config HTTP/1.1\r\nHost: x\r\nContent-Length: many\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.0\r\nHost: x\r\nHost: y\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET http://y/ HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET http://x@y?/ HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
def test_what_is_no_http_is_answered_in_shape(sent: bytes) -> None:
    status, body = ask(sent)
    assert (status, body["error"]["type"], body["error"]["code"]) == (400, "BadRequestException", 400)


UPGRADE = b"Connection: Upgrade\r\nUpgrade: h2c\r\n"
LIKE_A_REQUEST = HEAD + b"\r\n"


@pytest.mark.parametrize(
    ("head", "body", "size"),
    [
        (b"", b"", 0),
        (b"Content-Length: 0\r\n", b"", 0),
        (b"Content-Length: %d\r\n" % len(LIKE_A_REQUEST), LIKE_A_REQUEST, len(LIKE_A_REQUEST)),
        (b"Transfer-Encoding: chunked\r\n", b"1b\r\n" + LIKE_A_REQUEST + b"\r\n0\r\n\r\n", 27),
    ],
)
@pytest.mark.parametrize("piece_bytes", [1, 7, 1000])
def test_requests_for_another_protocol_are_answered_in_this_one(
    head: bytes, body: bytes, size: int, piece_bytes: int
) -> None:
    """No part of their body is taken for a request."""
    sent = b"POST" + HEAD[3:] + UPGRADE + head + b"\r\n" + body
    sent += sent + LIKE_A_REQUEST

    async def work(connect: Connect) -> list[int]:
        client = await connect()
        for start in range(0, len(sent), piece_bytes):
            await client.send(sent[start : start + piece_bytes])
            await asyncio.sleep(0)
        return [(await client.answer())[1]["body"] for _ in range(3)]

    assert run(work) == [size, size, 0]


def test_a_url_names_the_host_that_the_header_names() -> None:
    assert ask(b"GET http://X:1/v1 HTTP/1.1\r\nHost: x:1\r\n\r\n")[0] == 200


def test_http_1_0_needs_no_host() -> None:
    assert ask(b"GET / HTTP/1.0\r\n\r\n")[0] == 200


@pytest.mark.parametrize("sent", [b"GET /\r\n\r\n", b"GET /\r\nHost: x\r\n\r\n"])
def test_http_0_9_is_closed(sent: bytes) -> None:
    assert ask(sent)[0] == 0


POST = b"POST / HTTP/1.1\r\nHost: x\r\n"
UNENDING = {
    "head": (431, HEAD + b"A: " + b"a" * 65_536),
    "no HTTP": (400, b"GARBAGE\r\n\r\n"),
    "body": (200, POST + b"Content-Length: 1000000000\r\n\r\n"),
    "last body": (200, POST + b"Content-Length: 1000000000\r\nConnection: close\r\n\r\n"),
    "chunks": (200, POST + b"Transfer-Encoding: chunked\r\n\r\n3b9aca00\r\n"),
}


@pytest.mark.parametrize(("status", "sent"), UNENDING.values(), ids=UNENDING)
def test_what_follows_a_refusal_or_an_answer_is_read_up_to_a_bound(status: int, sent: bytes) -> None:
    """The connection is reset then; a client that has read its answer has it."""
    most, pieces = 5_000_000, []

    class Counting(CatalogHttpProtocol):
        def data_received(self, data: bytes) -> None:
            pieces.append(len(data))
            super().data_received(data)

    async def work(connect: Connect) -> None:
        client = await connect()
        await client.send(sent)
        assert (await client.answer())[0] == status
        with suppress(ConnectionError):
            while True:
                await client.send(b"a" * 65_536)

    # the clock does not end it
    run(work, LimitSettings(discarded_bytes=most), app=at_once, protocol=Counting, tick_s=20.0)
    assert most < sum(pieces) <= len(sent) + most + max(pieces)


def test_a_client_that_sends_all_before_it_reads_gets_its_answer() -> None:
    body = b"a" * 20_000_000
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 20000000\r\n"
    assert ask(head + b"\r\n" + body, app=at_once, tick_s=20.0)[0] == 200
    assert ask(head + b"Connection: close\r\n\r\n" + body, app=at_once, tick_s=20.0)[0] == 200
    assert ask(b"GARBAGE\r\n\r\n" + body, tick_s=20.0)[0] == 400


def test_an_answer_under_way_is_finished_before_what_follows_it_is_refused() -> None:
    async def slow(scope, receive, send):
        await asyncio.sleep(0.1)
        await echo(scope, receive, send)

    async def work(connect: Connect) -> None:
        client = await connect()
        await client.send(HEAD + b"\r\nGARBAGE\r\n\r\n")
        assert (await client.answer())[0] == 200
        assert await client.ends()

    run(work, app=slow)


def test_the_request_of_a_client_that_is_gone_is_stopped() -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    async def endless(scope, receive, send):
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.set()
            raise

    async def work(connect: Connect) -> None:
        client = await connect()
        await client.send(HEAD + b"\r\n")
        await started.wait()
        client.writer.close()
        await stopped.wait()

    run(work, app=endless)


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
def test_a_request_leaves_memory_with_its_answer() -> None:
    requests: list[weakref.ref[object]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        requests.append(weakref.ref(send.__self__))
        await at_once(scope, receive, send)

    async def work(connect: Connect) -> None:
        client = await connect()
        for _ in range(3):
            await client.send(b"POST" + HEAD[3:] + b"Content-Length: 2\r\n\r\n{}")
            await client.answer()
        assert [request() is None for request in requests[:-1]] == [True, True]

    run(work, app=app)


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("app", [at_once, echo], ids=["answered", "running"])
def test_a_connection_leaves_memory_when_it_ends(app: Any) -> None:
    gone = asyncio.Event()
    made: list[weakref.ref[object]] = []

    class Watched(CatalogHttpProtocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            loop = asyncio.get_running_loop()
            made.append(weakref.ref(self, lambda _: loop.call_soon(gone.set)))
            super().connection_made(transport)

    async def work(connect: Connect) -> None:
        client = await connect()
        await client.send(b"POST" + HEAD[3:] + b"Content-Length: 200000\r\n\r\n" + b"a" * 60_000)
        if app is at_once:
            assert (await client.answer())[0] == 200
        client.writer.transport.abort()
        await gone.wait()

    run(work, app=app, protocol=Watched)


def test_an_answer_is_one_write() -> None:
    async def work(connect: Connect) -> None:
        client = await connect()
        for _ in range(20):
            await client.send(HEAD + b"\r\n")
            # what one write sent is there at once
            assert (await client.reader.read(65_536)).endswith(b'\r\n\r\n{"headers": 1, "body": 0}')

    run(work)


@pytest.mark.parametrize("size", [0, 1, 64 << 10, (64 << 10) + 1, 1 << 20])
@pytest.mark.parametrize("ending", [b"\r\n", b"Connection: close\r\n\r\n"], ids=["open", "closed"])
def test_an_answer_is_whole_whatever_its_size(size: int, ending: bytes) -> None:
    body = b"x" * size

    async def app(scope: Any, receive: Any, send: Any) -> None:
        del scope, receive
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % size)]}
        )
        await send({"type": "http.response.body", "body": body})

    async def work(connect: Connect) -> None:
        client = await connect()
        for method in (b"HEAD", b"GET"):
            await client.send(HEAD.replace(b"GET", method) + (b"\r\n" if method == b"HEAD" else ending))
            assert b"content-length: %d\r\n" % size in await client.reader.readuntil(b"\r\n\r\n")
        assert await client.reader.readexactly(size) == body
        if ending != b"\r\n":
            assert await client.ends()

    run(work, app=app)


def test_a_client_that_waits_before_its_body_may_go_on() -> None:
    async def work(connect: Connect) -> None:
        client = await connect()
        head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
        await client.send(head)
        assert (await client.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        await client.send(b"xyz")
        assert await client.answer() == (200, {"headers": 3, "body": 3})

    run(work)
