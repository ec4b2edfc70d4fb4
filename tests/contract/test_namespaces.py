"""Namespaces: creation, listing, existence, removal, properties."""

from __future__ import annotations

import pytest

from tests.contract.answers import assert_error
from tests.contract.client import Catalog, Namespace, as_sent, unique
from tests.contract.documents import ID_AND_DATA
from tests.contract.updates import set_properties


def test_create_answers_namespace_and_properties(catalog: Catalog, namespace: Namespace):
    name = [*namespace, "child"]
    answer = catalog.post("/namespaces", {"namespace": name, "properties": {"owner": "ann", "empty": ""}})
    assert answer.status_code == 200
    assert as_sent(answer) == {"namespace": name, "properties": {"owner": "ann", "empty": ""}}


@pytest.mark.parametrize("properties", [{}, {"properties": None}, {"properties": {}}])
def test_create_without_properties(catalog: Catalog, namespace: Namespace, properties: dict):
    name = [*namespace, "child"]
    answer = catalog.post("/namespaces", {"namespace": name} | properties)
    assert as_sent(answer) == {"namespace": name, "properties": {}}
    assert as_sent(catalog.get(catalog.namespace_path(name))) == {"namespace": name, "properties": {}}


def test_create_of_an_existing_namespace_is_409_and_changes_nothing(catalog: Catalog, namespace: Namespace):
    answer = catalog.post("/namespaces", {"namespace": list(namespace), "properties": {"new": "1"}})
    assert_error(answer, 409, "AlreadyExistsException", f"Namespace already exists: {namespace[0]}")
    assert as_sent(catalog.get(catalog.namespace_path(namespace)))["properties"] == {}


def test_create_makes_missing_parents_without_properties(catalog: Catalog, namespace: Namespace):
    name = (*namespace, "a", "b", "c")
    catalog.create_namespace(name, {"depth": "4"})
    assert as_sent(catalog.get(catalog.namespace_path(name)))["properties"] == {"depth": "4"}
    for depth in (2, 3):
        loaded = as_sent(catalog.get(catalog.namespace_path(name[:depth])))
        assert loaded == {"namespace": list(name[:depth]), "properties": {}}


def test_create_leaves_existing_parents_as_they_are(catalog: Catalog, namespace: Namespace):
    parent = catalog.create_namespace((*namespace, "parent"), {"kept": "yes"})
    catalog.create_namespace((*parent, "child"))
    assert as_sent(catalog.get(catalog.namespace_path(parent)))["properties"] == {"kept": "yes"}


def test_load(catalog: Catalog, namespace: Namespace):
    name = catalog.create_namespace((*namespace, "child"), {"k": "v", "ü": "☃"})
    answer = catalog.get(catalog.namespace_path(name))
    assert answer.status_code == 200
    assert as_sent(answer) == {"namespace": list(name), "properties": {"k": "v", "ü": "☃"}}


def test_load_of_a_missing_namespace_is_404(catalog: Catalog, namespace: Namespace):
    answer = catalog.get(catalog.namespace_path((*namespace, "missing")))
    assert_error(answer, 404, "NoSuchNamespaceException", f"Namespace does not exist: {namespace[0]}.missing")


def test_head_is_204_or_404_without_a_body(catalog: Catalog, namespace: Namespace):
    there = catalog.head(catalog.namespace_path(namespace))
    assert (there.status_code, there.content) == (204, b"")
    gone = catalog.head(catalog.namespace_path((*namespace, "missing")))
    assert (gone.status_code, gone.content) == (404, b"")


def test_list_gives_direct_children_with_full_names(catalog: Catalog, namespace: Namespace):
    for name in (("a", "deep"), ("b",), ("a", "deep", "deeper")):
        catalog.create_namespace((*namespace, *name))
    answer = catalog.get("/namespaces", params={"parent": namespace[0]})
    assert answer.json() == {
        "namespaces": [[*namespace, "a"], [*namespace, "b"]],
        "next-page-token": None,
    }
    below = catalog.get("/namespaces", params={"parent": "\x1f".join((*namespace, "a"))})
    assert below.json()["namespaces"] == [[*namespace, "a", "deep"]]
    leaf = catalog.get("/namespaces", params={"parent": "\x1f".join((*namespace, "b"))})
    assert leaf.json() == {"namespaces": [], "next-page-token": None}


