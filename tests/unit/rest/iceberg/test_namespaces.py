from __future__ import annotations

import pytest


def test_a_namespace_from_creation_to_removal(client):
    body = {"namespace": ["life", "cycle"], "properties": {"owner": "me"}}
    made = client.post("/v1/namespaces", json=body).json()
    assert made["properties"].pop("location").endswith("/life/cycle")
    assert made == body
    path = "/v1/namespaces/life%1Fcycle"
    changed = client.post(f"{path}/properties", json={"removals": ["owner", "none"], "updates": {"a": "b"}})
    assert changed.json() == {"updated": ["a"], "removed": ["owner"], "missing": ["none"]}
    assert client.get(path).json()["properties"].keys() == {"a", "location"}
    assert client.head(path).status_code == 204
    assert client.delete("/v1/namespaces/life").status_code == 409
    answer = client.delete(path)
    assert (answer.status_code, answer.content) == (204, b"")
    assert client.head(path).status_code == 404


def test_a_property_that_is_set_and_removed_is_422(client, namespace):
    answer = client.post(
        f"/v1/namespaces/{namespace}/properties", json={"removals": ["a"], "updates": {"a": "b"}}
    )
    assert answer.status_code == 422
    assert answer.json()["error"]["type"] == "UnprocessableEntityException"


def test_nulls_that_clients_send_for_nothing_are_taken(client):
    assert client.post("/v1/namespaces", json={"namespace": ["nulls"], "properties": None}).status_code == 200
    path = "/v1/namespaces/nulls/properties"
    assert client.post(path, json={"removals": None, "updates": {"a": "b"}}).status_code == 200


@pytest.mark.parametrize("location", ["file:///etc", "s3://elsewhere/x", "relative", "file:///w/../x", ""])
def test_a_location_outside_the_allowed_ones_is_400(client, namespace, location):
    before = client.get(f"/v1/namespaces/{namespace}").json()
    created = client.post(
        "/v1/namespaces", json={"namespace": ["outside"], "properties": {"location": location}}
    )
    changed = client.post(f"/v1/namespaces/{namespace}/properties", json={"updates": {"location": location}})
    assert (created.status_code, changed.status_code) == (400, 400)
    assert client.head("/v1/namespaces/outside").status_code == 404
    assert client.get(f"/v1/namespaces/{namespace}").json() == before


def test_a_location_inside_is_taken_and_can_be_removed(client, namespace, settings):
    path = f"/v1/namespaces/{namespace}/properties"
    default = client.get(f"/v1/namespaces/{namespace}").json()["properties"]["location"]
    assert default == f"{settings.warehouse_location}/{namespace}"
    assert client.post(path, json={"removals": ["location"]}).json()["missing"] == ["location"]
    inside = f"{settings.warehouse_location}/placed/"
    assert client.post(path, json={"updates": {"location": inside}}).json()["updated"] == ["location"]
    told = client.get(f"/v1/namespaces/{namespace}").json()["properties"]["location"]
    assert told == inside.rstrip("/")
    assert client.post(path, json={"removals": ["location"], "updates": {}}).json()["removed"] == ["location"]
    assert client.get(f"/v1/namespaces/{namespace}").json()["properties"]["location"] == default
