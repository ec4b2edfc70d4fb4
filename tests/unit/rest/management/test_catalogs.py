"""Catalogs, as a client sees them."""

from __future__ import annotations

PATH = "/management/v1/catalogs/floecat"


def test_a_catalog_is_shown_and_changed(client, opened_kernel):
    shown = client.get(PATH)
    assert shown.json() == {
        "name": "floecat",
        "storage-location": opened_kernel.settings.warehouse_location,
        "allowed-locations": [],
        "properties": {},
    }
    assert client.post(PATH, json={}).json() == shown.json()
    for body, status, text in (
        ({"add-locations": ["s3://secrets"]}, 403, "not within the allowed locations: s3://secrets"),
        ({"remove-locations": ["s3://x"]}, 400, "no such allowed location"),
        ({"add-location": ["s3://x"]}, 400, "add-location"),
    ):
        answer = client.post(PATH, json=body)
        assert answer.status_code == status
        assert text in answer.json()["error"]["message"]


def test_an_empty_catalog_is_deleted(client, opened_kernel):
    account = opened_kernel.settings.gateway.default_account_id
    location = f"{opened_kernel.settings.warehouse_location}-short"
    opened_kernel.catalogs.create(account, "short", location)
    path = "/management/v1/catalogs/short"
    assert client.post("/v1/short/namespaces", json={"namespace": ["ns"]}).is_success
    refused = client.delete(path)
    assert refused.status_code == 409
    assert refused.json()["error"]["message"] == "Catalog short is not empty (namespaces: 1)"
    assert client.delete("/v1/short/namespaces/ns").is_success
    assert client.delete(path).status_code == 204
    assert client.get(path).status_code == 404
    assert client.delete(path).status_code == 404
