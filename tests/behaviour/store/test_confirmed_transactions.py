"""Traces of transactions: found by their id, and kept for a while."""

from __future__ import annotations

import uuid_utils.compat as uuids

from floecat.store.commits import commit_log
from floecat.store.commits.confirmed_transactions import delete_traces, leave_trace, was_committed
from floecat.store.database.engine import Store
from tests.behaviour.store.rows import NOW_MS, add_catalog, log_entry


def test_a_transaction_is_found_by_its_trace_wherever_it_left_it(store: Store) -> None:
    catalog = add_catalog(store)
    logged, unlogged, absent = uuids.uuid7(), uuids.uuid7(), uuids.uuid7()
    with store.write() as conn:
        commit_log.append(conn, catalog.id, [log_entry("t")], NOW_MS, transaction_id=logged)
        leave_trace(conn, unlogged, NOW_MS)
    with store.read() as conn:
        found = [was_committed(conn, catalog.id, each) for each in (logged, unlogged, absent)]
    assert found == [True, True, False]


def test_old_traces_are_deleted_in_batches(store: Store) -> None:
    catalog = add_catalog(store)
    ids = [uuids.uuid7() for _ in range(5)]
    with store.write() as conn:
        for number, each in enumerate(ids):
            leave_trace(conn, each, NOW_MS + number)
    with store.write() as conn:
        assert delete_traces(conn, NOW_MS + 4, 3) == 3
        assert delete_traces(conn, NOW_MS + 4, 3) == 1
        assert [was_committed(conn, catalog.id, each) for each in ids[3:]] == [False, True]
