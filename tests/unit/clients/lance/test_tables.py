"""Lists of tables from catalogs that know the filter and from others, and what is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from lance_namespace import (
    DeclareTableRequest,
    DeregisterTableRequest,
    DescribeTableRequest,
    ListTablesRequest,
    TableExistsRequest,
)
from lance_namespace.errors import InternalError, InvalidInputError, TableNotFoundError

from floecat.clients.lance import IcebergRestNamespace
from tests.unit.clients.lance.scripted_server import Reply, ScriptedServer

Connect = Callable[..., IcebergRestNamespace]

LIST = ("GET", "/v1/p/namespaces/a/tables")
DELEGATION = "X-Iceberg-Access-Delegation"


def table(name: str, **properties: str) -> Reply:
    return Reply(body={"metadata": {"location": f"s3://lake/w/a/{name}", "properties": properties}})


def page(*names: str, **fields: Any) -> Reply:
    identifiers = [{"namespace": ["a"], "name": name} for name in names]
    return Reply(body={"identifiers": identifiers, **{key.replace("_", "-"): fields[key] for key in fields}})


def on_tables(server: ScriptedServer, **answers: Reply) -> None:
    for name, answer in answers.items():
        server.on("GET", f"/v1/p/namespaces/a/tables/{name}", answer)


def listed(namespace: IcebergRestNamespace, **fields: Any) -> tuple[list[str], str | None]:
    answer = namespace.list_tables(ListTablesRequest(id=["w", "a"], **fields))
    return answer.tables, answer.page_token


def test_a_catalog_that_filters_is_asked_once_for_a_page(server: ScriptedServer, connect: Connect):
    server.on(*LIST, page("x", "y", table_type="lance", next_page_token="2"), page("z", table_type="lance"))
    assert listed(connect()) == (["x", "y", "z"], None)
    assert [each.query for each in server.sent(*LIST)] == [
        "tableType=lance",
        "tableType=lance&pageToken=2",
    ]
    assert len(server.requests) == 3


def test_of_another_catalog_every_table_is_loaded(server: ScriptedServer, connect: Connect):
    server.on(*LIST, page("iceberg", "upper", "gone", "secret", "lower"))
    on_tables(
        server,
        iceberg=table("iceberg", table_type="ICEBERG"),
        upper=table("upper", table_type="LANCE"),
        gone=Reply(404),
        secret=Reply(403),
        lower=table("lower", table_type="lance"),
    )
    assert listed(connect()) == (["upper", "lower"], None)
    assert {each.query for each in server.requests if each.path.endswith("/upper")} == {"snapshots=refs"}


def test_a_table_that_cannot_be_loaded_fails_the_list(server: ScriptedServer, connect: Connect):
    server.on(*LIST, page("broken"))
    on_tables(server, broken=Reply(500))
    with pytest.raises(InternalError):
        listed(connect())


def test_pages_are_filled_over_those_of_the_catalog(server: ScriptedServer, connect: Connect):
    server.on(*LIST, page("i", "x", next_page_token="2"), page("y", "z"))
    on_tables(
        server,
        i=table("i"),
        x=table("x", table_type="lance"),
        y=table("y", table_type="lance"),
        z=table("z", table_type="lance"),
    )
    names, token = listed(connect(), limit=2)
    assert names == ["x", "y"]
    assert [each.query for each in server.sent(*LIST)] == [
        "tableType=lance&pageToken=&pageSize=2",
        "tableType=lance&pageToken=2&pageSize=2",
    ]
    server.on(*LIST, page("y", "z"))
    assert listed(connect(), limit=2, page_token=token) == (["z"], None)


def test_declare(server: ScriptedServer, connect: Connect):
    server.on("POST", "/v1/p/namespaces/a%1Fb/tables", table("t", table_type="lance", owner="me"))
    made = connect().declare_table(
        DeclareTableRequest(id=["w", "a", "b", "t x"], properties={"owner": "me", "table_type": "other"})
    )
    [sent] = server.sent("POST", "/v1/p/namespaces/a%1Fb/tables")
    assert sent.json() == {
        "name": "t x",
        "location": "s3://lake/w/a/b/t~20x",
        "schema": {
            "type": "struct",
            "schema-id": 0,
            "fields": [{"id": 1, "name": "dummy", "required": False, "type": "string"}],
        },
        "properties": {"owner": "me", "table_type": "lance"},
    }
    assert sent.headers[DELEGATION] == "vended-credentials"
    assert made.location == "s3://lake/w/a/t"
    assert made.properties == {"owner": "me", "table_type": "lance"}
    assert made.storage_options == {"owner": "me"}


@pytest.mark.parametrize(("root", "location"), [("", None), ("s3://lake", "s3://lake/w/a/t")])
def test_where_a_table_is_declared(server: ScriptedServer, connect: Connect, root: str, location: str | None):
    server.on("POST", LIST[1], table("t", table_type="lance"))
    namespace = connect(root=root)
    namespace.declare_table(DeclareTableRequest(id=["w", "a", "t"]))
    namespace.declare_table(DeclareTableRequest(id=["w", "a", "t"], location="s3://elsewhere/t"))
    sent = [each.json().get("location") for each in server.sent("POST", LIST[1])]
    assert sent == [location, "s3://elsewhere/t"]


@pytest.mark.parametrize(("wish", "header"), [(None, True), (True, True), (False, False)])
def test_credentials_are_asked_for_unless_they_are_not_wanted(
    server: ScriptedServer, connect: Connect, wish: bool | None, header: bool
):
    on_tables(server, t=table("t", table_type="lance"))
    connect().describe_table(DescribeTableRequest(id=["w", "a", "t"], vend_credentials=wish))
    assert (DELEGATION in server.requests[-1].headers) is header


def test_an_iceberg_table_is_no_lance_table(server: ScriptedServer, connect: Connect):
    on_tables(server, t=table("t"))
    namespace = connect()
    for operation, request in (
        (namespace.describe_table, DescribeTableRequest(id=["w", "a", "t"])),
        (namespace.deregister_table, DeregisterTableRequest(id=["w", "a", "t"])),
        (namespace.table_exists, TableExistsRequest(id=["w", "a", "t"])),
    ):
        with pytest.raises(InvalidInputError, match=r"w\.a\.t is not a Lance table"):
            operation(request)
    assert {each.method for each in server.requests} == {"GET"}


@pytest.mark.parametrize(
    ("operation", "request_", "name", "value"),
    [
        ("describe_table", DescribeTableRequest, "load_detailed_metadata", True),
        ("describe_table", DescribeTableRequest, "version", 0),
        ("describe_table", DescribeTableRequest, "version", 3),
        ("describe_table", DescribeTableRequest, "tag", "x"),
        ("describe_table", DescribeTableRequest, "branch", "main"),
        ("describe_table", DescribeTableRequest, "with_table_uri", True),
        ("describe_table", DescribeTableRequest, "identity", {"auth_token": "t"}),
        ("table_exists", TableExistsRequest, "version", 3),
        ("declare_table", DeclareTableRequest, "identity", {"api_key": "k"}),
    ],
)
def test_what_is_not_offered_is_refused_by_name(
    server: ScriptedServer, connect: Connect, operation: str, request_: Any, name: str, value: Any
):
    """Nothing is sent; `False`, which asks for nothing, is taken."""
    with pytest.raises(InvalidInputError, match=f"{name} of a {request_.__name__} is not supported"):
        getattr(connect(), operation)(request_(id=["w", "a", "t"], **{name: value}))
    assert server.requests == []
    on_tables(server, t=table("t", table_type="lance"))
    plain: Any = {"id": ["w", "a", "t"], "load_detailed_metadata": False, "with_table_uri": False}
    assert connect().describe_table(plain).location == "s3://lake/w/a/t"


def test_deregister_purges_nothing(server: ScriptedServer, connect: Connect):
    on_tables(server, t=table("t", table_type="lance", owner="me"))
    server.on("DELETE", "/v1/p/namespaces/a/tables/t", Reply(204), Reply(404))
    namespace = connect()
    removed = namespace.deregister_table(DeregisterTableRequest(id=["w", "a", "t"]))
    assert server.requests[-1].query == "purgeRequested=false"
    assert (removed.id, removed.location) == (["w", "a", "t"], "s3://lake/w/a/t")
    with pytest.raises(TableNotFoundError):  # another one was faster
        namespace.deregister_table(DeregisterTableRequest(id=["w", "a", "t"]))


@pytest.mark.parametrize("body", [{}, {"metadata": {}}, {"metadata": {"location": 1}}])
def test_an_answer_without_a_table(server: ScriptedServer, connect: Connect, body: Any):
    on_tables(server, t=Reply(body=body))
    with pytest.raises(InternalError, match="cannot be read"):
        connect().describe_table(DescribeTableRequest(id=["w", "a", "t"]))
