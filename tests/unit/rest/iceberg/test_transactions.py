from __future__ import annotations

from tests.unit.rest.conftest import SCHEMA


def change(namespace, name, value, requirements=()):
    return {
        "identifier": {"namespace": [namespace], "name": name},
        "requirements": list(requirements),
        "updates": [{"action": "set-properties", "updates": {"p": value}}],
    }


def test_all_tables_change_or_none(client, namespace):
    tables = f"/v1/namespaces/{namespace}/tables"
    for name in ("a", "b"):
        client.post(tables, json={"name": name, "schema": SCHEMA})

    def properties():
        return [
            client.get(f"{tables}/{name}").json()["metadata"].get("properties", {}).get("p") for name in "ab"
        ]

    answer = client.post(
        "/v1/transactions/commit",
        json={"table-changes": [change(namespace, "a", "1"), change(namespace, "b", "1")]},
    )
    assert (answer.status_code, answer.content) == (204, b"")
    assert properties() == ["1", "1"]
    wrong = [{"type": "assert-current-schema-id", "current-schema-id": 5}]
    answer = client.post(
        "/v1/transactions/commit",
        json={"table-changes": [change(namespace, "a", "2"), change(namespace, "b", "2", wrong)]},
    )
    assert answer.status_code == 409
    assert answer.json()["error"]["type"] == "CommitFailedException"
    assert properties() == ["1", "1"]


def test_a_change_without_identifier_is_400(client, namespace):
    answer = client.post(
        "/v1/transactions/commit", json={"table-changes": [{"requirements": [], "updates": []}]}
    )
    assert answer.status_code == 400
    assert "identifier" in answer.json()["error"]["message"]
