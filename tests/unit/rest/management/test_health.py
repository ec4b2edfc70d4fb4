from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from floecat.errors import StoreUnavailableError
from tests.unit.rest.conftest import SCHEMA


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


def test_loads_have_one_label(client):
    client.post("/v1/floecat/namespaces", json={"namespace": ["counted"]})
    tables = "/v1/floecat/namespaces/counted/tables"
    client.post(tables, json={"name": "t", "schema": SCHEMA})

    def counted():
        sample = re.compile(
            r'^floecat_http_requests_total{\S*route="(\S*{table\S*?)",status="\d+"} (\S+)$', re.M
        )
        counts = Counter()
        for route, count in sample.findall(client.get("/metrics").text):
            counts[route] += float(count)
        return counts

    before = counted()
    for name in ("t", "missing"):
        client.get(f"{tables}/{name}")
    assert counted() - before == {"/v1/{prefix}/namespaces/{namespace}/tables/{table}": 2}


def test_commits_and_storage_are_counted(client):
    def counted(sample):
        return float(re.search(rf"^{re.escape(sample)} (\S+)$", client.get("/metrics").text, re.MULTILINE)[1])

    samples = ('floecat_commits_total{outcome="committed"}', 'floecat_storage_requests_total{kind="writes"}')
    before = [counted(sample) for sample in samples]
    client.post("/v1/floecat/namespaces", json={"namespace": ["commits"]})
    client.post("/v1/floecat/namespaces/commits/tables", json={"name": "t", "schema": SCHEMA})
    assert [counted(sample) for sample in samples] == [count + 1 for count in before]
    assert counted('floecat_cache_bytes{cache="documents"}') > 0


def test_operators_read_of_every_metric(client):
    client.get("/v1/config")
    families = text_string_to_metric_families(client.get("/metrics").text)
    served = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in families
        if family.name.startswith("floecat_") and not family.name.endswith("_created")
    }
    page = (Path(__file__).parents[4] / "docs" / "operations.md").read_text(encoding="utf-8")
    assert served == set(re.findall(r"^\| `(floecat_\w+)` \|", page, re.MULTILINE))
