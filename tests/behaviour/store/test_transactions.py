"""Connections and transactions: what is applied, what is not, and which error says so."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
import uuid_utils.compat as uuids

from floecat.errors import BadRequestError, StoreUnavailableError
from floecat.identifiers.namespace import TableIdentifier
from floecat.store import schema
from floecat.store.catalogs import accounts, catalogs, namespaces
from floecat.store.catalogs.catalogs import CatalogRow
from floecat.store.catalogs.namespaces import NamespaceRow
from floecat.store.commits import commit_log
from floecat.store.database.engine import Connection, Store
from floecat.store.database.errors import (
    DuplicateKeyError,
    ForeignKeyError,
    StoreFaultError,
    TransactionConflictError,
)
from floecat.store.entries import tables
from floecat.store.entries.snapshots import SnapshotRow, insert_many
from floecat.store.jobs import leases
from tests.behaviour.store.rows import (
    NOW_MS,
    account_ids,
    add_catalog,
    add_entry,
    add_namespace,
    at_once,
    log_entry,
)


class Oops(Exception):
    pass


def test_a_block_that_ends_is_committed(store: Store) -> None:
    catalog = add_catalog(store)
    with store.read() as conn:
        assert catalogs.get(conn, catalog.id) == catalog


def test_a_block_that_raises_is_rolled_back(store: Store) -> None:
    account_id = uuids.uuid7()

    def work(conn: Connection) -> None:
        accounts.ensure(conn, account_id, NOW_MS)
        raise Oops

    with pytest.raises(Oops):
        store.run(work)
    with store.read() as conn:
        assert account_ids(conn) == []


def test_nothing_is_seen_before_the_commit(store: Store) -> None:
    account_id = uuids.uuid7()
    with store.write() as conn:
        accounts.ensure(conn, account_id, NOW_MS)
        with store.read() as other:
            assert account_ids(other) == []
        assert account_ids(conn) == [account_id]


def test_an_error_that_was_swallowed_rolls_back(store: Store, catalog: CatalogRow) -> None:
    account_id = uuids.uuid7()

    def work(conn: Connection) -> None:
        accounts.ensure(conn, account_id, NOW_MS)
        with pytest.raises(DuplicateKeyError):
            catalogs.insert(conn, catalog)
        with pytest.raises(StoreFaultError):
            account_ids(conn)

    with pytest.raises(StoreFaultError):
        store.run(work)
    with store.read() as conn:
        assert account_id not in account_ids(conn)
    with store.write() as conn:  # the connection is as good as new
        assert accounts.ensure(conn, account_id, NOW_MS)


def test_a_read_connection_takes_no_change(store: Store) -> None:
    with store.read() as conn, pytest.raises(RuntimeError, match=r"Store\.write"):
        accounts.ensure(conn, uuids.uuid7(), NOW_MS)


def test_one_transaction_per_thread(store: Store) -> None:
    with store.write(), pytest.raises(RuntimeError, match="transaction open"), store.write():
        pass
    store.run(account_ids)


def test_errors_name_the_table(store: Store, catalog: CatalogRow, backend: str) -> None:
    with pytest.raises(DuplicateKeyError) as duplicate, store.write() as conn:
        catalogs.insert(conn, catalog)
    assert duplicate.value.table == "catalogs"
    with pytest.raises(ForeignKeyError) as missing, store.write() as conn:
        insert_many(conn, uuids.uuid7(), [SnapshotRow(1, None, 1, 1, None, None, None)])
    assert missing.value.table == ("snapshots" if backend == "postgresql" else None)


@pytest.mark.parametrize("name", ["\ud800", "half \udfff"])
def test_text_that_is_not_unicode_is_refused(store: Store, namespace: NamespaceRow, name: str) -> None:
    identifier = TableIdentifier(namespace.levels, name)
    with store.read() as conn, pytest.raises(BadRequestError):
        tables.find(conn, namespace.catalog_id, identifier)
    with store.read() as conn, pytest.raises(BadRequestError):
        tables.load_many(conn, namespace.catalog_id, [(identifier, None)])
    with pytest.raises(BadRequestError), store.write() as conn:
        namespaces.set_properties(conn, namespace.id, {"key": name}, NOW_MS, "anna")
    with pytest.raises(BadRequestError), store.write() as conn:
        leases.acquire(conn, name, uuids.uuid7(), NOW_MS, 1)


def test_numbers_beyond_64_bits_are_refused(store: Store, namespace: NamespaceRow) -> None:
    row = add_entry(store, namespace, "t")
    with pytest.raises(BadRequestError), store.write() as conn:
        insert_many(conn, row.id, [SnapshotRow(2**63, None, 1, 1, None, None, None)])
    with store.write() as conn:
        insert_many(conn, row.id, [SnapshotRow(2**63 - 1, -(2**63), 1, 1, None, None, None)])


def test_messages_hold_no_values(store: Store, catalog: CatalogRow) -> None:
    with pytest.raises(DuplicateKeyError) as error, store.write() as conn:
        catalogs.insert(conn, catalog)
    seen = error.value
    assert catalog.name not in str(seen)
    assert seen.__cause__ is None
    assert seen.__suppress_context__


def test_all_connections_in_use(url: str) -> None:
    small = Store.open(url, pool_size=1, timeout_s=1)
    with small.read() as conn:
        account_ids(conn)
        with ThreadPoolExecutor(1) as threads:
            refused = threads.submit(small.ping)
            with pytest.raises(StoreUnavailableError, match="in use"):
                refused.result(timeout=120)
            write = threads.submit(lambda: small.run(account_ids))
            if url.startswith("sqlite"):  # which writes on a connection of its own
                write.result(timeout=120)
            else:
                with pytest.raises(StoreUnavailableError):
                    write.result(timeout=120)
    small.ping()
    small.run(account_ids)
    small.close()


LOCK_TIMEOUT = sa.select(sa.column("setting")).select_from(sa.table("pg_settings"))
LOCK_TIMEOUT = LOCK_TIMEOUT.where(sa.column("name") == "lock_timeout")


@pytest.fixture
def lock_waits() -> Iterator[list[int]]:
    """Milliseconds that connections to SQLite are told to wait for a lock, as they are told."""
    found: list[int] = []

    def note(statement: str) -> None:
        told = re.fullmatch(r"PRAGMA busy_timeout=(\d+)", statement)
        if told:
            found.append(int(told[1]))

    def trace(connection: Any, _record: object) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.set_trace_callback(note)

    sa.event.listen(sa.Pool, "connect", trace)
    yield found
    sa.event.remove(sa.Pool, "connect", trace)


def test_waits_for_a_turn_and_for_a_lock_share_one_time(
    url: str, backend: str, lock_waits: list[int]
) -> None:
    small = Store.open(url, pool_size=1, timeout_s=2)

    def work(conn: Connection) -> None:
        if backend == "postgresql":
            lock_waits[:] = [int(conn.all(LOCK_TIMEOUT)[0][0])]

    with ThreadPoolExecutor(1) as threads:
        for _ in range(20):  # how long the thread waits is up to the machine
            # on SQLite writers wait for each other, on PostgreSQL for a connection
            with small.write() if backend == "sqlite" else small.read():
                waits = threads.submit(small.run, work)
                time.sleep(0.4)
            with suppress(StoreUnavailableError):
                waits.result(timeout=120)
            if lock_waits and lock_waits[0] < 1800:
                break
    assert lock_waits[0] < 1800
    assert lock_waits[1:] == ([] if backend == "postgresql" else [2000])
    small.close()


@pytest.fixture
def impatient(url: str) -> Iterator[Store]:
    """A second process on the same store."""
    store = Store.open(url, timeout_s=0.4)
    yield store
    store.close()


def test_a_lock_that_does_not_come(store: Store, impatient: Store, namespace: NamespaceRow) -> None:
    with store.write() as conn:
        namespaces.get(conn, namespace.catalog_id, namespace.levels, for_update=True)
        started = time.monotonic()
        with ThreadPoolExecutor(1) as threads:
            refused = threads.submit(
                impatient.run,
                lambda other: namespaces.set_properties(other, namespace.id, {"a": "1"}, 1, "anna"),
            )
            with pytest.raises(StoreUnavailableError):
                refused.result(timeout=120)
        assert time.monotonic() - started > 0.3
        with store.read() as other:  # reads do not wait for writers
            assert namespaces.get(other, namespace.catalog_id, namespace.levels) == namespace
    store.run(lambda conn: namespaces.set_properties(conn, namespace.id, {"a": "1"}, 1, "anna"))


def test_writers_of_one_process_queue(store: Store, catalog: CatalogRow) -> None:
    def work(number: int) -> int:
        return store.run(lambda conn: commit_log.append(conn, catalog.id, [log_entry("t")], NOW_MS)).numbers[
            0
        ]

    numbers = [number for each in range(5) for number in at_once(8, work)]
    assert sorted(numbers) == list(range(1, 41))


def test_what_goes_with_commit_fails_or_is_there_with_all_else(store: Store, namespace: NamespaceRow) -> None:
    insert_account = sa.insert(schema.accounts)

    def work(conn: Connection, *accounts: UUID) -> None:
        namespaces.set_properties(conn, namespace.id, {"mark": str(accounts[0])}, NOW_MS, "anna")
        rows = ({"id": each, "name": str(each), "created_at_ms": NOW_MS} for each in accounts)
        conn.change_later(insert_account, *rows)

    def properties(conn: Connection) -> dict[str, str]:
        row = namespaces.get(conn, namespace.catalog_id, namespace.levels)
        assert row is not None
        return row.properties

    def with_another_statement(conn: Connection) -> dict[str, str]:
        work(conn, taken)
        return properties(conn)

    def with_several(conn: Connection) -> None:
        work(conn, uuids.uuid7(), taken, uuids.uuid7())

    taken = uuids.uuid7()
    store.run(lambda conn: work(conn, taken))
    for _ in range(10):  # also when the driver has prepared the statements
        fresh = uuids.uuid7()
        store.run(lambda conn, fresh=fresh: work(conn, fresh, uuids.uuid7()))  # type: ignore[misc]
        for refused in (lambda conn: work(conn, taken), with_several, with_another_statement):
            with pytest.raises(DuplicateKeyError) as duplicate:
                store.run(refused)
            assert duplicate.value.table == "accounts"
        with store.read() as conn:
            assert properties(conn) == {"mark": str(fresh)}
            assert fresh in account_ids(conn)


def test_writers_of_several_processes_queue(store: Store, url: str, namespace: NamespaceRow) -> None:
    stores = [store, Store.open(url), Store.open(url)]

    def work(number: int) -> None:
        for _ in range(5):
            with stores[number % 3].write() as conn:
                row = namespaces.get(conn, namespace.catalog_id, namespace.levels, for_update=True)
                assert row is not None
                count = int(row.properties.get("count", "0")) + 1
                namespaces.set_properties(conn, row.id, {"count": str(count)}, NOW_MS, "anna")

    at_once(6, work)
    for each in stores[1:]:
        each.close()
    with store.read() as conn:
        row = namespaces.get(conn, namespace.catalog_id, namespace.levels)
    assert row is not None
    assert row.properties == {"count": "30"}


def test_a_conflict_is_run_again(store: Store) -> None:
    account_id = uuids.uuid7()
    attempts = []

    def work(conn: Connection) -> str:
        attempts.append(accounts.ensure(conn, account_id, NOW_MS))
        if len(attempts) < 3:
            raise TransactionConflictError("planted")
        return "done"

    assert store.run(work) == "done"
    assert attempts == [True, True, True]  # the first two were rolled back


def test_conflicts_without_end(store: Store) -> None:
    attempts = []

    def work(conn: Connection) -> None:
        attempts.append(conn)
        raise TransactionConflictError("planted")

    with pytest.raises(StoreUnavailableError):
        store.run(work)
    assert 3 <= len(attempts) <= 20


def test_transactions_that_wait_for_each_other(store: Store, catalog: CatalogRow) -> None:
    rows = [add_namespace(store, catalog.id, name) for name in ("a", "b")]
    met = threading.Barrier(2)
    attempts = []

    def work(number: int) -> None:
        first, second = rows if number == 0 else reversed(rows)

        def change(conn: Connection) -> None:
            attempts.append(number)
            namespaces.set_properties(conn, first.id, {"by": str(number)}, NOW_MS, "anna")
            if len(attempts) <= 2:
                with suppress(threading.BrokenBarrierError):
                    met.wait(timeout=0.5)  # on SQLite only one comes this far
            namespaces.set_properties(conn, second.id, {"by": str(number)}, NOW_MS, "anna")

        store.run(change)

    at_once(2, work)
    with store.read() as conn:
        owners = {row.properties["by"] for row in namespaces.children(conn, catalog.id, None, None, None)}
    assert len(owners) == 1


def test_statements_are_counted(store: Store, catalog: CatalogRow) -> None:
    with store.count_statements() as counter:
        with store.read() as conn:
            catalogs.get(conn, catalog.id)
            catalogs.list_all(conn, catalog.account_id)
        with store.write() as conn:
            accounts.ensure(conn, catalog.account_id, NOW_MS)
        at_once(2, lambda _: store.ping())  # other threads have contexts of their own
    assert (counter.statements, counter.transactions, counter.total) == (3, 1, 5)
    store.ping()
    assert counter.total == 5


def test_a_prepared_query_gives_what_an_ordinary_one_does(store: Store, namespace: NamespaceRow) -> None:
    row = add_entry(store, namespace, "t")
    identifier = TableIdentifier(namespace.levels, "t")
    with store.read() as conn:
        prepared = tables.load(conn, namespace.catalog_id, identifier, None)
        many = tables.load_many(conn, namespace.catalog_id, [(identifier, None)])
    with store.write() as conn:
        assert tables.load(conn, namespace.catalog_id, identifier, None) == prepared
        assert (
            tables.load_many(conn, namespace.catalog_id, [(identifier, None)])
            == many
            == {identifier: prepared}
        )
    assert prepared is not None
    assert prepared.id == row.id


_FORK = """
import os, sys
import uuid_utils.compat as uuids
from floecat.store import schema
from floecat.store.catalogs import accounts
from floecat.store.entries import tables
from floecat.store.database.engine import Store
from floecat.store.schema import accounts as rows

