"""Reads that wait for nothing, and what they do where they would have to wait."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa

from floecat.errors import StoreUnavailableError
from floecat.store.catalogs.namespaces import NamespaceRow
from floecat.store.database.engine import Store
from floecat.store.database.read_connections import AtOnceConnection
from floecat.store.entries import entry_changes, tables
from floecat.store.entries.documents import compress
from floecat.store.schema import accounts
from tests.behaviour.store.rows import add_catalog, add_namespace, entry_of, swap

FIRST = sa.select(sa.literal(1))
ACCOUNTS = sa.select(accounts.c.id)


@pytest.fixture
def backend() -> str:
    return "sqlite"


@pytest.fixture
def at_once(store: Store) -> AtOnceConnection:
    assert isinstance(store.at_once, AtOnceConnection)
    return store.at_once


def insert(store: Store, namespace: NamespaceRow, name: str) -> tables.EntryRow:
    row = entry_of(namespace, name)
    with store.write() as conn:
        entry_changes.insert(conn, row, compress(b"{}"), 2)
    return row


def test_a_commit_of_another_connection_is_seen_and_a_rollback_is_not(
    store: Store, at_once: AtOnceConnection, url: str
) -> None:
    row = insert(store, add_namespace(store, add_catalog(store).id, "a"), "t")
    elsewhere = Store.open(url)
    before = tables.state(at_once, row.id)
    assert before is not None
    assert before[0] == row.state

    def roll_back() -> None:
        with elsewhere.write() as conn:
            assert swap(conn, row, row.version, "s3://lake/t/metadata/1.json")
            assert tables.state(at_once, row.id) == before
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        roll_back()
    assert tables.state(at_once, row.id) == before
    with elsewhere.write() as conn:
        assert swap(conn, row, row.version, "s3://lake/t/metadata/1.json")
    after = (row.id, row.version + 1, "s3://lake/t/metadata/1.json")
    assert tables.state(at_once, row.id) == (after, *before[1:])
    with elsewhere.write() as conn:
        assert entry_changes.delete(conn, row.id, None)
    assert tables.state(at_once, row.id) is None
    elsewhere.close()


def test_the_pool_is_not_asked(url: str) -> None:
    store = Store.open(url, pool_size=1, timeout_s=0.1)
    assert store.at_once is not None
    with store.read() as conn:
        conn.first(FIRST)
        assert store.at_once.first(FIRST) == (1,)
        with pytest.raises(StoreUnavailableError), store.read():
            pass
    store.close()


def test_a_statement_is_counted(store: Store, at_once: AtOnceConnection) -> None:
    with store.count_statements() as counter:
        at_once.first(FIRST)
    assert (counter.statements, counter.transactions) == (1, 0)


def test_a_lock_of_another_is_not_waited_for(store: Store, at_once: AtOnceConnection, url: str) -> None:
    store.ping()
    with sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None) as other:
        store.close()  # so that no other connection keeps the file from being locked
        other.execute("PRAGMA locking_mode=EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreUnavailableError):
            at_once.first(ACCOUNTS)
        other.execute("ROLLBACK")
        other.execute("PRAGMA locking_mode=NORMAL")
        other.execute("SELECT count(*) FROM accounts").fetchall()
    other.close()
    assert at_once.all(ACCOUNTS) == []


def test_a_second_thread_is_told_to_go_elsewhere(at_once: AtOnceConnection) -> None:
    with at_once._lock, pytest.raises(StoreUnavailableError):
        at_once.first(FIRST)
    assert at_once.first(FIRST) == (1,)


def test_it_only_reads(at_once: AtOnceConnection) -> None:
    change = sa.text("DELETE FROM accounts")
    with pytest.raises(RuntimeError, match=r"Store\.write"):
        at_once.all(change)
    with pytest.raises(RuntimeError, match=r"Store\.write"):
        at_once.change(change)
    with pytest.raises(RuntimeError, match=r"Store\.write"):
        at_once.change_many(change, [{}])


def test_a_closed_one_opens_again(store: Store, at_once: AtOnceConnection) -> None:
    at_once.first(FIRST)
    store.close()
    assert at_once.first(FIRST) == (1,)
    store.close()


def test_a_thread_that_reads_at_once_takes_nothing_from_the_pool(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path}/s.db", pool_size=1, timeout_s=0.5)
    store.upgrade()
    with store.read(), store.reading_at_once() as is_local:  # the only connection of the pool
        assert is_local
        store.ping()
        with ThreadPoolExecutor(1) as other, pytest.raises(StoreUnavailableError):
            other.submit(store.ping).result()
    store.ping()
    store.close()
