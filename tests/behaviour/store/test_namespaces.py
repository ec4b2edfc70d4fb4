"""Namespaces: names, children, and what may be in them when they go."""

from __future__ import annotations

import msgspec
import pytest
import uuid_utils.compat as uuids

from floecat.identifiers.encoding import physical_name
from floecat.store.catalogs import namespaces
from floecat.store.catalogs.catalogs import CatalogRow
from floecat.store.catalogs.namespaces import NamespaceRow
from floecat.store.database.engine import Connection, Store
from floecat.store.database.errors import DuplicateKeyError, ForeignKeyError
from floecat.store.entries import tables
from tests.behaviour.store.rows import NOW_MS, add_catalog, add_entry, add_namespace, at_once

ODD_LEVELS = ["a", "A", "a.b", "a b", "a%b", "a/b", "é", "日本", "🐈", "_", "a-b", "a~", "zz", "ab"]


def test_a_namespace_comes_back_as_it_was(store: Store, catalog: CatalogRow) -> None:
    parent = add_namespace(store, catalog.id, "a.b")
    row = add_namespace(store, catalog.id, "a.b", "日 本", parent_id=parent.id)
    with store.read() as conn:
        assert namespaces.get(conn, catalog.id, ("a.b", "日 本")) == row
        assert namespaces.get(conn, catalog.id, ("a", "b")) is None
        assert namespaces.get(conn, uuids.uuid7(), ("a.b",)) is None


def test_names_are_unique_in_a_catalog(store: Store, catalog: CatalogRow) -> None:
    add_namespace(store, catalog.id, "a")
    with pytest.raises(DuplicateKeyError) as error:
        add_namespace(store, catalog.id, "a")
    assert error.value.table == "namespaces"
    add_namespace(store, add_catalog(store, "other").id, "a")


def test_one_of_many_creates_wins(store: Store, catalog: CatalogRow) -> None:
    def create(number: int) -> bool:
        try:
            add_namespace(store, catalog.id, "a")
        except DuplicateKeyError:
            return False
        return True

    assert sum(at_once(8, create)) == 1


@pytest.mark.parametrize("size", [None, 1, 4])
def test_children_by_pages(store: Store, catalog: CatalogRow, size: int | None) -> None:
    for parent in (add_namespace(store, catalog.id, "p"), None):
        above = parent.levels if parent else ()
        expected = sorted((*above, level) for level in ODD_LEVELS)
        for level in ODD_LEVELS:
            add_namespace(store, catalog.id, *above, level, parent_id=parent.id if parent else None)
        if parent is None:
            expected.append(("p",))
        seen: list[NamespaceRow] = []
        with store.read() as conn:
            while page := namespaces.children(
                conn, catalog.id, above or None, seen[-1].physical_name if seen else None, size
            ):
                seen += page
                if size is None:
                    break
        by_name = sorted(expected, key=physical_name)
        assert [row.levels for row in seen] == by_name


def test_children_is_one_statement(store: Store, catalog: CatalogRow) -> None:
    parent = add_namespace(store, catalog.id, "p")
    for level in ODD_LEVELS:
        add_namespace(store, catalog.id, "p", level, parent_id=parent.id)
    with store.count_statements() as counter, store.read() as conn:
        assert len(namespaces.children(conn, catalog.id, ("p",), None, None)) == len(ODD_LEVELS)
        assert namespaces.children(conn, catalog.id, ("nobody",), None, None) == []
        assert [row.levels for row in namespaces.children(conn, catalog.id, None, None, None)] == [("p",)]
    assert counter.total == 3


def test_properties(store: Store, namespace: NamespaceRow) -> None:
    with store.write() as conn:
        assert namespaces.set_properties(conn, namespace.id, {"k": "v\u0000🐈", "": ""}, NOW_MS + 5, "anna")
        assert not namespaces.set_properties(conn, uuids.uuid7(), {}, NOW_MS, "anna")
    with store.read() as conn:
        changed = namespaces.get(conn, namespace.catalog_id, namespace.levels)
    assert changed is not None
    assert changed.properties == {"k": "v\u0000🐈", "": ""}
    assert changed.updated_at_ms == NOW_MS + 5


def test_no_change_of_properties_is_lost(store: Store, namespace: NamespaceRow) -> None:
    def add_key(number: int) -> None:
        def change(conn: Connection) -> None:
            row = namespaces.get(conn, namespace.catalog_id, namespace.levels, for_update=True)
            assert row is not None
            namespaces.set_properties(conn, row.id, {**row.properties, str(number): "x"}, NOW_MS, "anna")

        store.run(change)

    at_once(8, add_key)
    with store.read() as conn:
        row = namespaces.get(conn, namespace.catalog_id, namespace.levels)
    assert row is not None
    assert sorted(row.properties) == [str(number) for number in range(8)]


def test_an_empty_namespace_goes(store: Store, namespace: NamespaceRow) -> None:
    with store.write() as conn:
        assert not namespaces.has_content(conn, namespace.id)
        assert namespaces.delete(conn, namespace)
        assert not namespaces.delete(conn, namespace)


@pytest.mark.parametrize("kind", ["table", "view", "namespace"])
def test_a_namespace_with_content_stays(store: Store, namespace: NamespaceRow, kind: str) -> None:
    if kind == "namespace":
        add_namespace(store, namespace.catalog_id, "sales", "sub", parent_id=namespace.id)
    else:
        add_entry(store, namespace, "x", kind)
    with store.read() as conn:
        assert namespaces.has_content(conn, namespace.id)
    with pytest.raises(ForeignKeyError), store.write() as conn:
        namespaces.delete(conn, namespace)


def test_a_parent_must_exist(store: Store, catalog: CatalogRow) -> None:
    with pytest.raises(ForeignKeyError):
        add_namespace(store, catalog.id, "a", "b", parent_id=uuids.uuid7())
    with pytest.raises(ForeignKeyError):
        add_namespace(store, uuids.uuid7(), "a")


@pytest.mark.parametrize("kind", ["table", "namespace"])
def test_drop_against_create(store: Store, catalog: CatalogRow, kind: str) -> None:
    """Either the creation or the drop fails: nothing is ever left without its namespace."""
    outcomes = set()
    for round_ in range(12):
        namespace = add_namespace(store, catalog.id, f"n{round_}")

        def work(number: int, namespace: NamespaceRow = namespace) -> bool:
            try:
                if number % 2:
                    return store.run(lambda conn: namespaces.delete(conn, namespace))
                if kind == "table":
                    add_entry(store, namespace, f"t{number}")
                else:
                    add_namespace(store, catalog.id, *namespace.levels, f"c{number}", parent_id=namespace.id)
            except ForeignKeyError:
                return False
            return True

        created_a, dropped, created_b = at_once(3, work)
        assert dropped != (created_a or created_b)
        outcomes.add(dropped)
        with store.read() as conn:
            assert (namespaces.get(conn, catalog.id, namespace.levels) is None) == dropped
            assert len(
                tables.list_names(conn, namespace.catalog_id, namespace.levels, "table", None, None)
            ) + len(namespaces.children(conn, catalog.id, namespace.levels, None, None)) == (
                created_a + created_b
            )
    assert outcomes


def test_rows_are_frozen(namespace: NamespaceRow) -> None:
    with pytest.raises(AttributeError):
        namespace.levels = ("x",)  # type: ignore[misc]
    assert msgspec.structs.replace(namespace, levels=("x",)).levels == ("x",)
