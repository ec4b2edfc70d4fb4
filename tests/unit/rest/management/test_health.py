from __future__ import annotations

import pytest

from floecat.errors import StoreUnavailableError


def test_live_and_ready(client):
    assert client.get("/health/live").json() == {"status": "live"}
    assert client.get("/health/ready").json() == {"status": "ready"}


def test_not_ready_while_the_store_is_away(client, opened_kernel, monkeypatch):
    def fail():
        raise StoreUnavailableError("The store does not answer")

    monkeypatch.setattr(opened_kernel.store, "ping", fail)
    answer = client.get("/health/ready")
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.json()["error"]["type"] == "ServiceUnavailableException"
    assert client.get("/health/live").status_code == 200


@pytest.mark.parametrize("path", ["/v1/floecat/namespaces", "/nowhere/at/all"])
def test_metrics_count_requests_by_route(client, path):
    client.get(path)
    text = client.get("/metrics").text
    route = "/v1/{prefix}/namespaces" if path.startswith("/v1") else "unmatched"
    assert f'route="{route}"' in text
    assert "/nowhere/at/all" not in text
