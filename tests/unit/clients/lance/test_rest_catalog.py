from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from lance_namespace import DescribeNamespaceRequest, ListNamespacesRequest
from lance_namespace.errors import InternalError, NamespaceNotFoundError, ServiceUnavailableError

from floecat.clients.lance import IcebergRestNamespace
from tests.unit.clients.lance.scripted_server import Reply, ScriptedServer

Connect = Callable[..., IcebergRestNamespace]

CONFIG = ("GET", "/v1/config")
EMPTY = Reply(body={"namespaces": []})


def list_top(namespace: IcebergRestNamespace, warehouse: str = "w") -> Any:
    return namespace.list_namespaces(ListNamespacesRequest(id=[warehouse]))


@pytest.mark.parametrize(
    ("config", "prefix"),
    [
        ({"defaults": {"prefix": "p"}, "overrides": {"prefix": "o"}}, "p"),
        ({"defaults": {}, "overrides": {"prefix": "o"}}, "o"),
        ({"overrides": {"prefix": "ws/o"}}, "ws/o"),
        ({"defaults": {}, "overrides": {}}, "my%20lake%2F1"),
        ({}, "my%20lake%2F1"),
    ],
)
def test_prefix_is_of_the_defaults_then_of_the_overrides_then_the_name(
    server: ScriptedServer, connect: Connect, config: dict[str, Any], prefix: str
):
    server.on(*CONFIG, Reply(body=config))
    server.on("GET", f"/v1/{prefix}/namespaces", EMPTY)
    namespace = connect()
    list_top(namespace, "my lake/1")
    list_top(namespace, "my lake/1")
    [asked] = server.sent(*CONFIG)
    assert asked.query == "warehouse=my%20lake%2F1"


def test_each_warehouse_is_asked_for_once(server: ScriptedServer, connect: Connect):
    server.on("GET", "/v1/p/namespaces", EMPTY)
    namespace = connect()
    for warehouse in ("w", "v", "w", "v"):
        list_top(namespace, warehouse)
    assert [each.query for each in server.sent(*CONFIG)] == ["warehouse=w", "warehouse=v"]


@pytest.mark.parametrize(
    ("failure", "error"), [(Reply(404), NamespaceNotFoundError), (Reply(503), ServiceUnavailableError)]
)
def test_a_failure_is_not_kept(
    server: ScriptedServer, connect: Connect, failure: Reply, error: type[Exception]
):
    server.on(*CONFIG, failure, Reply(body={"defaults": {"prefix": "p"}}))
    server.on("GET", "/v1/p/namespaces", EMPTY)
    namespace = connect(max_retries=0)
    with pytest.raises(error):
        list_top(namespace)
    assert list_top(namespace).namespaces == []


def test_levels_are_encoded_once_in_paths_and_in_parameters(server: ScriptedServer, connect: Connect):
    server.on("GET", "/v1/p/namespaces/a%1Fb%20c%2Fd", Reply(body={"properties": {}}))
    server.on("GET", "/v1/p/namespaces", EMPTY)
    namespace = connect()
    namespace.describe_namespace(DescribeNamespaceRequest(id=["w", "a", "b c/d"]))
    namespace.list_namespaces(ListNamespacesRequest(id=["w", "a", "b c/d"]))
    assert server.requests[-1].target == "/v1/p/namespaces?parent=a%1Fb%20c%2Fd"


@pytest.mark.parametrize("answer", [b"<html>", b"[]", b'{"namespaces": "a"}', b"\xff"])
def test_an_answer_of_another_form(server: ScriptedServer, connect: Connect, answer: bytes):
    server.on("GET", "/v1/p/namespaces", Reply(body=answer))
    with pytest.raises(InternalError, match="cannot be read"):
        list_top(connect())
