"""Entries: loads, compare-and-set, names over both kinds, listings."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import uuid_utils.compat as uuids

from floecat.identifiers.namespace import TableIdentifier
from floecat.store.catalogs.catalogs import CatalogRow
from floecat.store.catalogs.namespaces import NamespaceRow
from floecat.store.database.engine import Store
from floecat.store.database.errors import DuplicateKeyError, ForeignKeyError
from floecat.store.entries import entry_changes, snapshots, tables
from floecat.store.entries.documents import decompress
from floecat.store.entries.tables import EntryRow, EntryState
from tests.behaviour.store.rows import (
    JSON,
    NOW_MS,
    add_catalog,
    add_entry,
    add_namespace,
    at_once,
    entry_of,
    refs_of,
    swap,
)

ODD_NAMES = [
    "a", "A", "a.b", "a b", "a%2Fb", "a%", "_", "%", "z", "é", "e\u0301", "日本", "🐈", "a'b", 'a"b', "a\\b",
    "~", "a~2Eb", "-", ".", "..", "null", "ﬀ", "ß", "SS",
]  # fmt: skip


def test_load_is_one_statement(store: Store, namespace: NamespaceRow) -> None:
    row = add_entry(store, namespace, "orders")
    identifier = TableIdentifier(namespace.levels, "orders")
    with store.count_statements() as counter, store.read() as conn:
        loaded = tables.load(conn, namespace.catalog_id, identifier, None)
    assert counter.total == 1
    assert loaded is not None
    assert decompress(loaded.document or b"") == JSON
    assert msgspec.structs.replace(loaded, document=None, size_bytes=None, access_version=0) == row
    assert loaded.size_bytes == len(JSON)


def test_a_known_document_is_not_read_again(store: Store, namespace: NamespaceRow) -> None:
    row = add_entry(store, namespace, "orders")
    identifier = TableIdentifier(namespace.levels, "orders")
    with store.read() as conn:
        known = tables.load(conn, namespace.catalog_id, identifier, row.state)
        many = tables.load_many(conn, namespace.catalog_id, [(identifier, row.state)])
    assert known is not None
    assert known.document is None
    assert known.size_bytes == len(JSON)
    assert many == {identifier: known}


@pytest.mark.parametrize(
    "other", [{"id": uuids.uuid7()}, {"version": 1}, {"metadata_location": "s3://lake/x.json"}]
)
def test_a_document_of_another_state_is_not_known(
    store: Store, namespace: NamespaceRow, other: dict[str, Any]
) -> None:
    row = add_entry(store, namespace, "orders")
    identifier = TableIdentifier(namespace.levels, "orders")
    known = row.state._replace(**other)
    with store.read() as conn:
        loaded = tables.load(conn, namespace.catalog_id, identifier, known)
        many = tables.load_many(conn, namespace.catalog_id, [(identifier, known)])
    assert loaded is not None
    assert loaded.document is not None
    assert many == {identifier: loaded}


def test_what_does_not_exist(store: Store, namespace: NamespaceRow) -> None:
    add_entry(store, namespace, "orders")
    other = add_catalog(store, "other")
    with store.read() as conn:
        for catalog_id, levels, name in [
            (namespace.catalog_id, ("sales",), "Orders"),
            (namespace.catalog_id, ("Sales",), "orders"),
            (namespace.catalog_id, ("sales", "orders"), "orders"),
            (other.id, ("sales",), "orders"),
            (uuids.uuid7(), ("sales",), "orders"),
        ]:
            identifier = TableIdentifier(levels, name)
            assert tables.find(conn, catalog_id, identifier) is None
            assert tables.load(conn, catalog_id, identifier, None) is None
            assert tables.load_many(conn, catalog_id, [(identifier, None)]) == {}
        assert tables.get(conn, uuids.uuid7()) is None
        assert tables.document(conn, uuids.uuid7()) is None


def test_load_many_is_one_statement(store: Store, catalog: CatalogRow) -> None:
    wanted: list[tuple[TableIdentifier, EntryState | None]] = []
    for levels in [("a",), ("a.b",), ("日本", "x y")]:
        namespace = add_namespace(store, catalog.id, *levels)
        for name in ODD_NAMES:
            row = add_entry(store, namespace, name, document=f'{{"name":"{len(wanted)}"}}'.encode())
            known = row.state if len(wanted) % 2 else None
            wanted.append((TableIdentifier(levels, name), known))
    missing = TableIdentifier(("a",), "missing")
    with store.count_statements() as counter, store.read() as conn:
        found = tables.load_many(conn, catalog.id, [*wanted, (missing, None)])
        assert tables.load_many(conn, catalog.id, []) == {}
    assert counter.total == 2
    assert set(found) == {identifier for identifier, _ in wanted}
    for number, (identifier, known) in enumerate(wanted):
        row = found[identifier]
        assert row.name == identifier.name
        if known:
            assert row.document is None
        else:
            assert decompress(row.document or b"") == f'{{"name":"{number}"}}'.encode()


def test_a_swap_compares_the_version(store: Store, namespace: NamespaceRow) -> None:
    row = add_entry(store, namespace, "orders")
    with store.write() as conn:
        assert swap(conn, row, 0, "s3://lake/1.json", b'{"v":1}')
    with store.write() as conn:
        assert not swap(conn, row, 0, "s3://lake/2.json", b'{"v":2}')
    with store.read() as conn:
        loaded = tables.load(conn, namespace.catalog_id, TableIdentifier(("sales",), "orders"), None)
    assert loaded is not None
    assert (loaded.version, loaded.metadata_location) == (1, "s3://lake/1.json")
    assert decompress(loaded.document or b"") == b'{"v":1}'
    assert loaded.updated_at_ms == NOW_MS + 1


def test_no_commit_is_lost(store: Store, namespace: NamespaceRow) -> None:
    row = add_entry(store, namespace, "counter", document=b"0")
    identifier = TableIdentifier(namespace.levels, "counter")

    def increment(number: int) -> int:
        tries = 0
        for _ in range(10):
            while True:
                tries += 1
                with store.read() as conn:
                    seen = tables.load(conn, namespace.catalog_id, identifier, None)
                assert seen is not None
                value = int(decompress(seen.document or b"")) + 1
                location = f"s3://lake/{number}-{value}"
                document = str(value).encode()
                if store.run(lambda conn: swap(conn, row, seen.version, location, document)):  # noqa: B023
                    break
        return tries

    tries = at_once(8, increment)
    with store.read() as conn:
        final = tables.load(conn, namespace.catalog_id, identifier, None)
    assert final is not None
    assert (final.version, decompress(final.document or b"")) == (80, b"80")
    assert sum(tries) >= 80


def test_a_document_must_be_compressed(store: Store, namespace: NamespaceRow) -> None:
    row = entry_of(namespace, "orders")
    with pytest.raises(ValueError, match="compressed"), store.write() as conn:
        entry_changes.insert(conn, row, JSON, len(JSON))
    with store.read() as conn:
        assert tables.get(conn, row.id) is None


@pytest.mark.parametrize(("first", "second"), [("table", "view"), ("view", "table"), ("table", "table")])
def test_a_name_is_unique_over_both_kinds(
    store: Store, namespace: NamespaceRow, first: str, second: str
) -> None:
    add_entry(store, namespace, "orders", first)
    with pytest.raises(DuplicateKeyError) as error:
        add_entry(store, namespace, "orders", second)
    assert error.value.table == "entries"
    other = add_namespace(store, namespace.catalog_id, "other")
    add_entry(store, other, "orders", second)


def test_one_of_many_creates_wins(store: Store, namespace: NamespaceRow) -> None:
    def create(number: int) -> bool:
        try:
            add_entry(store, namespace, "orders", "table" if number % 2 else "view")
        except DuplicateKeyError:
            return False
        return True

    assert sum(at_once(8, create)) == 1
    with store.read() as conn:
        names = [
            *tables.list_names(conn, namespace.catalog_id, namespace.levels, "table", None, None),
            *tables.list_names(conn, namespace.catalog_id, namespace.levels, "view", None, None),
        ]
    assert names == ["orders"]


def test_an_entry_needs_its_namespace(store: Store, namespace: NamespaceRow) -> None:
    with pytest.raises(ForeignKeyError):
        add_entry(store, msgspec.structs.replace(namespace, id=uuids.uuid7()), "orders")


def test_rename(store: Store, namespace: NamespaceRow) -> None:
    row = add_entry(store, namespace, "orders")
    add_entry(store, namespace, "taken", "view")
    other = add_namespace(store, namespace.catalog_id, "other")
    with pytest.raises(DuplicateKeyError), store.write() as conn:
        entry_changes.rename(conn, row.id, 0, namespace.id, "taken", NOW_MS)
    with pytest.raises(ForeignKeyError), store.write() as conn:
        entry_changes.rename(conn, row.id, 0, uuids.uuid7(), "orders", NOW_MS)
    with store.write() as conn:
        assert not entry_changes.rename(conn, row.id, 7, other.id, "moved", NOW_MS)
        assert entry_changes.rename(conn, row.id, 0, other.id, "moved", NOW_MS)
    with store.read() as conn:
        assert tables.find(conn, row.catalog_id, TableIdentifier(("sales",), "orders")) is None
        moved = tables.find(conn, row.catalog_id, TableIdentifier(("other",), "moved"))
        assert moved is not None
        assert (moved.id, moved.version) == (row.id, 1)
        assert decompress(tables.document(conn, row.id) or b"") == JSON


def test_a_rename_beats_a_commit_that_did_not_see_it(store: Store, namespace: NamespaceRow) -> None:
    row = add_entry(store, namespace, "orders")
    with store.write() as conn:
        entry_changes.rename(conn, row.id, 0, namespace.id, "renamed", NOW_MS)
    with store.write() as conn:
        assert not swap(conn, row, 0, "s3://lake/1.json")


def test_delete_takes_everything_along(store: Store, namespace: NamespaceRow) -> None:
    row, other = add_entry(store, namespace, "orders"), add_entry(store, namespace, "other")
    with store.write() as conn:
        for each in (row, other):
            snapshots.insert_many(
                conn, each.id, [snapshots.SnapshotRow(1, None, 1, 1, 0, "append", "s3://m")]
            )
            snapshots.replace_refs(conn, each.id, [snapshots.RefRow("main", "branch", 1)])
    with store.write() as conn:
        assert not entry_changes.delete(conn, row.id, 5)
        assert entry_changes.delete(conn, row.id, 0)
        assert not entry_changes.delete(conn, row.id, None)
    with store.read() as conn:
        assert tables.document(conn, row.id) is None
        assert snapshots.list_all(conn, row.id) == []
        assert refs_of(conn, row.id) == []
        assert len(snapshots.list_all(conn, other.id)) == len(refs_of(conn, other.id)) == 1


def test_names_are_listed_by_code_points(store: Store, namespace: NamespaceRow) -> None:
    for name in ODD_NAMES:
        add_entry(store, namespace, name)
        add_entry(store, namespace, f"view of {name}", "view")
    with store.count_statements() as counter, store.read() as conn:
        assert tables.list_names(conn, namespace.catalog_id, namespace.levels, "table", None, None) == sorted(
            ODD_NAMES
        )
        found = tables.list_names(conn, namespace.catalog_id, namespace.levels, "view", None, None)
        assert found == sorted(f"view of {name}" for name in ODD_NAMES)
    assert counter.total == 2


def test_tables_of_a_type_are_listed_in_one_statement(store: Store, namespace: NamespaceRow) -> None:
    types = {"a": "lance", "b": None, "c": "lance", "d": "other", "e": "lance"}
    rows = {name: add_entry(store, namespace, name, table_type=kind) for name, kind in types.items()}
    add_entry(store, namespace, "v", "view")
    with store.count_statements() as counter, store.read() as conn:
        assert tables.list_names(
            conn, namespace.catalog_id, namespace.levels, "table", None, None, "lance"
        ) == ["a", "c", "e"]
        assert tables.list_names(conn, namespace.catalog_id, namespace.levels, "table", "a", 1, "lance") == [
            "c"
        ]
        assert (
            tables.list_names(conn, namespace.catalog_id, namespace.levels, "table", None, None, "missing")
            == []
        )
    assert counter.total == 3
    with store.write() as conn:
        assert swap(conn, rows["b"], 0, "s3://lake/b/2.json", table_type="lance")
        assert swap(conn, rows["c"], 0, "s3://lake/c/2.json")
        assert tables.list_names(
            conn, namespace.catalog_id, namespace.levels, "table", None, None, "lance"
        ) == ["a", "b", "e"]
        assert tables.list_names(conn, namespace.catalog_id, namespace.levels, "table", None, None) == list(
            "abcde"
        )


@pytest.mark.parametrize("size", [1, 3, len(ODD_NAMES), 100])
def test_pages_hold_every_name_once(store: Store, namespace: NamespaceRow, size: int) -> None:
    for name in ODD_NAMES:
        add_entry(store, namespace, name)
    seen: list[str] = []
    with store.read() as conn:
        while page := tables.list_names(
            conn, namespace.catalog_id, namespace.levels, "table", seen[-1] if seen else None, size
        ):
            assert len(page) <= size
            seen += page
    assert seen == sorted(ODD_NAMES)


def test_a_page_does_not_care_what_happens_before_it(store: Store, namespace: NamespaceRow) -> None:
    rows = [add_entry(store, namespace, name) for name in "bdfh"]
    with store.write() as conn:
        assert tables.list_names(conn, namespace.catalog_id, namespace.levels, "table", None, 2) == ["b", "d"]
        entry_changes.delete(conn, rows[1].id, None)
    add_entry(store, namespace, "a")
    with store.read() as conn:
        assert tables.list_names(conn, namespace.catalog_id, namespace.levels, "table", "d", 2) == ["f", "h"]


def test_scan_goes_over_all_catalogs(store: Store, namespace: NamespaceRow) -> None:
    elsewhere = add_namespace(store, add_catalog(store, "other").id, "x")
    rows = [
        *(add_entry(store, namespace, name) for name in "abc"),
        *(add_entry(store, elsewhere, name) for name in "ab"),
    ]
    add_entry(store, namespace, "v", "view")
    seen: list[EntryRow] = []
    with store.read() as conn:
        while page := tables.scan(conn, "table", seen[-1].id if seen else None, 2):
            seen += page
    assert seen == rows
