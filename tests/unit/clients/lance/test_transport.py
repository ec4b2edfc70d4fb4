"""What is sent again, and what is not."""

from __future__ import annotations

import gzip
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest
from lance_namespace import DeclareTableRequest, DescribeNamespaceRequest
from lance_namespace.errors import InternalError, ServiceUnavailableError, ThrottlingError

from floecat.clients.lance import IcebergRestNamespace
from tests.unit.clients.lance.scripted_server import DROPPED, Reply, ScriptedServer

Connect = Callable[..., IcebergRestNamespace]

NAMESPACE = ("GET", "/v1/p/namespaces/a")
TABLES = ("POST", "/v1/p/namespaces/a/tables")
MADE = Reply(body={"metadata": {"location": "s3://lake/w/a/t", "properties": {"table_type": "lance"}}})
FOUND = Reply(body={"namespace": ["a"], "properties": {"x": "y"}})
BUSY = Reply(503, headers={"Retry-After": "0"})
KNOWS_KEYS = Reply(body={"defaults": {"prefix": "p"}, "overrides": {}, "idempotency-key-lifetime": "PT30M"})


def describe(namespace: IcebergRestNamespace) -> Any:
    return namespace.describe_namespace(DescribeNamespaceRequest(id=["w", "a"])).properties


def declare(namespace: IcebergRestNamespace) -> Any:
    return namespace.declare_table(DeclareTableRequest(id=["w", "a", "t"])).location


@pytest.mark.parametrize("failure", [Reply(502), Reply(503), Reply(504), BUSY, DROPPED])
def test_reads_are_repeated(server: ScriptedServer, connect: Connect, failure: Reply):
    server.on(*NAMESPACE, failure, failure, FOUND)
    assert describe(connect()) == {"x": "y"}
    assert len(server.sent(*NAMESPACE)) == 3


def test_reads_are_repeated_no_more_often_than_is_set(server: ScriptedServer, connect: Connect):
    server.on(*NAMESPACE, BUSY)
    with pytest.raises(ServiceUnavailableError):
        describe(connect(max_retries=2))
    assert len(server.sent(*NAMESPACE)) == 3


def test_an_internal_error_is_not_repeated(server: ScriptedServer, connect: Connect):
    server.on(*NAMESPACE, Reply(500, {"error": {"message": "oops", "type": "E", "code": 500}}), FOUND)
    with pytest.raises(InternalError, match="oops"):
        describe(connect())


@pytest.mark.parametrize("status", [429, 503])
def test_changes_are_repeated_when_the_server_says_when(
    server: ScriptedServer, connect: Connect, status: int
):
    server.on(*TABLES, Reply(status, headers={"Retry-After": "0"}), MADE)
    assert declare(connect()) == "s3://lake/w/a/t"
    keys = {each.headers["Idempotency-Key"] for each in server.sent(*TABLES)}
    assert len(server.sent(*TABLES)) == 2
    assert len(keys) == 1


@pytest.mark.parametrize("failure", [Reply(503), Reply(502), DROPPED])
def test_changes_whose_fate_is_unknown_are_repeated_only_where_the_server_knows_keys(
    server: ScriptedServer, connect: Connect, failure: Reply
):
    server.on(*TABLES, failure, MADE)
    with pytest.raises((ServiceUnavailableError, InternalError)):
        declare(connect())
    assert len(server.sent(*TABLES)) == 1
    server.on("GET", "/v1/config", KNOWS_KEYS)
    server.on(*TABLES, failure, MADE)
    assert declare(connect()) == "s3://lake/w/a/t"
    assert len({each.headers["Idempotency-Key"] for each in server.sent(*TABLES)}) == 2


def test_throttling(server: ScriptedServer, connect: Connect):
    server.on(*NAMESPACE, Reply(429, headers={"Retry-After": "0"}))
    with pytest.raises(ThrottlingError):
        describe(connect(max_retries=1))
    assert len(server.sent(*NAMESPACE)) == 2


def test_redirects_are_not_followed(server: ScriptedServer, connect: Connect):
    server.on(*NAMESPACE, Reply(302, headers={"Location": f"{server.url}/elsewhere"}))
    with pytest.raises(InternalError, match="302"):
        describe(connect(auth_token="hush"))
    assert not server.sent("GET", "/elsewhere")


def test_nobody_listens():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        namespace = IcebergRestNamespace(endpoint=f"http://127.0.0.1:{probe.getsockname()[1]}", max_retries=1)
        with pytest.raises(ServiceUnavailableError, match="No answer from"):
            describe(namespace)


def test_read_timeout(server: ScriptedServer, connect: Connect):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        begin = time.monotonic()
        with pytest.raises(ServiceUnavailableError, match="ReadTimeoutError"):
            describe(connect(endpoint=url, read_timeout=50, max_retries=0))
        assert time.monotonic() - begin < 25


@pytest.mark.parametrize(
    "body", [b"[" * 10_000, b'{"properties":{"a":"\xff"}}', b'{"namespace":' + b"[" * 10_000]
)
def test_answers_that_cannot_be_decoded(server: ScriptedServer, connect: Connect, body: bytes):
    server.on(*NAMESPACE, Reply(body=body))
    with pytest.raises(InternalError, match="cannot be read"):
        describe(connect())


def test_a_larger_answer_than_is_allowed(server: ScriptedServer, connect: Connect):
    body = b'{"namespace":["a"],"properties":{"x":"y"}}'
    server.on(*NAMESPACE, Reply(body=body))
    assert describe(connect(max_answer_bytes=1000)) == {"x": "y"}
    server.on(*NAMESPACE, Reply(body=body.ljust(1001)))
    with pytest.raises(InternalError, match=r"larger than 1000 bytes \(max_answer_bytes\)"):
        describe(connect(max_answer_bytes=1000))


def test_a_small_answer_that_would_inflate_is_not_inflated(server: ScriptedServer, connect: Connect):
    bomb = gzip.compress(b'{"namespace":["a"],"properties":{"x":"y"}}' + b" " * 1_000_000)
    server.on(*NAMESPACE, Reply(body=bomb, headers={"Content-Encoding": "gzip"}))
    with pytest.raises(InternalError, match="cannot be read"):
        describe(connect())


def test_an_answer_that_breaks_off_is_asked_for_again(server: ScriptedServer, connect: Connect):
    server.on(*NAMESPACE, Reply(body=b'{"namespace"', headers={"Content-Length": "1000"}), FOUND)
    assert describe(connect()) == {"x": "y"}
