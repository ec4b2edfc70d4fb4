"""Health, metrics, the OpenAPI page, and request ids."""

from __future__ import annotations

import uuid

import pytest

from tests.contract.client import Catalog, Namespace


@pytest.mark.parametrize(("path", "status"), [("/health/live", "live"), ("/health/ready", "ready")])
def test_health(local_catalog: Catalog, path: str, status: str):
    answer = local_catalog.http.get(path)
    assert (answer.status_code, answer.json()) == (200, {"status": status})


def test_metrics_count_requests_by_route_and_never_by_path(
    local_catalog: Catalog, local_namespace: Namespace
):
    local_catalog.get(local_catalog.namespace_path(local_namespace))
    answer = local_catalog.http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    counters = [line for line in answer.text.splitlines() if line.startswith("floecat_http_requests_total{")]
    assert any('status="200"' in line and "{namespace" in line for line in counters)
    assert local_namespace[0] not in answer.text


def test_openapi_document_describes_every_operation_that_is_served(local_catalog: Catalog):
    document = local_catalog.http.get("/schema/iceberg.json").json()
    described = {
        f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods
    }
    assert set(local_catalog.config["endpoints"]) <= described
    assert document["openapi"].startswith("3.")


def test_openapi_page_is_html(local_catalog: Catalog):
    answer = local_catalog.http.get("/schema", follow_redirects=True)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")


def test_request_id_of_the_client_is_answered(local_catalog: Catalog):
    answer = local_catalog.http.get("/v1/config", headers={"x-request-id": "client-chosen-17"})
    assert answer.headers["x-request-id"] == "client-chosen-17"


@pytest.mark.parametrize("sent", [None, "spaces are refused", "x" * 500])
def test_request_id_is_made_up_when_the_client_sends_none_that_is_sane(
    local_catalog: Catalog, sent: str | None
):
    answer = local_catalog.http.get("/v1/config", headers={"x-request-id": sent} if sent else {})
    assert str(uuid.UUID(answer.headers["x-request-id"])) == answer.headers["x-request-id"]


def test_server_does_not_name_its_software(local_catalog: Catalog):
    assert "server" not in local_catalog.http.get("/v1/config").headers
