"""Registration of tables by their location, as a client sends it."""

from __future__ import annotations

import pytest

from floecat.errors import FloecatError, InvalidDeltaTableError, UnavailableError, UnsupportedDeltaTableError


def path(namespace):
    return f"/management/v1/catalogs/floecat/namespaces/{namespace}/tables"


def body(location, /, **changes):
    return {"name": "d", "format": "delta", "location": location} | changes


def test_the_answer_tells_what_was_registered(client, namespace, engine, delta_table):
    engine.problem = UnsupportedDeltaTableError("reader feature someFutureFeature")
    location = delta_table()
    answer = client.post(path(namespace), json=body(location))
    assert answer.status_code == 201
    made = answer.json()
    assert len(made.pop("table-uuid")) == 36
    assert len(made.pop("id")) == 36
    assert made == {
        "identifier": {"namespace": [namespace], "name": "d"},
        "format": "delta",
        "location": location,
        "snapshot-id": None,
        "problem": {"type": "UnsupportedOperationException", "message": "reader feature someFutureFeature"},
    }
    listed = client.get(f"/v1/floecat/namespaces/{namespace}/tables").json()
    assert listed["identifiers"] == [made["identifier"]]


@pytest.mark.parametrize(
    ("problem", "status", "kind"),
    [
        (InvalidDeltaTableError("version 3 is missing"), 400, "IllegalArgumentException"),
        (UnsupportedDeltaTableError("feature x"), 406, "UnsupportedOperationException"),
        (UnavailableError("busy", retry_after_s=7), 503, "ServiceUnavailableException"),
    ],
)
def test_a_load_is_answered_with_the_same_problem(
    client, namespace, engine, delta_table, problem, status, kind
):
    engine.problem = problem
    registered = client.post(path(namespace), json=body(delta_table())).json()
    assert registered["problem"] == {"type": kind, "message": problem.message}
    answer = client.get(f"/v1/floecat/namespaces/{namespace}/tables/d")
    assert answer.status_code == status
    assert answer.json()["error"] == {"message": problem.message, "type": kind, "code": status}
    assert answer.headers.get("retry-after") == ("7" if status == 503 else None)
    assert client.head(f"/v1/floecat/namespaces/{namespace}/tables/d").status_code == 204


def test_a_fault_is_not_told_to_clients(client, namespace, engine, delta_table):
    engine.problem = FloecatError("postgresql://user:secret@host")
    problem = client.post(path(namespace), json=body(delta_table())).json()["problem"]
    assert problem["type"] == "InternalServerError"
    assert "secret" not in problem["message"]


def test_refusals_have_the_shape_of_every_error(client, namespace, engine, delta_table):
    location = delta_table()
    for changes, status, kind, text in [
        ({"format": "hudi"}, 400, "BadRequestException", "known: delta"),
        ({"format-version": 1}, 400, "BadRequestException", "version 2 or 3"),
        ({"format-version": "2"}, 400, "BadRequestException", "format-version"),
        ({"location": "s3://elsewhere/t"}, 403, "ForbiddenException", "allowed locations"),
        ({"location": "elsewhere"}, 400, "BadRequestException", "absolute"),
        ({"location": location + "2"}, 400, "BadRequestException", "no Delta table at"),
        ({"name": ""}, 400, "BadRequestException", "name"),
        ({"name": None}, 400, "BadRequestException", "name"),
    ]:
        answer = client.post(path(namespace), json=body(location, **changes))
        assert answer.status_code == status, answer.text
        error = answer.json()["error"]
        assert (error["type"], error["code"]) == (kind, status)
        assert text in error["message"]
    missing = client.post(path("none"), json=body(location)).json()["error"]
    assert missing["type"] == "NoSuchNamespaceException"
    unknown = client.post(path(namespace).replace("floecat", "none"), json=body(location)).json()["error"]
    assert unknown["type"] == "NoSuchWarehouseException"
    assert client.get(f"/v1/floecat/namespaces/{namespace}/tables").json()["identifiers"] == []


def test_a_name_that_is_taken(client, namespace, table, engine, delta_table):
    answer = client.post(path(namespace), json=body(delta_table(), name="t"))
    assert answer.status_code == 409
    assert answer.json()["error"]["message"] == f"Table already exists: {namespace}.t"


def test_a_key_is_for_one_request(client, namespace, engine, delta_table):
    headers = {"idempotency-key": "0190a1b2-0000-7000-8000-0000000000d1"}
    location = delta_table()
    first, again = (client.post(path(namespace), json=body(location), headers=headers) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json()["table-uuid"] == again.json()["table-uuid"]
    other = client.post(path(namespace), json=body(location, name="e"), headers=headers)
    assert other.status_code == 409


def test_nested_namespaces(client, namespace, engine, delta_table):
    client.post("/v1/namespaces", json={"namespace": [namespace, "a b"]}).raise_for_status()
    answer = client.post(path(f"{namespace}%1Fa%20b"), json=body(delta_table()))
    assert answer.json()["identifier"] == {"namespace": [namespace, "a b"], "name": "d"}


def test_management_is_no_part_of_the_iceberg_endpoints(client):
    endpoints = client.get("/v1/config").json()["endpoints"]
    assert not [endpoint for endpoint in endpoints if "management" in endpoint]