def read_at_once():
    assert store.at_once is None or tables.state(store.at_once, ours) is None

store = Store.open(sys.argv[1])
ours, theirs = uuids.uuid7(), uuids.uuid7()
with store.write() as conn:
    accounts.ensure(conn, ours, 1)
    read_at_once()
    child = os.fork()
    if child == 0:
        store.ping()
        read_at_once()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
child = os.fork()
if child == 0:
    with store.write() as conn:
        accounts.ensure(conn, theirs, 2)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
with store.read() as conn:
    found = {row[0] for row in conn.all(rows.select())}
assert {ours, theirs} <= found, found
"""


def test_a_fork_opens_connections_of_its_own(store: Store, url: str) -> None:
    subprocess.run([sys.executable, "-c", _FORK, url], check=True, timeout=60)


_FORK_AND_GO = """
import os, subprocess, sys
import uuid_utils.compat as uuids
from floecat.store.catalogs import accounts
from floecat.store.database.engine import Store

SELECT = "SELECT count(*) FROM accounts"
COUNT = f"import sqlite3, sys; print(*sqlite3.connect(sys.argv[1]).execute('{SELECT}').fetchone())"

store = Store.open(f"sqlite:///{sys.argv[1]}")
store.ping()
gone, leave = os.pipe()
if os.fork() > 0:
    os._exit(0)
