"""What is kept beside the entries of Delta tables."""

from __future__ import annotations

import msgspec
import pytest
import sqlalchemy as sa
import uuid_utils.compat as uuids

from floecat.delta import delta_rows as delta_tables
from floecat.delta.delta_rows import DeltaTableRow
from floecat.identifiers.namespace import TableIdentifier
from floecat.store.catalogs import connectors
from floecat.store.catalogs.namespaces import NamespaceRow
from floecat.store.database.engine import Store
from floecat.store.database.errors import DuplicateKeyError, ForeignKeyError, StoreFaultError
from floecat.store.entries import entry_changes, tables
from floecat.store.entries.documents import compress
from tests.behaviour.store.rows import NOW_MS, add_catalog, add_entry, add_namespace, entry_of
from tests.behaviour.store.test_connectors import connector_of


def add_delta_table(
    store: Store, namespace: NamespaceRow, name: str, location: str = "s3://lake/d"
) -> DeltaTableRow:
    row = msgspec.structs.replace(entry_of(namespace, name), format="delta")
    delta = DeltaTableRow(row.id, location, NOW_MS)
    with store.write() as conn:
        entry_changes.insert(conn, row, compress(b"{}"), 2)
        delta_tables.insert(conn, delta)
    return delta


def test_entries_have_a_format(store: Store, namespace: NamespaceRow) -> None:
    delta = add_delta_table(store, namespace, "d")
    add_entry(store, namespace, "i")
    catalog_id = namespace.catalog_id
    names = {name: TableIdentifier(namespace.levels, name) for name in "di"}
    with store.read() as conn:
        found = {name: tables.find(conn, catalog_id, names[name]) for name in names}
        loaded = {name: tables.load(conn, catalog_id, names[name], None) for name in names}
        many = tables.load_many(conn, catalog_id, [(identifier, None) for identifier in names.values()])
        scanned = tables.scan(conn, "table", None, 10)
        got = tables.get(conn, delta.entry_id)
    assert {name: row and row.format for name, row in found.items()} == {"d": "delta", "i": "iceberg"}
    assert {name: row and row.format for name, row in loaded.items()} == {"d": "delta", "i": "iceberg"}
    assert {identifier.name: row.format for identifier, row in many.items()} == {"d": "delta", "i": "iceberg"}
    assert [row.format for row in scanned] == ["delta", "iceberg"]
    assert got is not None
    assert got.format == "delta"
    assert loaded["d"] is not None
    assert (loaded["d"].size_bytes, loaded["d"].document) == (2, compress(b"{}"))


def test_an_unknown_format_is_refused(store: Store, namespace: NamespaceRow) -> None:
    row = msgspec.structs.replace(entry_of(namespace, "h"), format="hudi")
    with pytest.raises(StoreFaultError), store.write() as conn:
        entry_changes.insert(conn, row, compress(b"{}"), 2)


def test_a_row_comes_back_as_it_went(store: Store, namespace: NamespaceRow) -> None:
    delta = add_delta_table(store, namespace, "d")
    with store.read() as conn:
        assert delta_tables.get(conn, delta.entry_id) == delta
        assert delta_tables.get(conn, uuids.uuid7()) is None


def test_a_row_needs_its_entry(store: Store, namespace: NamespaceRow) -> None:
    delta = add_delta_table(store, namespace, "d")
    with pytest.raises(DuplicateKeyError), store.write() as conn:
        delta_tables.insert(conn, delta)
    with pytest.raises(ForeignKeyError), store.write() as conn:
        delta_tables.insert(conn, msgspec.structs.replace(delta, entry_id=uuids.uuid7()))


def test_a_row_goes_with_its_entry(store: Store, namespace: NamespaceRow) -> None:
    delta = add_delta_table(store, namespace, "d")
    with store.write() as conn:
        entry_changes.delete(conn, delta.entry_id, 0)
    with store.read() as conn:
        assert delta_tables.get(conn, delta.entry_id) is None
        assert delta_tables.at_location(conn, delta.location) == []


