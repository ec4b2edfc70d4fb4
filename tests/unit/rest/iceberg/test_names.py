"""One meaning for each spelling of a name in a path."""

from __future__ import annotations

import pytest

from tests.unit.rest.conftest import SCHEMA


@pytest.fixture(scope="module")
def names(client):
    levels = [["a b"], ["a+b"], ["a%20b"], ["a/b"], ["a", "b"], ["é"], ["namespaces"], ["a%2Fb"]]
    for namespace in levels:
        assert client.post("/v1/namespaces", json={"namespace": namespace}).status_code in {200, 409}
    return levels


@pytest.mark.parametrize(
    ("segment", "namespace"),
    [
        ("a%20b", ["a b"]),
        ("a%2Bb", ["a+b"]),
        ("a+b", ["a+b"]),
        ("a%2520b", ["a%20b"]),
        ("a%2Fb", ["a/b"]),
        ("a%2fb", ["a/b"]),
        ("a%252Fb", ["a%2Fb"]),
        ("a%1Fb", ["a", "b"]),
        ("a%1fb", ["a", "b"]),
        ("%C3%A9", ["é"]),
        ("namespaces", ["namespaces"]),
    ],
)
@pytest.mark.parametrize("prefix", ["/v1", "/v1/floecat"])
def test_each_spelling_names_one_namespace(client, names, prefix, segment, namespace):
    answer = client.get(f"{prefix}/namespaces/{segment}")
    assert answer.status_code == 200
    assert answer.json()["namespace"] == namespace


def test_a_raw_plus_is_a_space_where_no_literal_plus_exists(client):
    client.post("/v1/namespaces", json={"namespace": ["only space"]})
    assert client.get("/v1/namespaces/only+space").json()["namespace"] == ["only space"]


def test_table_names_follow_the_same_rules(client, namespace):
    tables = f"/v1/namespaces/{namespace}/tables"
    for name in ("x/y", "x y", "x%2Fy", "tables"):
        assert client.post(tables, json={"name": name, "schema": SCHEMA}).status_code == 200
    for segment in ("x%2Fy", "x%20y", "x+y", "x%252Fy", "tables"):
        assert client.head(f"{tables}/{segment}").status_code == 204
    assert client.head(f"{tables}/x%2By").status_code == 404


def test_the_parent_is_encoded_once(client, names):
    assert client.get("/v1/namespaces?parent=a").json()["namespaces"] == [["a", "b"]]
    assert client.get("/v1/namespaces?parent=a%1Fb").json()["namespaces"] == []
    assert client.get("/v1/namespaces?parent=a+b").status_code == 200
    assert client.get("/v1/namespaces?parent=a%25zz").status_code == 404
    assert client.get("/v1/namespaces?parent=").json() == client.get("/v1/namespaces").json()


def test_a_parent_that_pyiceberg_encodes_twice_is_found_and_a_literal_one_first(client):
    for namespace in (["100% x", "one"], ["%31", "literal"], ["1", "decoded"]):
        client.post("/v1/namespaces", json={"namespace": namespace})
    assert client.get("/v1/namespaces?parent=100%2525%2520x").json()["namespaces"] == [["100% x", "one"]]
    assert client.get("/v1/namespaces?parent=%2531").json()["namespaces"] == [["%31", "literal"]]
