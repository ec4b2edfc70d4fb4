"""Queries with their pins, and plans with their tasks."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec
import pytest
import uuid_utils.compat as uuids

from floecat.store.catalogs.catalogs import CatalogRow
from floecat.store.database.engine import Connection, Store
from floecat.store.planning import plans, queries
from floecat.store.planning.plans import PlanRow, TaskRow
from floecat.store.planning.queries import PinRow, QueryRow
from tests.behaviour.store.rows import NOW_MS, at_once

TTL_MS = 60_000
END_MS = NOW_MS + TTL_MS


def new_query(catalog: CatalogRow, **fields: Any) -> QueryRow:
    row = QueryRow(
        id=uuids.uuid7(),
        catalog_id=catalog.id,
        principal="anna",
        state="submitted",
        created_at_ms=NOW_MS,
        expires_at_ms=END_MS,
    )
    return msgspec.structs.replace(row, **fields)


def begun(store: Store, catalog: CatalogRow, **fields: Any) -> QueryRow:
    row = new_query(catalog, **fields)
    assert store.run(lambda conn: queries.insert(conn, row))
    return row


def planned(store: Store, catalog: CatalogRow, tasks: int = 0, **fields: Any) -> QueryRow:
    query = new_query(catalog, **fields)
    plan = PlanRow(query_id=query.id, entry_id=uuids.uuid7(), request=b"request")
    rows = [TaskRow(query_id=query.id, number=number, answer=b"%d" % number) for number in range(tasks)]
    assert store.run(lambda conn: plans.insert(conn, query, plan, rows))
    return query


def pin_of(query: QueryRow, table_id: UUID, snapshot_id: int) -> PinRow:
    return PinRow(
        query_id=query.id,
        table_id=table_id,
        kind="current",
        snapshot_id=snapshot_id,
        metadata_location="s3://lake/1",
        schema_id=0,
        pinned_at_ms=NOW_MS,
    )


class TestQueries:
    def test_round_trip_and_expiry(self, store: Store, catalog: CatalogRow) -> None:
        row = begun(store, catalog, obligations='[{"table":1}]', as_of_default_ms=5)
        with store.read() as conn:
            assert queries.get(conn, row.id, NOW_MS) == row
            assert queries.get(conn, row.id, END_MS) is None

    def test_an_id_is_taken_once(self, store: Store, catalog: CatalogRow) -> None:
        row = begun(store, catalog)
        assert not store.run(lambda conn: queries.insert(conn, row))

    def test_a_renewal_never_shortens(self, store: Store, catalog: CatalogRow) -> None:
        row = begun(store, catalog)
        assert store.run(lambda conn: queries.renew(conn, row.id, END_MS + 5, NOW_MS))
        assert store.run(lambda conn: queries.renew(conn, row.id, NOW_MS + 1, NOW_MS))
        with store.read() as conn:
            assert queries.get(conn, row.id, END_MS + 4) is not None
        assert not store.run(lambda conn: queries.renew(conn, row.id, END_MS + 9, END_MS + 5))

    def test_an_ended_query_stays_for_its_grace(self, store: Store, catalog: CatalogRow) -> None:
        row = begun(store, catalog)

        def end(conn: Connection) -> bool:
            return queries.end(conn, row.id, "ended_abort", NOW_MS + 1, 10)

        assert store.run(end)
        assert not store.run(end)
        assert not store.run(lambda conn: queries.renew(conn, row.id, END_MS + 5, NOW_MS + 2))
        assert not store.run(lambda conn: queries.set_state(conn, row.id, "completed", NOW_MS + 2))
        with store.read() as conn:
            ended = queries.get(conn, row.id, NOW_MS + 10)
            assert ended is not None
            assert (ended.state, ended.ended_at_ms) == ("ended_abort", NOW_MS + 1)
            assert queries.get(conn, row.id, NOW_MS + 11) is None

    def test_open_queries_are_counted_up_to_a_limit(self, store: Store, catalog: CatalogRow) -> None:
        for principal in ("anna", "anna", "bert"):
            begun(store, catalog, principal=principal)
        begun(store, catalog, ended_at_ms=NOW_MS)
        with store.read() as conn:
            assert queries.count_open(conn, catalog.id, NOW_MS, 10, None) == 3
            assert queries.count_open(conn, catalog.id, NOW_MS, 10, "anna") == 2
            assert queries.count_open(conn, catalog.id, NOW_MS, 1, "anna") == 1
            assert queries.count_open(conn, catalog.id, END_MS, 10, None) == 0

    def test_the_first_pin_of_a_table_wins(self, store: Store, catalog: CatalogRow) -> None:
        query, table_id = begun(store, catalog), uuids.uuid7()
        won = at_once(
            4, lambda number: store.run(lambda conn: queries.pin(conn, pin_of(query, table_id, number)))
        )
        assert sorted(won) == [False, False, False, True]
        store.run(lambda conn: queries.touch_pin(conn, query.id, table_id, 7))
        with store.read() as conn:
            [pin] = queries.list_pins(conn, query.id)
        assert (pin.snapshot_id, pin.last_as_of_ms) == (won.index(True), 7)


class TestPlans:
    def test_round_trip(self, store: Store, catalog: CatalogRow) -> None:
        query = planned(store, catalog, tasks=2)
        with store.read() as conn:
            found = plans.get(conn, query.id, NOW_MS)
            assert found is not None
            assert (found[0], found[1].request, found[1].epoch) == (query, b"request", 0)
            assert plans.get_task(conn, query.id, 1) == TaskRow(query_id=query.id, number=1, answer=b"1")
            assert plans.get_task(conn, query.id, 2) is None
            assert plans.get(conn, query.id, END_MS) is None

    def test_an_older_worker_holds_the_plan_no_more(self, store: Store, catalog: CatalogRow) -> None:
        query = planned(store, catalog, tasks=2)
        first = store.run(lambda conn: plans.claim(conn, query.id, NOW_MS))
        second = store.run(lambda conn: plans.claim(conn, query.id, NOW_MS))
        assert first is not None
        assert second is not None
        assert store.run(lambda conn: plans.is_held(conn, query.id, second.epoch, NOW_MS))
        assert not store.run(lambda conn: plans.is_held(conn, query.id, first.epoch, NOW_MS))
        with store.read() as conn:
            assert plans.get_task(conn, query.id, 0) is None

    def test_a_plan_is_finished_once(self, store: Store, catalog: CatalogRow) -> None:
        query = planned(store, catalog)

        def finish(conn: Connection) -> bool:
            return plans.finish(conn, query.id, "completed", NOW_MS, answer=b"answer", error=None)

        assert store.run(finish)
        assert not store.run(finish)
        assert store.run(lambda conn: plans.claim(conn, query.id, NOW_MS)) is None
        with store.read() as conn:
            found = plans.get(conn, query.id, NOW_MS)
        assert found is not None
        assert (found[0].state, found[1].answer, found[1].request) == ("completed", b"answer", b"")

    def test_a_task_is_consumed_once(self, store: Store, catalog: CatalogRow) -> None:
        query = planned(store, catalog, tasks=1)

        def consume(number: int) -> bool:
            key = f"key {number}"
            return store.run(lambda conn: plans.consume(conn, query.id, 0, NOW_MS, key=key, answer=None))

        with store.read() as conn:
            assert plans.has_open_tasks(conn, query.id)
        won = at_once(4, consume)
        assert sorted(won) == [False, False, False, True]
        with store.read() as conn:
            task = plans.get_task(conn, query.id, 0)
            assert not plans.has_open_tasks(conn, query.id)
        assert task is not None
        assert (task.consumed_key, task.answer) == (f"key {won.index(True)}", b"0")

    def test_a_freed_plan_keeps_its_row_alone(self, store: Store, catalog: CatalogRow) -> None:
        query = planned(store, catalog, tasks=1)
        store.run(lambda conn: plans.free(conn, query.id))
        with store.read() as conn:
            found = plans.get(conn, query.id, NOW_MS)
            assert found is not None
            assert (found[1].answer, found[1].request) == (None, b"")
            assert plans.get_task(conn, query.id, 0) is None

    @pytest.mark.parametrize("limit", [2, 10])
    def test_expired_plans_are_deleted_in_batches(
        self, store: Store, catalog: CatalogRow, limit: int
    ) -> None:
        query = planned(store, catalog, tasks=3)
        live = planned(store, catalog, tasks=1, expires_at_ms=END_MS + 1)
        assert store.run(lambda conn: plans.delete_expired_tasks(conn, END_MS, limit)) == min(limit, 3)
        assert store.run(lambda conn: queries.delete_expired(conn, END_MS, limit)) == 1
        with store.read() as conn:
            assert plans.get_task(conn, query.id, 2) is None
            assert plans.get_task(conn, live.id, 0) is not None
