from __future__ import annotations

import asyncio

import pytest
from litestar.testing import TestClient

from floecat.identifiers.encoding import NamespaceSeparator
from floecat_rest.http.errors import describe_error
from floecat_rest.http.paths import RawPaths, empty_name_error
from tests.unit.rest.asgi import ask, http_scope

CATALOG = "/v1/c/namespaces"
READS_AND_DROPS = ["GET", "HEAD", "DELETE"]

NAMESPACES = ["", "%1F", "%1f", "a%1F", "%1Fa", "a%1F%1Fb", ".", "a.", ".a", "a..b", "a%2E%2Eb", "a%2e"]
"""Each with an empty level, where the separator is a dot."""


async def echo(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["path"].encode(), "more_body": False})


def route(path, method="GET", /, **changes):
    app = RawPaths(echo, default_prefix="lake house")
    return asyncio.run(ask(app, http_scope(path, method) | changes))


@pytest.mark.parametrize(
    "path",
    [
        "/v1/c/namespaces/a%2Fb",
        "/v1/c/namespaces/a%1Fb/tables/t%20t",
        "/v1/c/namespaces/a+b",
        "/v1/c/namespaces/a%2Bb",
        "/v1/c/namespaces/a%2520b",
        "/v1/c/namespaces/..",
        "/v1/c/namespaces/a/",
        "/v1/c/namespaces//tables/db",
        "/v1/config",
        "/health/live",
    ],
)
def test_the_path_is_routed_as_it_was_sent(path):
    assert route(path).body.decode() == path


def test_the_decoded_path_of_the_server_is_not_used():
    scope = {"path": "/v1/c/namespaces/a/b", "raw_path": b"/v1/c/namespaces/a%2Fb"}
    assert route("/", **scope).body == b"/v1/c/namespaces/a%2Fb"


@pytest.mark.parametrize(
    ("sent", "routed"),
    [
        ("/v1/namespaces", "/v1/lake%20house/namespaces"),
        ("/v1/namespaces/", "/v1/lake%20house/namespaces/"),
        ("/v1/namespaces/namespaces/tables/tables", "/v1/lake%20house/namespaces/namespaces/tables/tables"),
        ("/v1/tables/rename", "/v1/lake%20house/tables/rename"),
        ("/v1/views/rename", "/v1/lake%20house/views/rename"),
        ("/v1/transactions/commit", "/v1/lake%20house/transactions/commit"),
        ("/v1/namespacesx/namespaces", "/v1/namespacesx/namespaces"),
        ("/v1/c/namespaces/v1/tables/namespaces", "/v1/c/namespaces/v1/tables/namespaces"),
        ("/x/v1/namespaces", "/x/v1/namespaces"),
    ],
)
def test_a_path_without_prefix_means_the_default_one(sent, routed):
    assert route(sent).body.decode() == routed


@pytest.mark.parametrize(
    ("sent", "routed"),
    [
        ("//v1/config", "/v1/config"),
        ("/v1//namespaces", "/v1/lake%20house/namespaces"),
        ("///v1///config", "/v1/config"),
        ("//v1//namespaces//tables/db", "/v1/lake%20house/namespaces//tables/db"),
    ],
)
def test_slashes_that_sloppy_base_urls_make_are_harmless(sent, routed):
    assert route(sent).body.decode() == routed


def test_bytes_beyond_ascii_count_as_percent_encoded():
    assert route("/v1/c/namespaces/é").body == b"/v1/c/namespaces/%C3%A9"
    assert route("/", raw_path=b"/v1/c/namespaces/%2F\xff+").body == b"/v1/c/namespaces/%2F%FF+"


def test_a_mounted_application_sees_paths_below_its_root():
    scope = {"raw_path": b"/lake/v1/namespaces", "root_path": "/lake"}
    assert route("/", **scope).body == b"/v1/lake%20house/namespaces"


def test_the_query_is_not_part_of_the_path():
    assert route("/", raw_path=b"/v1/config?warehouse=//x").body == b"/v1/config"


def error_at(method: str, path: str) -> tuple[int, str, str] | None:
    error = empty_name_error(method, path, NamespaceSeparator("."))
    if error is None:
        return None
    described, _ = describe_error(error, "id")
    return described.code, described.type, described.message


