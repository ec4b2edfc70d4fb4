"""Protection, as a client sees it."""

from __future__ import annotations

import pytest

from tests.view_documents import view_version

CATALOG = "/management/v1/catalogs/floecat"
SCHEMA = {"type": "struct", "fields": []}


@pytest.mark.parametrize("what", ["/tables/t", "/views/v", ""])
def test_what_is_protected_is_not_dropped(client, what):
    namespace = f"protected%1F{what[1:].replace('/', '-')}x"
    client.post("/v1/floecat/namespaces", json={"namespace": namespace.split("%1F")})
    place = f"/namespaces/{namespace}{what}"
    if what == "/tables/t":
        made = client.post(f"/v1/floecat/namespaces/{namespace}/tables", json={"name": "t", "schema": SCHEMA})
        assert made.is_success, made.text
    elif what:
        view = {"name": "v", "schema": SCHEMA, "view-version": view_version(), "properties": {}}
        made = client.post(f"/v1/floecat/namespaces/{namespace}/views", json=view)
        assert made.is_success, made.text
    protection = f"{CATALOG}{place}/protection"
    assert client.get(protection).json() == {"protected": False}
    assert client.put(protection).json() == {"protected": True}
    assert client.get(protection).json() == {"protected": True}
    for query in ("", "?purgeRequested=true"):
        refused = client.delete(f"/v1/floecat{place}{query}")
        assert refused.status_code == 409
        assert "Protected, so not removed" in refused.json()["error"]["message"]
    assert client.delete(protection).status_code == 204
    assert client.delete(f"/v1/floecat{place}").status_code == 204
    for ask in (client.get, client.put, client.delete):
        assert ask(protection).status_code == 404


def test_a_catalog_is_protected(client, opened_kernel):
    account = opened_kernel.settings.gateway.default_account_id
    opened_kernel.catalog.catalogs.create(
        account, "kept", f"{opened_kernel.settings.warehouse_location}-kept"
    )
    path = "/management/v1/catalogs/kept"
    assert client.put(f"{path}/protection").json() == {"protected": True}
    assert client.get(path).json()["protected"] is True
    assert client.delete(path).status_code == 409
    assert client.delete(f"{path}/protection").status_code == 204
    assert client.delete(path).status_code == 204
