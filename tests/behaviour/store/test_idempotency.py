"""Idempotency records: one owner, one effect, one answer."""

from __future__ import annotations

from uuid import UUID

import pytest
import sqlalchemy as sa
import uuid_utils.compat as uuids

from floecat.store import schema
from floecat.store.catalogs import accounts
from floecat.store.commits import idempotency
from floecat.store.commits.idempotency import Claimed, ClaimResult, Finished, HashMismatch, InProgress, Scope
from floecat.store.database.engine import Connection, Store
from tests.behaviour.store.rows import NOW_MS, account_ids, at_once

STALE_AFTER_MS = 60_000
EXPIRES_MS = NOW_MS + 1_000_000


class Lost(Exception):
    pass


@pytest.fixture
def scope() -> Scope:
    return Scope(uuids.uuid7(), "anna", "createTable", "key")


def claim(
    store: Store, scope: Scope, owner: UUID, now_ms: int = NOW_MS, request_hash: str = "hash"
) -> ClaimResult:
    return store.run(lambda conn: idempotency.claim(conn, scope, request_hash, owner, now_ms, STALE_AFTER_MS))


def finish(store: Store, scope: Scope, owner: UUID, outcome: bytes = b"answer") -> bool:
    return store.run(
        lambda conn: idempotency.finish(conn, scope, owner, outcome=outcome, expires_at_ms=EXPIRES_MS)
    )


def test_claim_finish_replay(store: Store, scope: Scope) -> None:
    owner = uuids.uuid7()
    assert claim(store, scope, owner) == Claimed()
    assert claim(store, scope, uuids.uuid7(), NOW_MS + 1) == InProgress(NOW_MS)
    assert finish(store, scope, owner)
    assert claim(store, scope, uuids.uuid7()) == Finished(b"answer", EXPIRES_MS)
    assert not finish(store, scope, owner, b"another")
    assert claim(store, scope, uuids.uuid7(), EXPIRES_MS - 1) == Finished(b"answer", EXPIRES_MS)


def test_a_key_with_another_request(store: Store, scope: Scope) -> None:
    owner = uuids.uuid7()
    claim(store, scope, owner)
    late = NOW_MS + STALE_AFTER_MS + 1
    assert claim(store, scope, uuids.uuid7(), request_hash="other") == HashMismatch()
    assert claim(store, scope, uuids.uuid7(), late, request_hash="other") == HashMismatch()
    finish(store, scope, owner)
    assert claim(store, scope, uuids.uuid7(), late, request_hash="other") == HashMismatch()


def test_keys_are_apart(store: Store, scope: Scope) -> None:
    for each in (
        scope,
        scope._replace(account_id=uuids.uuid7()),
        scope._replace(principal="Anna"),
        scope._replace(operation="dropTable"),
        scope._replace(key="Key"),
    ):
        assert claim(store, each, uuids.uuid7()) == Claimed()


def test_a_stale_claim_is_taken_over(store: Store, scope: Scope) -> None:
    slow, fast = uuids.uuid7(), uuids.uuid7()
    claim(store, scope, slow)
    assert claim(store, scope, fast, NOW_MS + STALE_AFTER_MS - 1) == InProgress(NOW_MS)
    assert claim(store, scope, fast, NOW_MS + STALE_AFTER_MS) == Claimed(taken_over=True)
    assert not finish(store, scope, slow)
    assert not store.run(lambda conn: idempotency.release(conn, scope, slow))
    assert finish(store, scope, fast, b"fast")
    assert claim(store, scope, uuids.uuid7()) == Finished(b"fast", EXPIRES_MS)


def test_an_expired_answer_counts_for_nothing(store: Store, scope: Scope) -> None:
    owner = uuids.uuid7()
    claim(store, scope, owner)
    finish(store, scope, owner)
    again = uuids.uuid7()
    assert claim(store, scope, again, EXPIRES_MS - 1) == Finished(b"answer", EXPIRES_MS)
    assert claim(store, scope, again, EXPIRES_MS, request_hash="other") == Claimed()
    assert claim(store, scope, owner, EXPIRES_MS, request_hash="other") == InProgress(EXPIRES_MS)
    assert not finish(store, scope, owner)


def test_a_released_key_can_be_used_again(store: Store, scope: Scope) -> None:
    owner = uuids.uuid7()
    claim(store, scope, owner)
    assert not store.run(lambda conn: idempotency.release(conn, scope, uuids.uuid7()))
    assert store.run(lambda conn: idempotency.release(conn, scope, owner))
    assert claim(store, scope, owner, request_hash="other") == Claimed()
    finish(store, scope, owner)
    assert not store.run(lambda conn: idempotency.release(conn, scope, owner))


def test_one_of_many_claims_wins(store: Store, scope: Scope) -> None:
    results = at_once(8, lambda _: claim(store, scope, uuids.uuid7()))
    assert results.count(Claimed()) == 1
    assert results.count(InProgress(NOW_MS)) == 7


def test_one_of_many_takeovers_wins(store: Store, scope: Scope) -> None:
    claim(store, scope, uuids.uuid7())
    late = NOW_MS + STALE_AFTER_MS
    results = at_once(8, lambda _: claim(store, scope, uuids.uuid7(), late))
    assert results.count(Claimed(taken_over=True)) == 1
    assert results.count(InProgress(late)) == 7


def test_finish_against_takeover(store: Store, scope: Scope) -> None:
    """Of the owner and whoever takes over, exactly one has an effect."""
    effects: list[UUID] = []
    for number in range(10):
        key = scope._replace(key=f"key-{number}")
        slow, fast = uuids.uuid7(), uuids.uuid7()
        claim(store, key, slow)

        def work_as(owner: UUID, key: Scope = key) -> bool:
            def change(conn: Connection) -> None:
                accounts.ensure(conn, owner, NOW_MS)
                done = idempotency.finish(conn, key, owner, outcome=b"x", expires_at_ms=EXPIRES_MS)
                if not done:
                    raise Lost

            try:
                store.run(change)
            except Lost:
                return False
            return True

        def race(
            number: int, key: Scope = key, slow: UUID = slow, fast: UUID = fast, work_as: object = work_as
        ) -> bool:
            assert callable(work_as)
            if number == 0:
                return bool(work_as(slow))
            taken = claim(store, key, fast, NOW_MS + STALE_AFTER_MS)
            return isinstance(taken, Claimed) and bool(work_as(fast))

        slow_won, fast_won = at_once(2, race)
        assert slow_won != fast_won
        effects.append(slow if slow_won else fast)
    with store.read() as conn:
        assert set(account_ids(conn)) == set(effects)


def test_expired_records_go_in_batches(store: Store, scope: Scope) -> None:
    for number in range(5):
        owner, key = uuids.uuid7(), scope._replace(key=str(number))
        claim(store, key, owner)
        if number < 4:
            store.run(
                lambda conn, key=key, owner=owner, number=number: idempotency.finish(  # type: ignore[misc]
                    conn, key, owner, outcome=b"", expires_at_ms=NOW_MS + number
                )
            )
    deleted = [store.run(lambda conn: idempotency.delete_expired(conn, NOW_MS + 2, 2)) for _ in range(3)]
    assert deleted == [2, 1, 0]
    with store.read() as conn:
        kept = conn.all(sa.select(schema.metadata.tables["idempotency_records"].c.key), {})
    assert sorted(key for (key,) in kept) == ["3", "4"]
    abandoned = NOW_MS + idempotency.ABANDONED_AFTER_MS
    assert store.run(lambda conn: idempotency.delete_expired(conn, abandoned, 10)) == 2
