"""What is served, held against the pinned specification."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from litestar import Litestar
from litestar.routes import HTTPRoute

from floecat_rest.app import CONTROLLERS
from floecat_rest.http.requests import CatalogRequest
from floecat_rest.iceberg.config import served_endpoints

PINNED = Path(__file__).parents[3] / "floecat_rest" / "openapi" / "rest-catalog-open-api.yaml"

REFUSED = {"POST /v1/oauth/tokens"}
OLDER = {"POST /v1/aws/s3/sign"}
"""What clients of before the specification ask."""
METHODS = {"get", "head", "post", "put", "delete", "patch"}


@pytest.fixture(scope="module")
def specified():
    document = yaml.load(PINNED.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return {
        f"{method.upper()} {path}": operation
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if method in METHODS
    }


@pytest.fixture(scope="module")
def routes():
    app = Litestar(CONTROLLERS, request_class=CatalogRequest, openapi_config=None)
    return [route for route in app.routes if isinstance(route, HTTPRoute)]


@pytest.fixture(scope="module")
def handlers(routes):
    return {
        f"{method} {route.path.replace(':str', '')}": handler
        for route in routes
        if route.path.startswith("/v1/")
        for handler in route.route_handlers
        for method in handler.http_methods
        if method != "OPTIONS" and f"{method} {route.path}" not in OLDER
    }


def test_all_of_the_specification_is_served(specified, handlers):
    assert set(handlers) == set(specified)


def test_the_endpoints_are_what_is_served(routes, handlers):
    endpoints = served_endpoints(routes)
    assert len(endpoints) == len(set(endpoints))
    assert set(endpoints) == set(handlers) - REFUSED


def test_operations_have_the_names_of_the_specification(specified, handlers):
    for endpoint, handler in handlers.items():
        assert handler.operation_id == specified[endpoint]["operationId"]


def test_operations_succeed_with_the_status_of_the_specification(specified, handlers):
    for endpoint in set(handlers) - REFUSED:
        successes = {
            int(status) for status in specified[endpoint]["responses"] if str(status).startswith("2")
        }
        assert {handlers[endpoint].status_code} == successes, endpoint


def test_operations_that_touch_the_store_run_in_threads(handlers):
    # loads and drops choose their threads themselves, by what they need
    table = "/v1/{prefix}/namespaces/{namespace}/tables/{table}"
    for endpoint in set(handlers) - REFUSED - {f"GET {table}", f"DELETE {table}"}:
        assert handlers[endpoint].sync_to_thread is True, endpoint


def test_every_listed_endpoint_is_routed(client):
    listed = client.get("/v1/config").json()["endpoints"]
    for endpoint in listed:
        method, template = endpoint.split(" ")
        path = template.replace("{prefix}", "floecat").replace("{", "some-").replace("}", "")
        answer = client.request(method, path, content=b"!" if method == "POST" else None)
        assert answer.status_code not in {405, 500}, endpoint
        if answer.status_code == 404 and method != "HEAD":
            assert answer.json()["error"]["type"] != "NotFoundException", endpoint
