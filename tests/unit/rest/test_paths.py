from __future__ import annotations

import asyncio

import pytest

from floecat_rest.paths import RawPaths
from tests.unit.rest.asgi import ask, http_scope


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
