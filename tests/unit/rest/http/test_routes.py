from __future__ import annotations

import pytest
from litestar import Litestar, get, post
from litestar.routes import HTTPRoute

from floecat.errors import NotFoundError
from floecat_rest.http.routes import RouteTable


@get(
    [
        "/",
        "/v1/config",
        "/v1/{prefix:str}/namespaces",
        "/v1/{prefix:str}/namespaces/{namespace:str}",
        "/v1/{prefix:str}/namespaces/{namespace:str}/tables/{plan-id:str}",
    ],
    sync_to_thread=False,
)
def read() -> None:
    """Answers."""


@post("/v1/{prefix:str}/namespaces", sync_to_thread=False)
def write() -> None:
    """Answers, too."""


@pytest.fixture(scope="module")
def table() -> RouteTable[str]:
    found: RouteTable[str] = RouteTable()
    for route in Litestar([read, write], openapi_config=None).routes:
        assert isinstance(route, HTTPRoute)
        found.add(route, {method: f"{method} {route.path}" for method in route.methods})
    return found


@pytest.mark.parametrize(
    ("path", "template", "parameters"),
    [
        ("/", "/", {}),
        ("/v1/config", "/v1/config", {}),
        ("/v1/config/namespaces", "/v1/{prefix}/namespaces", {"prefix": "config"}),
        ("/v1/a/namespaces", "/v1/{prefix}/namespaces", {"prefix": "a"}),
        ("/v1/a/namespaces/%2F", "/v1/{prefix}/namespaces/{namespace}", {"prefix": "a", "namespace": "%2F"}),
        (
            "/v1/namespaces/namespaces/tables/tables/namespaces",
            "/v1/{prefix}/namespaces/{namespace}/tables/{plan-id}",
            {"prefix": "namespaces", "namespace": "tables", "plan-id": "namespaces"},
        ),
    ],
)
def test_a_path_is_found_by_its_segments(table, path, template, parameters):
    methods, found, values = table.find(path)
    assert (found, values) == (template, parameters)
    assert methods["GET"].startswith("GET /")


def test_a_path_has_the_methods_of_all_its_handlers(table):
    assert set(table.find("/v1/a/namespaces")[0]) == {"GET", "POST", "OPTIONS"}
    assert set(table.find("/v1/config")[0]) == {"GET", "OPTIONS"}


@pytest.mark.parametrize("path", ["/v1", "/v1/a", "/v1/config/x", "/v2", "/v1/a/namespaces/n/tables", "/a"])
def test_other_paths_are_unknown(table, path):
    with pytest.raises(NotFoundError, match=f"Path does not exist: {path}"):
        table.find(path)