@pytest.mark.parametrize("query", ["", "?parent="])
def test_list_without_parent_gives_the_top_level(catalog: Catalog, namespace: Namespace, query: str):
    catalog.create_namespace((*namespace, "child"))
    listed = catalog.get(f"/namespaces{query}").json()["namespaces"]
    assert list(namespace) in listed
    assert all(len(levels) == 1 for levels in listed)


def test_list_of_a_missing_parent_is_404(catalog: Catalog, namespace: Namespace):
    missing = unique("missing")
    answer = catalog.get("/namespaces", params={"parent": missing})
    assert_error(answer, 404, "NoSuchNamespaceException", f"Namespace does not exist: {missing}")


def test_a_name_that_begins_like_another_is_no_child_of_it(catalog: Catalog, namespace: Namespace):
    for name in (("a",), ("ab",), ("a.b",), ("a-b",), ("a b",), ("a", "b")):
        catalog.create_namespace((*namespace, *name))
    listed = catalog.get("/namespaces", params={"parent": "\x1f".join((*namespace, "a"))}).json()
    assert listed["namespaces"] == [[*namespace, "a", "b"]]


@pytest.mark.parametrize("level", ["inner", "a b", "a/../b", "ü%2e?#", "_x", "表", "x" * 200])
def test_tables_that_clients_put_below_the_location_are_taken(
    catalog: Catalog, namespace: Namespace, level: str
):
    name = catalog.create_namespace((*namespace, level))
    location = catalog.get(catalog.namespace_path(name)).json()["properties"]["location"]
    for stage in (True, False):
        body = {"name": "t", "schema": ID_AND_DATA, "location": f"{location}/t", "stage-create": stage}
        made = catalog.post(catalog.tables_path(name), body)
        assert (made.status_code, made.json()["metadata"]["location"]) == (200, f"{location}/t")
    assert catalog.create_table(name, "u").metadata()["location"].startswith(f"{location}/u-")


def test_no_two_namespaces_have_one_location(catalog: Catalog, namespace: Namespace):
    names = ["a b", "a_b", "a/b", "a?b", "ab", "aB", "表", "書", "unnamed", "_x", "x", "y" * 100, "y" * 101]
    told = [
        catalog.post("/namespaces", {"namespace": [*namespace, name]}).json()["properties"]["location"]
        for name in names
    ]
    assert len(set(told)) == len(names)


def test_tables_stay_where_they_are_when_the_location_changes(catalog: Catalog, namespace: Namespace):
    name = catalog.create_namespace((*namespace, "moved"))
    default = catalog.get(catalog.namespace_path(name)).json()["properties"]["location"]
    table = catalog.create_table(name, "t")
    before = table.get()
    assert _properties(catalog, name, updates={"location": f"{default}-new/"}).status_code == 200
    assert table.get() == before
    assert catalog.create_table(name, "u").metadata()["location"].startswith(f"{default}-new/u-")
    assert table.commit([set_properties(a="1")]).status_code == 200


def test_drop(catalog: Catalog, namespace: Namespace):
    name = catalog.create_namespace((*namespace, "child"))
    answer = catalog.delete(catalog.namespace_path(name))
    assert (answer.status_code, answer.content) == (204, b"")
    assert catalog.head(catalog.namespace_path(name)).status_code == 404
    again = catalog.delete(catalog.namespace_path(name))
    assert_error(again, 404, "NoSuchNamespaceException", f"Namespace does not exist: {'.'.join(name)}")
    catalog.create_namespace(name)


@pytest.mark.parametrize("content", ["table", "view", "namespace"])
def test_drop_of_a_namespace_with_content_is_409(catalog: Catalog, namespace: Namespace, content: str):
    if content == "table":
        catalog.create_table(namespace)
    elif content == "view":
        catalog.create_view(namespace)
    else:
        catalog.create_namespace((*namespace, "child"))
    answer = catalog.delete(catalog.namespace_path(namespace))
    message = assert_error(answer, 409, "NamespaceNotEmptyException")
    assert message == f"Namespace {namespace[0]} is not empty: it holds 1 {content}"
    assert catalog.head(catalog.namespace_path(namespace)).status_code == 204