@pytest.mark.parametrize("method", READS_AND_DROPS)
@pytest.mark.parametrize("namespace", NAMESPACES)
@pytest.mark.parametrize(
    ("rest", "kind"),
    [
        ("/tables/db", "Table"),
        ("/tables/", "Table"),
        ("/tables/db/credentials", "Table"),
        ("/tables/db/plan/1", "Table"),
        ("/tables/db/metrics", "Table"),
        ("/tables//metrics", "Table"),
        ("/views/db", "View"),
        ("/views/", "View"),
        ("/views/db/more", "View"),
        ("/functions/f", "Namespace"),
        ("", "Namespace"),
        ("/", "Namespace"),
        ("/tables", "Namespace"),
        ("/views", "Namespace"),
        ("/functions", "Namespace"),
        ("/properties", "Namespace"),
        ("/register", "Namespace"),
        ("/nothing/at/all", "Namespace"),
    ],
)
def test_an_empty_namespace_does_not_exist(method: str, namespace: str, rest: str, kind: str) -> None:
    found = error_at(method, f"{CATALOG}/{namespace}{rest}")
    assert found is not None
    assert found[:2] == (404, f"NoSuch{kind}Exception")
    assert found[2].startswith(f"{kind} does not exist: ")


@pytest.mark.parametrize("method", READS_AND_DROPS)
@pytest.mark.parametrize(
    ("collection", "kind"), [("tables", "Table"), ("views", "View"), ("functions", "Function")]
)
@pytest.mark.parametrize("rest", ["/", "//", "//metrics", "//credentials"])
def test_an_empty_name_does_not_exist(method: str, collection: str, kind: str, rest: str) -> None:
    found = error_at(method, f"{CATALOG}/a%1Fb/{collection}{rest}")
    assert found == (404, f"NoSuch{kind}Exception", f"{kind} does not exist: a.b.")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("//tables/my%20db", "Table does not exist: my db"),
        ("/a%1F%1Fb/tables/t", "Table does not exist: a..b.t"),
        ("//tables", "Namespace does not exist: "),
        ("/a%1F/views", "Namespace does not exist: a."),
    ],
)
def test_the_message_names_what_was_meant(path: str, message: str) -> None:
    found = error_at("GET", CATALOG + path)
    assert found is not None
    assert found[2] == message


@pytest.mark.parametrize("path", [f"{CATALOG}/a//", f"{CATALOG}/a/tables/t//more", "/v1/config//", "/a//b"])
def test_other_empty_segments_are_an_unknown_route(path: str) -> None:
    for method in READS_AND_DROPS:
        assert error_at(method, path) == (404, "NotFoundException", "Invalid path: a segment is empty")


@pytest.mark.parametrize("path", ["//tables", "//properties", "/a/tables//metrics", "//tables/t"])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_what_changes_something_is_malformed(method: str, path: str) -> None:
    found = error_at(method, CATALOG + path)
    assert found == (400, "BadRequestException", "Invalid path: a segment is empty")


def test_a_malformed_name_beside_is_still_malformed() -> None:
    for path in ("//tables/%zz", "/a%1F%ff/tables/", "/%1F%zz"):
        found = error_at("GET", CATALOG + path)
        assert found is not None
        assert found[:2] == (400, "BadRequestException")


@pytest.mark.parametrize(
    "path",
    [
        CATALOG,
        f"{CATALOG}/a",
        f"{CATALOG}/a/",
        f"{CATALOG}/a.b/tables",
        f"{CATALOG}/a%1F.b/tables/t",
        f"{CATALOG}/a/tables/t/",
        f"{CATALOG}/tables/views/tables",
        f"{CATALOG}/a/properties/",
        "/v1/config",
        "/",
    ],
)
def test_other_paths_are_passed_on(path: str) -> None:
    for method in (*READS_AND_DROPS, "POST"):
        assert error_at(method, path) is None


def test_posts_with_empty_levels_are_400(client: TestClient) -> None:
    table = {"name": "t", "schema": {"type": "struct", "fields": []}}
    for namespace in ("", "%1F", "a%1F"):
        for path, body in (("tables", table), ("properties", {}), ("register", {}), ("tables/t", {})):
            answer = client.post(f"/v1/namespaces/{namespace}/{path}", json=body)
            assert answer.status_code == 400, (namespace, path)
            assert answer.json()["error"]["type"] == "BadRequestException"


def test_an_empty_parent_is_the_top_level_and_an_empty_level_does_not_exist(
    client: TestClient, namespace: str
) -> None:
    for query in ("", "?parent="):
        names = client.get(f"/v1/namespaces{query}").json()["namespaces"]
        assert [namespace] in names
    for parent in ("%1F", f"{namespace}%1F", f"%1F{namespace}"):
        answer = client.get(f"/v1/namespaces?parent={parent}")
        assert (answer.status_code, answer.json()["error"]["type"]) == (404, "NoSuchNamespaceException")


@pytest.mark.parametrize(
    "query",
    [
        "purgeRequested=false&purgeRequested=true",
        "purgeRequested=false&a=1&purge%52equested=false",
    ],
)
def test_a_parameter_that_is_sent_twice_is_400_and_changes_nothing(
    client: TestClient, table: str, query: str
) -> None:
    answer = client.delete(f"{table}?{query}")
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "BadRequestException")
    assert client.get(f"{table}?snapshots=all&a=1&a=2&&").status_code == 200
