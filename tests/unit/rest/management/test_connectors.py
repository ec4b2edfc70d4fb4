"""Connectors, as a client sees them."""

from __future__ import annotations

from itertools import count

import pytest

from floecat.errors import InvalidDeltaTableError

PATH = "/management/v1/catalogs/floecat/connectors"

_numbers = count()


@pytest.fixture
def name():
    return f"connector{next(_numbers)}"


def connector(client, name, location, /, **changes):
    body = {"name": name, "kind": "delta", "location": location} | changes
    return client.post(PATH, json=body)


def test_made_listed_loaded_and_removed(client, name, delta_table):
    location = delta_table()
    answer = connector(client, name, location, options={"namespaces": "flat"}, interval="PT1H")
    assert answer.status_code == 201
    made = answer.json()
    assert made["created-at-ms"] == made["next-scan-at-ms"]
    shown = {key: value for key, value in made.items() if not key.endswith("-at-ms")}
    assert shown == {
        "name": name,
        "kind": "delta",
        "location": location,
        "namespace": [name],
        "options": {"namespaces": "flat"},
        "credentials": {},
        "policy": {
            "mode": "metadata-and-capture",
            "snapshots": "current",
            "full": False,
            "max-parallel": 4,
            "not-before-ms": None,
            "namespaces": [],
            "tables": [],
        },
        "enabled": True,
        "interval": "PT1H",
        "last-error": None,
        "running-scan": None,
    }
    assert made["last-scan-at-ms"] is None
    assert made in client.get(PATH).json()["connectors"]
    assert client.get(f"{PATH}/{name}").json() == made
    assert client.delete(f"{PATH}/{name}").status_code == 204
    assert client.get(f"{PATH}/{name}").json()["error"] == {
        "message": f"Connector does not exist: {name}",
        "type": "NotFoundException",
        "code": 404,
    }


def test_pages(client, delta_table):
    location = delta_table()
    for name in ("page a", "page b"):
        assert connector(client, name, location).status_code == 201
    listed = [each["name"] for each in client.get(PATH).json()["connectors"]]
    paged, token = [], ""
    while token is not None:
        page = client.get(PATH, params={"pageSize": 1, "pageToken": token}).json()
        paged += [each["name"] for each in page["connectors"]]
        token = page["next-page-token"]
    assert paged == listed
    assert {"page a", "page b"} <= set(listed)


def test_names_that_need_encoding(client, delta_table):
    location = delta_table()
    for spelled in ("a b/c", "ü%", "1+1"):
        assert connector(client, spelled, location).status_code == 201
    for spelled in ("a%20b%2Fc", "%C3%BC%25", "1%2B1"):
        assert client.get(f"{PATH}/{spelled}").status_code == 200
        assert client.delete(f"{PATH}/{spelled}").status_code == 204


def test_a_scan_tells_what_became_of_each_table(client, name, engine, delta_table, namespace):
    engine.problem = InvalidDeltaTableError("version 3 is missing")
    known, new, taken = (delta_table(f"{name}/{table}") for table in ("known", "new", "t"))
    tables = f"/management/v1/catalogs/floecat/namespaces/{namespace}/tables"
    client.post(tables, json={"name": "k", "format": "delta", "location": known}).raise_for_status()
    schema = {"type": "struct", "fields": []}
    path = f"/v1/floecat/namespaces/{namespace}/tables"
    client.post(path, json={"name": "t", "schema": schema}).raise_for_status()
    connector(client, name, known.rpartition("/")[0], namespace=[namespace]).raise_for_status()
    report = client.post(f"{PATH}/{name}/scan")
    assert report.status_code == 200
    body = report.json()
    assert [(each["identifier"]["name"], each["location"]) for each in body["registered"]] == [("new", new)]
    assert body["registered"][0]["problem"] == {
        "type": "IllegalArgumentException",
        "message": "version 3 is missing",
    }
    assert body["skipped"] == [{"identifier": {"namespace": [namespace], "name": "k"}, "location": known}]
    assert body["failed"] == [
        {
            "identifier": {"namespace": [namespace], "name": "t"},
            "location": taken,
            "problem": {"type": "AlreadyExistsException", "message": f"Table already exists: {namespace}.t"},
        }
    ]
    assert body["problem"] is None
    again = client.post(f"{PATH}/{name}/scan").json()
    assert (again["registered"], len(again["skipped"]), len(again["failed"])) == ([], 2, 1)
    assert "1 failed" in client.get(f"{PATH}/{name}").json()["last-error"]


@pytest.mark.parametrize(
    ("changes", "status", "text"),
    [
        ({"kind": "hudi"}, 400, "known: delta"),
        ({"kind": "os:system"}, 400, "known: delta"),
        ({"interval": "ten minutes"}, 400, "ISO-8601"),
        ({"interval": "PT1S"}, 400, "at least 10 seconds"),
        ({"options": {"nested": "yes"}}, 400, "known: namespaces"),
        ({"options": {"max-depth": 3}}, 400, "options"),
        ({"namespace": [""]}, 400, "namespace"),
        ({"namespace": "a"}, 400, "namespace"),
        ({"location": "s3://elsewhere"}, 403, "allowed locations"),
        ({"name": ""}, 400, "name"),
    ],
)
def test_what_is_refused(client, name, delta_table, changes, status, text):
    answer = connector(client, name, delta_table(), **changes)
    assert answer.status_code == status, answer.text
    assert text in answer.json()["error"]["message"]
    assert client.get(f"{PATH}/{name}").status_code == 404


def test_a_name_is_taken(client, name, delta_table):
    location = delta_table()
    connector(client, name, location).raise_for_status()
    answer = connector(client, name, location)
    assert answer.status_code == 409
    assert answer.json()["error"]["type"] == "AlreadyExistsException"


def test_what_does_not_exist(client):
    for method, path in [("GET", ""), ("DELETE", ""), ("POST", "/scan")]:
        answer = client.request(method, f"{PATH}/none{path}")
        assert answer.json()["error"]["type"] == "NotFoundException"
    assert client.get(PATH.replace("floecat", "none")).json()["error"]["type"] == "NoSuchWarehouseException"