def test_publish(store: Store, namespace: NamespaceRow) -> None:
    delta, other = (add_delta_table(store, namespace, name) for name in "ab")
    with store.write() as conn:
        delta_tables.note_problem(conn, delta.entry_id, "broken", NOW_MS + 1)
    state = {
        "version": 2**40,
        "log_fingerprint": "x",
        "field_ids": b"{}",
        "state": b"\x00\xff",
        "generation": 3,
    }

    def publish(entry_id: object) -> bool:
        return store.run(
            lambda conn: delta_tables.publish(conn, entry_id, now_ms=NOW_MS + 5, **state)  # type: ignore[arg-type]
        )

    assert publish(delta.entry_id)
    assert not publish(uuids.uuid7())
    with store.read() as conn:
        times = {"checked_at_ms": NOW_MS + 5, "refreshed_at_ms": NOW_MS + 5}
        assert delta_tables.get(conn, delta.entry_id) == msgspec.structs.replace(delta, **state, **times)
        assert delta_tables.get(conn, other.entry_id) == other


def test_a_problem_is_noted_and_changes_nothing_else(store: Store, namespace: NamespaceRow) -> None:
    delta = add_delta_table(store, namespace, "d")
    with store.write() as conn:
        assert delta_tables.note_problem(conn, delta.entry_id, "version 3 is gone", NOW_MS + 1)
        assert not delta_tables.note_problem(conn, uuids.uuid7(), None, NOW_MS)
    with store.read() as conn:
        noted = delta_tables.get(conn, delta.entry_id)
    assert noted == msgspec.structs.replace(delta, problem="version 3 is gone", checked_at_ms=NOW_MS + 1)
    with store.write() as conn:
        assert delta_tables.note_problem(conn, delta.entry_id, None, NOW_MS + 2)
    with store.read() as conn:
        noted = delta_tables.get(conn, delta.entry_id)
    assert noted == msgspec.structs.replace(delta, checked_at_ms=NOW_MS + 2)


def test_tables_at_a_location(store: Store, namespace: NamespaceRow) -> None:
    elsewhere = add_namespace(store, add_catalog(store, "other").id, "x", "y.z")
    here = add_delta_table(store, namespace, "a", "s3://lake/d")
    there = add_delta_table(store, elsewhere, "b", "s3://lake/d")
    for location in ("s3://lake/d2", "s3://lake/D", "s3://lake"):
        add_delta_table(store, namespace, location, location)
    with store.read() as conn:
        found = {table.entry_id: table for table in delta_tables.at_location(conn, "s3://lake/d")}
    assert found.keys() == {here.entry_id, there.entry_id}
    table = found[there.entry_id]
    assert (table.catalog_id, table.namespace, table.name) == (elsewhere.catalog_id, ("x", "y.z"), "b")


def test_tables_of_a_catalog_in_pages(store: Store, namespace: NamespaceRow) -> None:
    other = add_namespace(store, add_catalog(store, "other").id, "x")
    rows = [add_delta_table(store, namespace, name, f"s3://lake/{name}") for name in "abcde"]
    add_delta_table(store, other, "a")
    add_entry(store, namespace, "iceberg")
    seen: list[delta_tables.NamedDeltaTable] = []
    with store.read() as conn:
        while page := delta_tables.list_all(
            conn, namespace.catalog_id, seen[-1].entry_id if seen else None, 2
        ):
            assert len(page) <= 2
            seen += page
    assert [(table.entry_id, table.name) for table in seen] == [
        (row.entry_id, name) for row, name in zip(rows, "abcde", strict=True)
    ]


def test_a_table_outlives_its_connector(store: Store, namespace: NamespaceRow) -> None:
    connector = connector_of(namespace.catalog_id, "lake")
    row = msgspec.structs.replace(entry_of(namespace, "d"), format="delta")
    with store.write() as conn:
        connectors.insert(conn, connector)
        entry_changes.insert(conn, row, compress(b"{}"), 2)
        delta_tables.insert(conn, DeltaTableRow(row.id, row.location, NOW_MS, connector_id=connector.id))
    with store.write() as conn:
        connectors.delete(conn, connector.id)
    with store.read() as conn:
        delta = delta_tables.get(conn, row.id)
    assert delta is not None
    assert delta.connector_id is None


def test_locations_compare_by_bytes(store: Store, namespace: NamespaceRow) -> None:
    add_delta_table(store, namespace, "d", "s3://lake/é")
    with store.read() as conn:
        assert len(delta_tables.at_location(conn, "s3://lake/é")) == 1
        assert delta_tables.at_location(conn, "s3://lake/e\u0301") == []


def test_the_statements_of_the_schema_hold_a_check(store: Store) -> None:
    constraints = sa.inspect(store._engine).get_check_constraints("entries")
    assert {"ck_entries_format", "ck_entries_kind"} <= {constraint["name"] for constraint in constraints}
