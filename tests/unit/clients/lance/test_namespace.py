"""Namespaces: modes, and what the interface leaves to the implementation."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from lance_namespace import (
    CreateNamespaceRequest,
    CreateTableTagRequest,
    DropNamespaceRequest,
    ListNamespacesRequest,
    NamespaceExistsRequest,
)
from lance_namespace.errors import (
    InvalidInputError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    UnsupportedOperationError,
)

from floecat.clients.lance import IcebergRestNamespace
from tests.unit.clients.lance.scripted_server import Reply, ScriptedServer

Connect = Callable[..., IcebergRestNamespace]

CREATE = ("POST", "/v1/p/namespaces")
LIST = ("GET", "/v1/p/namespaces")
ONE = "/v1/p/namespaces/a"
MADE = Reply(body={"namespace": ["a"], "properties": {"new": "yes"}})
OLD = Reply(body={"namespace": ["a"], "properties": {"old": "yes"}})


@pytest.mark.parametrize("mode", [None, "Create", "create", "CREATE"])
def test_create(server: ScriptedServer, connect: Connect, mode: str | None):
    server.on(*CREATE, MADE, Reply(409))
    namespace = connect()
    request = CreateNamespaceRequest(id=["w", "a"], mode=mode, properties={"new": "yes"})
    assert namespace.create_namespace(request).properties == {"new": "yes"}
    assert server.requests[-1].json() == {"namespace": ["a"], "properties": {"new": "yes"}}
    with pytest.raises(NamespaceAlreadyExistsError):
        namespace.create_namespace(request)


@pytest.mark.parametrize("mode", ["ExistOk", "exist_ok", "EXIST_OK"])
def test_exist_ok_keeps_what_is_there(server: ScriptedServer, connect: Connect, mode: str):
    server.on(*CREATE, Reply(409))
    server.on("GET", ONE, OLD)
    made = connect().create_namespace(CreateNamespaceRequest(id=["w", "a"], mode=mode))
    assert made.properties == {"old": "yes"}


def test_overwrite_drops_what_is_there(server: ScriptedServer, connect: Connect):
    server.on(*CREATE, Reply(409), MADE)
    server.on("DELETE", ONE, Reply(204))
    made = connect().create_namespace(CreateNamespaceRequest(id=["w", "a"], mode="Overwrite"))
    assert made.properties == {"new": "yes"}
    assert [each.method for each in server.requests] == ["GET", "POST", "DELETE", "POST"]


def test_overwrite_spares_what_is_not_empty(server: ScriptedServer, connect: Connect):
    server.on(*CREATE, Reply(409))
    server.on("DELETE", ONE, Reply(409))
    with pytest.raises(NamespaceNotEmptyError):
        connect().create_namespace(CreateNamespaceRequest(id=["w", "a"], mode="Overwrite"))


def test_a_missing_parent(server: ScriptedServer, connect: Connect):
    server.on(*CREATE, Reply(404))
    with pytest.raises(NamespaceNotFoundError):
        connect().create_namespace(CreateNamespaceRequest(id=["w", "a", "b"]))


@pytest.mark.parametrize("mode", [None, "Skip", "skip"])
def test_dropping_what_is_gone_succeeds(server: ScriptedServer, connect: Connect, mode: str | None):
    server.on("DELETE", ONE, Reply(404))
    connect().drop_namespace(DropNamespaceRequest(id=["w", "a"], mode=mode, behavior="Restrict"))


def test_unless_that_is_a_failure(server: ScriptedServer, connect: Connect):
    server.on("DELETE", ONE, Reply(404))
    with pytest.raises(NamespaceNotFoundError):
        connect().drop_namespace(DropNamespaceRequest(id=["w", "a"], mode="fail"))


@pytest.mark.parametrize(
    ("mode", "behavior", "message"),
    [
        ("sometimes", None, "mode must be one of skip, fail"),
        (None, "cascade", "Only the behaviour Restrict"),
        (None, "sideways", "behavior must be one of restrict, cascade"),
    ],
)
def test_other_modes_of_a_drop_are_refused(
    server: ScriptedServer, connect: Connect, mode: str | None, behavior: str | None, message: str
):
    with pytest.raises(InvalidInputError, match=message):
        connect().drop_namespace(DropNamespaceRequest(id=["w", "a"], mode=mode, behavior=behavior))
    assert not server.requests


def test_other_modes_of_a_create_are_refused(server: ScriptedServer, connect: Connect):
    with pytest.raises(InvalidInputError, match="mode must be one of create, existok, overwrite"):
        connect().create_namespace(CreateNamespaceRequest(id=["w", "a"], mode="replace"))
    assert not server.requests


def test_only_children_are_listed(server: ScriptedServer, connect: Connect):
    levels = [["a"], ["a", "b"], ["a", "b", "c"], ["x", "b"], []]
    server.on(*LIST, Reply(body={"namespaces": levels, "next-page-token": None}))
    namespace = connect()
    assert namespace.list_namespaces(ListNamespacesRequest(id=["w"])).namespaces == ["a"]
    assert namespace.list_namespaces(ListNamespacesRequest(id=["w", "a"])).namespaces == ["b"]


def test_the_warehouse_of_the_connection_is_all_that_is_at_the_top(server: ScriptedServer, connect: Connect):
    namespace = connect(warehouse="w")
    assert namespace.list_namespaces(ListNamespacesRequest(id=[])).namespaces == ["w"]
    with pytest.raises(InvalidInputError, match="warehouse 'w', not 'v'"):
        namespace.list_namespaces(ListNamespacesRequest(id=["v"]))
    with pytest.raises(InvalidInputError, match="at least: warehouse"):
        connect().list_namespaces(ListNamespacesRequest(id=[]))
    assert not server.requests


def test_exists(server: ScriptedServer, connect: Connect):
    server.on("GET", ONE, OLD, Reply(404))
    namespace = connect()
    namespace.namespace_exists(NamespaceExistsRequest(id=["w", "a"]))
    with pytest.raises(NamespaceNotFoundError):
        namespace.namespace_exists(NamespaceExistsRequest(id=["w", "a"]))


def test_the_rest_of_the_interface_is_unsupported(connect: Connect):
    with pytest.raises(UnsupportedOperationError):
        connect().create_table_tag(CreateTableTagRequest(id=["w", "a", "t"], tag="x", version=1))
