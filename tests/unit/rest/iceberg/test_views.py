from __future__ import annotations

import pytest

from tests.unit.rest.conftest import SCHEMA

VERSION = {
    "version-id": 1,
    "timestamp-ms": 1_700_000_000_000,
    "schema-id": 99,
    "summary": {"engine-name": "test"},
    "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
    "default-namespace": [],
}


@pytest.fixture
def view(client, namespace):
    body = {"name": "v", "schema": SCHEMA | {"schema-id": 7}, "view-version": VERSION, "properties": {}}
    answer = client.post(f"/v1/namespaces/{namespace}/views", json=body)
    assert answer.status_code == 200
    return f"/v1/namespaces/{namespace}/views/v"


def test_a_view_is_loaded_as_it_was_created(client, view):
    answer = client.get(view)
    assert set(answer.json()) == {"metadata-location", "metadata", "config"}
    metadata = answer.json()["metadata"]
    assert metadata["versions"][0]["schema-id"] == metadata["schemas"][0]["schema-id"] == 0
    assert metadata["versions"][0]["default-namespace"] == []
    assert "etag" not in answer.headers
    assert client.head(view).status_code == 204


def test_replace(client, view):
    body = {"updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    assert client.post(view, json=body).json()["metadata"]["properties"] == {"a": "b"}
    assert client.post(view, json={"updates": [{"action": "explode"}]}).status_code == 400
    wrong = {"requirements": [{"type": "assert-view-uuid", "uuid": "0198c7a0-0000-7000-8000-000000000000"}]}
    assert client.post(view, json=body | wrong).status_code == 409


def test_rename_drop_and_register(client, view, namespace):
    location = client.get(view).json()["metadata-location"]
    renamed = {
        "source": {"namespace": [namespace], "name": "v"},
        "destination": {"namespace": [namespace], "name": "w"},
    }
    assert client.post("/v1/views/rename", json=renamed).status_code == 204
    views = f"/v1/namespaces/{namespace}/views"
    assert client.get(views).json()["identifiers"] == [{"namespace": [namespace], "name": "w"}]
    assert client.delete(f"{views}/w").status_code == 204
    register = f"/v1/namespaces/{namespace}/register-view"
    assert client.post(register, json={"name": "x", "metadata-location": location}).status_code == 200
    assert client.head(f"{views}/x").status_code == 204
