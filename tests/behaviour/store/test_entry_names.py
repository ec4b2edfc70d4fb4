"""Names of entries: the current ones, and those that the commit log remembers."""

from __future__ import annotations

import msgspec
import uuid_utils.compat as uuids

from floecat.events.live_entries import LiveEntries
from floecat.identifiers.namespace import TableIdentifier
from floecat.store.catalogs import accounts, catalogs
from floecat.store.catalogs.catalogs import CatalogRow
from floecat.store.commits import commit_log
from floecat.store.database.engine import Store
from floecat.store.entries import entry_names
from floecat.store.entries.tables import EntryRow
from tests.behaviour.store.rows import NOW_MS, add_catalog, add_entry, add_namespace, log_entry


def log(store: Store, row: EntryRow, *commits: tuple[str, str, str]) -> None:
    """Appends commits of an entry: operation, name after it, principal."""
    with store.write() as conn:
        for operation, name, principal in commits:
            entry = msgspec.structs.replace(
                log_entry(name, operation), entry_id=row.id, namespace=("n",), principal=principal
            )
            commit_log.append(conn, row.catalog_id, [entry], NOW_MS)


def test_entries_of_both_kinds_are_scanned_by_age(store: Store, catalog: CatalogRow) -> None:
    namespace = add_namespace(store, catalog.id, "n", "日本")
    rows = [add_entry(store, namespace, name, kind) for name, kind in (("b", "table"), ("a", "view"))]
    log(store, rows[0], ("create", "z", "anna"), ("commit", "z", "bob"), ("rename", "b", "carl"))
    with store.read() as conn:
        first, second = entry_names.scan(conn, None, 10)
        assert entry_names.scan(conn, first.entry_id, 10) == [second]
        assert entry_names.scan(conn, None, 1) == [first]
        assert entry_names.get(conn, second.entry_id) == second
        assert entry_names.get(conn, uuids.uuid7()) is None
        assert entry_names.formats_of(conn, [rows[0].id, uuids.uuid7()]) == {rows[0].id: "iceberg"}
    assert first == entry_names.EntryName(
        rows[0].id,
        catalog.id,
        TableIdentifier(("n", "日本"), "b"),
        "table",
        "iceberg",
        rows[0].location,
        rows[0].metadata_location,
        NOW_MS,
        "anna",
    )
    assert (second.identifier.name, second.kind, second.created_by) == ("a", "view", None)


def test_names_that_entries_had(store: Store, catalog: CatalogRow) -> None:
    namespace = add_namespace(store, catalog.id, "n")
    row, other = add_entry(store, namespace, "c"), add_entry(store, namespace, "d")
    log(store, row, ("create", "a", "anna"), ("commit", "a", "x"), ("rename", "b", "bob"))
    log(store, other, ("register", "d", "dora"))
    log(store, row, ("rename", "c", "carl"), ("drop", "c", "x"))
    with store.read() as conn:
        changes = entry_names.changes_of(conn, [row.id, other.id])
        assert entry_names.changes_of(conn, [uuids.uuid7()]) == []
    assert [(each.commit_version, each.identifier.name, each.principal) for each in changes] == [
        (1, "a", "anna"),
        (3, "b", "bob"),
        (4, "d", "dora"),
        (5, "c", "carl"),
    ]


def test_catalogs_of_two_accounts_may_share_a_name(store: Store) -> None:
    home = add_catalog(store, "floecat")
    account_id = uuids.uuid7()
    away = CatalogRow(uuids.uuid7(), account_id, "floecat", "file:///x", (), {}, 0, 1, 2)
    with store.write() as conn:
        accounts.ensure(conn, account_id, NOW_MS)
        catalogs.insert(conn, away)
    made = [add_entry(store, add_namespace(store, row.id, "n"), "t") for row in (home, away)]
    entries = LiveEntries(store, default_account_id=home.account_id)
    assert [entry.qualified_name for entry in entries] == ["floecat.n.t", f"floecat@{account_id}.n.t"]
    assert entries.get(made[1].id) == list(entries)[1]
    assert entries.get(uuids.uuid7()) is None