def test_drop_works_once_the_content_is_gone(catalog: Catalog, namespace: Namespace):
    table, view = catalog.create_table(namespace), catalog.create_view(namespace)
    table.drop()
    assert catalog.delete(catalog.namespace_path(namespace)).status_code == 409
    view.drop()
    assert catalog.delete(catalog.namespace_path(namespace)).status_code == 204


def _properties(catalog: Catalog, namespace: Namespace, **change: object):
    return catalog.post(f"{catalog.namespace_path(namespace)}/properties", change)


def test_properties_are_set_removed_and_missed(catalog: Catalog, namespace: Namespace):
    name = catalog.create_namespace((*namespace, "child"), {"a": "1", "b": "2", "c": "3"})
    answer = _properties(catalog, name, updates={"a": "10", "d": "4"}, removals=["b", "never"])
    assert answer.status_code == 200
    body = answer.json()
    assert set(body) == {"updated", "removed", "missing"}
    assert sorted(body["updated"]) == ["a", "d"]
    assert (body["removed"], body["missing"]) == (["b"], ["never"])
    loaded = as_sent(catalog.get(catalog.namespace_path(name)))["properties"]
    assert loaded == {"a": "10", "c": "3", "d": "4"}


@pytest.mark.parametrize("change", [{}, {"updates": None, "removals": None}, {"updates": {}, "removals": []}])
def test_properties_with_nothing_to_change(catalog: Catalog, namespace: Namespace, change: dict):
    answer = _properties(catalog, namespace, **change)
    assert answer.json() == {"updated": [], "removed": [], "missing": []}


def test_property_that_is_set_and_removed_is_422_and_changes_nothing(catalog: Catalog, namespace: Namespace):
    name = catalog.create_namespace((*namespace, "child"), {"a": "1"})
    answer = _properties(catalog, name, updates={"a": "2", "b": "3"}, removals=["a"])
    message = assert_error(answer, 422, "UnprocessableEntityException")
    assert "a" in message
    assert as_sent(catalog.get(catalog.namespace_path(name)))["properties"] == {"a": "1"}


def test_property_removed_twice_is_422(catalog: Catalog, namespace: Namespace):
    assert_error(_properties(catalog, namespace, removals=["a", "a"]), 422, "UnprocessableEntityException")


def test_properties_of_a_missing_namespace_are_404(catalog: Catalog, namespace: Namespace):
    answer = _properties(catalog, (*namespace, "missing"), updates={"a": "1"})
    assert_error(answer, 404, "NoSuchNamespaceException", f"Namespace does not exist: {namespace[0]}.missing")


@pytest.mark.parametrize(
    "change",
    [
        {"updates": {"a": 1}},
        {"updates": {"a": None}},
        {"updates": ["a"]},
        {"removals": "a"},
        {"removals": [1]},
    ],
)
def test_properties_of_the_wrong_type_are_400(catalog: Catalog, namespace: Namespace, change: dict):
    assert_error(_properties(catalog, namespace, **change), 400, "BadRequestException")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"namespace": None},
        {"namespace": "text"},
        {"namespace": []},
        {"namespace": [""]},
        {"namespace": ["a", ""]},
        {"namespace": [1]},
        {"namespace": [["a"]]},
        {"namespace": ["a"], "properties": {"k": 1}},
        {"namespace": ["a"], "properties": []},
        {"namespace": ["   "]},
        {"namespace": ["x"] * 33},
    ],
)
def test_create_with_a_malformed_body_is_400(catalog: Catalog, body: dict):
    assert_error(catalog.post("/namespaces", body), 400, "BadRequestException")


def test_unknown_fields_of_a_request_are_ignored(catalog: Catalog, namespace: Namespace):
    name = [*namespace, "child"]
    answer = catalog.post("/namespaces", {"namespace": name, "added-in-2030": {"deep": [1]}})
    assert (answer.status_code, as_sent(answer)) == (200, {"namespace": name, "properties": {}})


def test_a_namespace_of_32_levels(catalog: Catalog, namespace: Namespace):
    name = (*namespace, *[f"l{depth}" for depth in range(31)])
    catalog.create_namespace(name)
    assert catalog.get(catalog.namespace_path(name)).json()["namespace"] == list(name)
    assert catalog.create_table(name, "t").metadata()["format-version"] == 2
