"""Questions to a policy service: what is sent, what is taken for an answer, and what is none."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any
from uuid import UUID

import pytest

from floecat.access.opa import OpaAuthorizer
from floecat.auth.authorizer import Check, Privilege, Securable
from floecat.auth.principals import Principal
from floecat.errors import SettingsError, UnavailableError
from floecat.settings.groups.process import OpaSettings
from tests.services.http_server import QuietHandler, serving

ACCOUNT = UUID("5eaa9cd5-7d08-3750-9457-cfe800b0b9d2")
ADA = Principal("@corp/ada", ACCOUNT, groups=("readers",), issuer="corp")
CHECKS: list[Check] = [
    (Privilege.USE_CATALOG, Securable("catalog", "lake")),
    (Privilege.READ_TABLE, Securable("table", "lake", ("raw", "events"), "t")),
    (Privilege.READ_ACCESS, Securable("account", "")),
]


class Policies:
    """What a service answers, and what it was asked.

    Attributes:
        answer: body of the answers.
        status: of the answers.
        connections: client ports, one a connection.
    """

    def __init__(self) -> None:
        self.answer: object = {"result": [True, False, True]}
        self.status = 200
        self.url = ""
        self.asked: list[tuple[str, dict[str, str], Any]] = []
        self.connections: list[int] = []


@pytest.fixture
def policies() -> Iterator[Policies]:
    yield from _policies(keeps=True)


def _policies(*, keeps: bool) -> Iterator[Policies]:
    made = Policies()

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1" if keeps else "HTTP/1.0"

        def setup(self) -> None:
            super().setup()
            made.connections.append(self.client_address[1])

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            made.asked.append((self.path, {key.lower(): value for key, value in self.headers.items()}, body))
            sent = made.answer if isinstance(made.answer, bytes) else json.dumps(made.answer).encode()
            self.send_response(made.status)
            self.send_header("content-length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

    with serving(Handler) as url:
        made.url = f"{url}/v1/data/floecat/allowed?a=b"
        yield made


@contextmanager
def authorizer(policies: Policies, **more: Any) -> Iterator[OpaAuthorizer]:
    with closing(OpaAuthorizer(OpaSettings(url=policies.url, **more))) as made:
        yield made


def test_one_request_asks_for_all_checks(policies: Policies) -> None:
    with authorizer(policies, token="hush") as asks:
        assert list(asks.allowed(ADA, CHECKS)) == [True, False, True]
    ((path, headers, body),) = policies.asked
    assert path == "/v1/data/floecat/allowed?a=b"
    assert headers["authorization"] == "Bearer hush"
    assert body == {
        "input": {
            "account": str(ACCOUNT),
            "principal": "@corp/ada",
            "issuer": "corp",
            "groups": ["readers"],
            "checks": [
                {"privilege": "use_catalog", "kind": "catalog", "catalog": "lake"},
                {
                    "privilege": "read_table",
                    "kind": "table",
                    "catalog": "lake",
                    "namespace": ["raw", "events"],
                    "name": "t",
                },
                {"privilege": "read_access", "kind": "account"},
            ],
        }
    }
    policies.answer = {"result": {"allowed": [False, True, False], "reasons": ["x"]}, "decision_id": "1"}
    with authorizer(policies) as asks:
        assert list(asks.allowed(ADA, CHECKS)) == [False, True, False]


def test_connections_are_used_again_and_made_anew_where_they_ended(policies: Policies) -> None:
    with authorizer(policies) as asks:
        for _ in range(3):
            asks.allowed(ADA, CHECKS)
        assert len(policies.connections) == 1
        for connection in asks._idle:
            connection.sock.shutdown(socket.SHUT_RDWR)
        assert list(asks.allowed(ADA, CHECKS)) == [True, False, True]
        assert len(policies.connections) == 2


def test_another_thread_may_take_the_last_connection(policies: Policies) -> None:
    class Taken(list[Any]):
        def __bool__(self) -> bool:  # another thread takes it after this one has looked
            self.clear()
            return True

    with authorizer(policies) as asks:
        asks.allowed(ADA, CHECKS)
        (kept,) = asks._idle
        kept.close()
        asks._idle = Taken()
        assert list(asks.allowed(ADA, CHECKS)) == [True, False, True]
        asks._idle = list(asks._idle)


def test_a_service_may_end_each_connection() -> None:
    with contextmanager(_policies)(keeps=False) as ends, authorizer(ends) as short:
        assert list(short.allowed(ADA, CHECKS)) == list(short.allowed(ADA, CHECKS))
        assert len(ends.connections) == 2


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({}, "no result"),  # what the policy does not define
        ({"result": True}, "no result"),
        ({"result": [True, "true", 1]}, "no result"),
        ({"result": {"allow": [True, True, True]}}, "no result"),
        ({"result": None}, "no result"),
        (b"<html>", "no result"),
        (b"\xff", "no result"),
        (b"[" * 900, "no result"),
        (b"", "no result"),
        ({"result": [True, True]}, "2 answers to 3 checks"),
        ({"result": [True] * 4}, "4 answers to 3 checks"),
        ({"result": [True] * 3, "more": "x" * 2_000}, "larger than 1000 bytes"),
    ],
)
def test_what_is_no_clear_answer_refuses(policies: Policies, answer: object, told: str) -> None:
    policies.answer = answer
    with (
        authorizer(policies, max_answer_bytes=1_000, timeout_ms=60_000) as asks,
        pytest.raises(UnavailableError, match=told),
    ):
        asks.allowed(ADA, CHECKS)


@pytest.mark.parametrize("status", [201, 204, 301, 400, 401, 404, 500])
def test_another_status_refuses(policies: Policies, status: int) -> None:
    policies.status = status
    with authorizer(policies) as asks, pytest.raises(UnavailableError, match=f"status {status}"):
        asks.allowed(ADA, CHECKS)


HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n"
BEHAVIOURS: dict[str, tuple[Callable[[socket.socket], object], str]] = {
    "silence": (lambda _: time.sleep(0.5), "no answer within 0.3 s"),
    "a drop a moment": (lambda sent: _drip(sent, HEAD + b" " * 99), "no answer within 0.3 s"),
    "an endless header": (lambda sent: _endless(sent, b"HTTP/1.1 200 OK\r\na: ", b"a" * 4096), "on the way"),
    "endless headers": (lambda sent: _endless(sent, b"HTTP/1.1 200 OK\r\n", b"a: b\r\n"), "on the way"),
    "an endless body": (
        lambda sent: _endless(sent, b"HTTP/1.0 200 OK\r\n\r\n", b"a" * 4096),
        "larger than 10000",
    ),
    "an end in the middle": (lambda sent: sent.sendall(HEAD + b"{"), "on the way|breaks off"),
    "no HTTP": (lambda sent: sent.sendall(b"220 smtp\r\n\r\n"), "on the way"),
    "an end at once": (lambda _: None, "on the way"),
}


def _drip(sent: socket.socket, data: bytes) -> None:
    for each in data:
        sent.sendall(bytes([each]))
        time.sleep(0.01)


def _endless(sent: socket.socket, head: bytes, data: bytes) -> None:
    sent.sendall(head)
    for _ in range(10_000):
        sent.sendall(data)


@contextmanager
def _behaving(behave: Callable[[socket.socket], object]) -> Iterator[str]:
    """The URL of a server that takes one connection, reads some of the request, and then does this."""

    def serve() -> None:
        with server, server.accept()[0] as connection:
            connection.recv(65536)
            try:
                behave(connection)
            except OSError:
                seen.append("left")  # the other side had enough

    seen: list[str] = []
    server = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"
    finally:
        thread.join()


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_a_service_that_misbehaves_refuses_in_time(behaviour: str) -> None:
    behave, told = BEHAVIOURS[behaviour]
    with _behaving(behave) as url:
        asks = OpaAuthorizer(OpaSettings(url=url, timeout_ms=300, max_answer_bytes=10_000))
        with pytest.raises(UnavailableError, match=told):
            asks.allowed(ADA, CHECKS)
        assert asks._idle == []


def test_a_service_that_is_away_refuses() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(UnavailableError, match="ConnectionRefusedError on the way"):
        OpaAuthorizer(OpaSettings(url=f"http://127.0.0.1:{port}/")).allowed(ADA, CHECKS)


@pytest.mark.parametrize("url", [None, "", "localhost:8181", "ftp://opa/", "http:///x", "http://opa:port/"])
def test_an_address_is_needed(url: str | None) -> None:
    with pytest.raises(SettingsError, match=r"floecat\.auth\.opa\.url"):
        OpaAuthorizer(OpaSettings(url=url))
