"""Namespaces as the Java client sees them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clients.kit.java import Iceberg, raises
from tests.clients.warehouses import unique

MISSING = "no_such_namespace"


def properties_of(catalog: Any, namespace: Any) -> dict[str, str]:
    return dict(catalog.loadNamespaceMetadata(namespace))


def test_create_load_and_drop(iceberg: Iceberg, catalog: Any) -> None:
    namespace = iceberg.namespace(unique("newdb"))
    assert not catalog.namespaceExists(namespace)
    catalog.createNamespace(namespace, iceberg.map({"owner": "apache", "created_at": "sometime"}))
    assert catalog.namespaceExists(namespace)
    assert properties_of(catalog, namespace).items() >= {"owner": "apache", "created_at": "sometime"}.items()
    assert catalog.dropNamespace(namespace)
    assert not catalog.namespaceExists(namespace)


def test_create_existing(iceberg: Iceberg, catalog: Any, ns: str) -> None:
    with raises("AlreadyExistsException", contains="Namespace already exists"):
        catalog.createNamespace(iceberg.namespace(ns))


def test_set_and_update_properties(iceberg: Iceberg, catalog: Any, ns: str) -> None:
    namespace = iceberg.namespace(ns)
    assert catalog.setProperties(namespace, iceberg.map({"owner": "first", "kept": "yes"}))
    assert catalog.setProperties(namespace, iceberg.map({"owner": "second", "added": "new"}))
    expected = {"owner": "second", "kept": "yes", "added": "new"}
    assert properties_of(catalog, namespace).items() >= expected.items()


def test_remove_properties(iceberg: Iceberg, catalog: Any, ns: str) -> None:
    namespace = iceberg.namespace(ns)
    catalog.setProperties(namespace, iceberg.map({"owner": "apache", "created_at": "sometime"}))
    catalog.removeProperties(namespace, iceberg.set(["created_at"]))
    properties = properties_of(catalog, namespace)
    assert properties["owner"] == "apache"
    assert "created_at" not in properties


@pytest.mark.parametrize(
    "call",
    [
        lambda iceberg, catalog, namespace: catalog.loadNamespaceMetadata(namespace),
        lambda iceberg, catalog, namespace: catalog.setProperties(namespace, iceberg.map({"a": "b"})),
        lambda iceberg, catalog, namespace: catalog.removeProperties(namespace, iceberg.set(["a"])),
    ],
    ids=["load", "set-properties", "remove-properties"],
)
def test_missing(iceberg: Iceberg, catalog: Any, call: Any) -> None:
    with raises("NoSuchNamespaceException", starts=f"Namespace does not exist: {MISSING}"):
        call(iceberg, catalog, iceberg.namespace(MISSING))


def test_list_children_of_missing(iceberg: Iceberg, catalog: Any) -> None:
    with raises("NoSuchNamespaceException") as thrown:
        catalog.listNamespaces(iceberg.namespace(MISSING))
    assert thrown.message == f"Namespace does not exist: {MISSING}"


def test_list_tables_of_missing(iceberg: Iceberg, catalog: Any) -> None:
    with raises("NoSuchNamespaceException", starts=f"Namespace does not exist: {MISSING}"):
        catalog.listTables(iceberg.namespace(MISSING))


def test_drop_missing_is_no_error(iceberg: Iceberg, catalog: Any) -> None:
    assert catalog.dropNamespace(iceberg.namespace(MISSING)) is False


def test_drop_with_a_table(iceberg: Iceberg, catalog: Any, ns: str) -> None:
    catalog.createTable(iceberg.identifier(ns, "table"), iceberg.schema())
    with raises("NamespaceNotEmptyException", contains="is not empty"):
        catalog.dropNamespace(iceberg.namespace(ns))
    assert catalog.dropTable(iceberg.identifier(ns, "table"), False)
    assert catalog.dropNamespace(iceberg.namespace(ns))


def test_drop_with_only_a_view(iceberg: Iceberg, catalog: Any, ns: str) -> None:
    view = iceberg.identifier(ns, "view")
    catalog.buildView(view).withSchema(iceberg.schema()).withDefaultNamespace(
        iceberg.namespace(ns)
    ).withQuery("spark", "select 1").create()
    with raises("NamespaceNotEmptyException", contains="is not empty"):
        catalog.dropNamespace(iceberg.namespace(ns))
    assert catalog.dropView(view)
    assert catalog.dropNamespace(iceberg.namespace(ns))


def test_drop_with_a_child(iceberg: Iceberg, catalog: Any, ns: str) -> None:
    catalog.createNamespace(iceberg.namespace(ns, "child"))
    with raises("NamespaceNotEmptyException", contains="is not empty"):
        catalog.dropNamespace(iceberg.namespace(ns))


def test_list_namespaces(iceberg: Iceberg, catalog: Any) -> None:
    names = {unique("newdb_1"), unique("newdb_2")}
    for name in names:
        catalog.createNamespace(iceberg.namespace(name))
    listed = [namespace.toString() for namespace in catalog.listNamespaces()]
    assert names <= set(listed)
    assert len(listed) == len(set(listed))


def test_list_nested_namespaces(iceberg: Iceberg, catalog: Any, ns: str) -> None:
    for levels in (("one",), ("two",), ("one", "deeper")):
        catalog.createNamespace(iceberg.namespace(ns, *levels))
    children = {tuple(each.levels()) for each in catalog.listNamespaces(iceberg.namespace(ns))}
    assert children == {(ns, "one"), (ns, "two")}
    grandchildren = {tuple(each.levels()) for each in catalog.listNamespaces(iceberg.namespace(ns, "one"))}
    assert grandchildren == {(ns, "one", "deeper")}
    assert not catalog.listNamespaces(iceberg.namespace(ns, "two"))


@pytest.mark.parametrize("level", ["new.db", "new/db", "neu db", "né+w%db"])
def test_unusual_names_are_one_level(iceberg: Iceberg, catalog: Any, ns: str, level: str) -> None:
    namespace = iceberg.namespace(ns, level)
    catalog.createNamespace(namespace)
    assert [tuple(each.levels()) for each in catalog.listNamespaces(iceberg.namespace(ns))] == [(ns, level)]
    identifier = iceberg.api.catalog.TableIdentifier.of(namespace, f"table {level}")
    created = catalog.createTable(identifier, iceberg.schema())
    assert catalog.loadTable(identifier).uuid().equals(created.uuid())
    assert [each.name() for each in catalog.listTables(namespace)] == [f"table {level}"]
    assert catalog.dropTable(identifier, False)
    assert catalog.dropNamespace(namespace)
