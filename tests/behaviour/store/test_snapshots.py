"""Snapshots and refs."""

from __future__ import annotations

import pytest
import uuid_utils.compat as uuids

from floecat.store.catalogs.namespaces import NamespaceRow
from floecat.store.database.engine import Store
from floecat.store.database.errors import DuplicateKeyError, ForeignKeyError
from floecat.store.entries.snapshots import (
    RefRow,
    SnapshotRow,
    delete_many,
    insert_many,
    list_all,
    replace_refs,
)
from tests.behaviour.store.rows import add_entry, refs_of

FIRST = SnapshotRow(2**62, None, 0, 1, None, None, None)
SECOND = SnapshotRow(7, 2**62, 1, 2, 0, "append", "s3://lake/m")
THIRD = SnapshotRow(8, 7, 2, 2, 1, "delete", "s3://lake/n")


def test_snapshots(store: Store, namespace: NamespaceRow) -> None:
    table, other = add_entry(store, namespace, "a"), add_entry(store, namespace, "b")
    with store.write() as conn:
        insert_many(conn, table.id, [THIRD, FIRST, SECOND])
        insert_many(conn, table.id, [])
        insert_many(conn, other.id, [FIRST])
        assert list_all(conn, table.id) == [FIRST, SECOND, THIRD]
        delete_many(conn, table.id, [7, 99])
        delete_many(conn, table.id, [])
        assert list_all(conn, table.id) == [FIRST, THIRD]
        assert list_all(conn, other.id) == [FIRST]


def test_a_snapshot_comes_once(store: Store, namespace: NamespaceRow) -> None:
    table = add_entry(store, namespace, "a")
    with pytest.raises(DuplicateKeyError), store.write() as conn:
        insert_many(conn, table.id, [FIRST, FIRST])
    with pytest.raises(ForeignKeyError), store.write() as conn:
        insert_many(conn, uuids.uuid7(), [FIRST])
    with pytest.raises(ForeignKeyError), store.write() as conn:
        replace_refs(conn, uuids.uuid7(), [RefRow("main", "branch", 1)])


def test_many_snapshots(store: Store, namespace: NamespaceRow) -> None:
    table = add_entry(store, namespace, "a")
    rows = [SnapshotRow(number, number - 1, number, number, 0, "append", "s3://m") for number in range(3000)]
    with store.count_statements() as counter, store.write() as conn:
        insert_many(conn, table.id, rows)
        delete_many(conn, table.id, range(2990))
    assert counter.statements == 2
    with store.read() as conn:
        assert list_all(conn, table.id) == rows[2990:]


def test_refs(store: Store, namespace: NamespaceRow) -> None:
    table = add_entry(store, namespace, "a")
    refs = [RefRow("main", "branch", 7), RefRow("Main", "tag", 2**62), RefRow("é/ü", "tag", -1)]
    with store.write() as conn:
        replace_refs(conn, table.id, refs)
        assert refs_of(conn, table.id) == sorted(refs, key=lambda ref: ref.name)
        replace_refs(conn, table.id, refs[:1])
        assert refs_of(conn, table.id) == refs[:1]
        replace_refs(conn, table.id, [])
        assert refs_of(conn, table.id) == []
