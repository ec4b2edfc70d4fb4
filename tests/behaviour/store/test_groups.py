"""Transactions of one catalog that share a COMMIT."""

from __future__ import annotations

import threading
from contextlib import suppress

import sqlalchemy as sa
import uuid_utils.compat as uuids

from floecat.errors import ConflictError
from floecat.store import schema
from floecat.store.catalogs import accounts, namespaces
from floecat.store.catalogs.catalogs import CatalogRow
from floecat.store.commits import commit_log
from floecat.store.database.engine import Connection, Store
from floecat.store.database.errors import DuplicateKeyError
from tests.behaviour.store.rows import (
    NOW_MS,
    Work,
    account_ids,
    add_namespace,
    at_once,
    log_entry,
    together,
)

INSERT_ACCOUNT = sa.insert(schema.accounts)


def test_works_of_a_catalog_share_a_transaction(store: Store, catalog: CatalogRow) -> None:
    seen: list[tuple[int, int]] = []

    def work(conn: Connection) -> int:
        number = commit_log.append(conn, catalog.id, [log_entry("t")], NOW_MS).numbers[0]
        with store.read() as other:
            committed = commit_log.read_after(other, catalog.id, 0, 10)
        seen.append((len(commit_log.read_after(conn, catalog.id, 0, 10)), len(committed)))
        return number

    outcomes = together(store, catalog.id, work, work, work)
    assert [outcome.result() for outcome in outcomes] == [1, 2, 3]
    assert seen == [(1, 0), (2, 0), (3, 0)]
    with store.read() as conn:
        assert [row.commit_version for row in commit_log.read_after(conn, catalog.id, 0, 10)] == [1, 2, 3]


def test_a_work_that_fails_fails_alone(store: Store, catalog: CatalogRow) -> None:
    made = [uuids.uuid7() for _ in range(6)]

    def insert(number: int) -> Work:
        return lambda conn: accounts.ensure(conn, made[number], NOW_MS)

    def refused(conn: Connection) -> None:
        accounts.ensure(conn, made[3], NOW_MS)
        raise ConflictError("planted")

    def duplicate(conn: Connection) -> None:
        accounts.ensure(conn, made[4], NOW_MS)
        conn.change(INSERT_ACCOUNT, {"id": catalog.account_id, "name": "a", "created_at_ms": NOW_MS})

    def late_duplicate(conn: Connection) -> None:
        accounts.ensure(conn, made[5], NOW_MS)
        conn.change_later(INSERT_ACCOUNT, {"id": catalog.account_id, "name": "a", "created_at_ms": NOW_MS})

    works = [insert(0), refused, insert(1), duplicate, late_duplicate, insert(2)]
    outcomes = together(store, catalog.id, *works)
    failures = [type(outcome.exception()) for outcome in outcomes]
    nothing = type(None)
    assert failures == [nothing, ConflictError, nothing, DuplicateKeyError, DuplicateKeyError, nothing]
    with store.read() as conn:
        assert set(made) & set(account_ids(conn)) == set(made[:3])


def test_processes_never_wait_for_each_other_in_a_circle(store: Store, url: str, catalog: CatalogRow) -> None:
    rows = [add_namespace(store, catalog.id, name) for name in ("a", "b")]
    other = Store.open(url)
    met = threading.Barrier(2)
    runs: list[int] = []

    def work(number: int) -> None:
        ordered = rows if number == 0 else rows[::-1]

        def change(conn: Connection) -> None:
            runs.append(number)
            for row in ordered:
                namespaces.set_properties(conn, row.id, {"by": str(number)}, NOW_MS, "anna")
                with suppress(threading.BrokenBarrierError):
                    met.wait(timeout=0.2)  # which only one at a time reaches

        (store, other)[number].run(change, catalog_id=catalog.id)

    at_once(2, work)
    assert sorted(runs) == [0, 1]
    other.close()