os.close(leave)
store.run(lambda conn: accounts.ensure(conn, uuids.uuid7(), 1))
os.read(gone, 1)  # until the parent is gone
for _ in range(2):
    # the last process that closes the file removes its WAL
    subprocess.run([sys.executable, "-c", COUNT, sys.argv[1]], check=True)
    store.run(lambda conn: accounts.ensure(conn, uuids.uuid7(), 1))
subprocess.run([sys.executable, "-c", COUNT, sys.argv[1]], check=True)
"""

_FORK_IN_USE = """
import os, sys
import uuid_utils.compat as uuids
from floecat.store.catalogs import accounts
from floecat.store.database.engine import Store
from floecat.store.database.errors import StoreFaultError

store = Store.open(f"sqlite:///{sys.argv[1]}")
with store.write() as conn:
    accounts.ensure(conn, uuids.uuid7(), 1)
    child = os.fork()
    if child == 0:
        try:
            store.run(lambda conn: accounts.ensure(conn, uuids.uuid7(), 1))
        except StoreFaultError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
store.run(lambda conn: accounts.ensure(conn, uuids.uuid7(), 1))
"""


@pytest.fixture
def sqlite_file(upgraded_store: Callable[[str], str]) -> Path:
    return Path(upgraded_store("sqlite").removeprefix("sqlite:///"))


def test_a_child_that_outlives_its_parent_loses_no_change(sqlite_file: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FORK_AND_GO, str(sqlite_file)], check=True, timeout=60, stdout=subprocess.PIPE
    )
    assert done.stdout.split() == [b"1", b"2", b"3"]


def test_a_child_makes_no_change_if_the_store_was_in_use(sqlite_file: Path) -> None:
    subprocess.run([sys.executable, "-c", _FORK_IN_USE, str(sqlite_file)], check=True, timeout=60)


def test_a_store_without_tables(empty_url: str) -> None:
    bare = Store.open(empty_url)
    bare.ping()
    with bare.read() as conn, pytest.raises(StoreFaultError, match="floecat db upgrade"):
        account_ids(conn)
    with pytest.raises(StoreFaultError, match="floecat db upgrade"), bare.write() as conn:
        accounts.ensure(conn, uuids.uuid7(), 1)
    bare.close()
