"""Catalogs, as a client sees them."""

from __future__ import annotations

PATHS = "/management/v1/catalogs"
PATH = f"{PATHS}/floecat"


def test_a_catalog_is_shown_and_changed(client, opened_kernel):
    shown = client.get(PATH)
    assert shown.json() == {
        "name": "floecat",
        "storage-location": opened_kernel.settings.warehouse_location,
        "allowed-locations": [],
        "properties": {},
        "protected": False,
        "schema-separator": ":",
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


def test_catalogs_are_created_where_the_operator_allows_it_and_listed(client, opened_kernel):
    place = opened_kernel.settings.warehouse_location
    body = {"name": "made", "storage-location": f"{place}/made"}
    refused = client.post(PATHS, json=body)
    assert refused.status_code == 403
    assert "not within the allowed locations" in refused.json()["error"]["message"]
    account = opened_kernel.settings.gateway.default_account_id
    lakes = opened_kernel.settings.storage.addable_locations[0]
    made = client.post(PATHS, json=body | {"storage-location": f"{lakes}/made"})
    assert (made.status_code, made.json()["storage-location"]) == (201, f"{lakes}/made")
    assert made.json() == client.get(f"{PATHS}/made").json()
    assert client.post(PATHS, json=body | {"storage-location": f"{lakes}/made"}).status_code == 409
    listed = [catalog["name"] for catalog in client.get(PATHS).json()["catalogs"]]
    assert listed == [catalog.name for catalog in opened_kernel.catalog.catalogs.list(account)]
    paged, token = [], ""
    while token is not None:
        page = client.get(PATHS, params={"pageSize": 1, "pageToken": token}).json()
        paged += [catalog["name"] for catalog in page["catalogs"]]
        token = page["next-page-token"]
    assert paged == listed
    assert client.get(PATHS, params={"pageToken": "other"}).status_code == 400
    assert "made" in listed
    assert client.post(PATHS, json={"name": "made"}).status_code == 400


def test_an_empty_catalog_is_deleted(client, opened_kernel):
    account = opened_kernel.settings.gateway.default_account_id
    location = f"{opened_kernel.settings.warehouse_location}-short"
    opened_kernel.catalog.catalogs.create(account, "short", location)
    path = "/management/v1/catalogs/short"
    assert client.post("/v1/short/namespaces", json={"namespace": ["ns"]}).is_success
    refused = client.delete(path)
    assert refused.status_code == 409
    assert refused.json()["error"]["message"] == "Catalog short is not empty (namespaces: 1)"
    assert client.delete("/v1/short/namespaces/ns").is_success
    assert client.delete(path).status_code == 204
    assert client.get(path).status_code == 404
    assert client.delete(path).status_code == 404
