"""Leases: one owner at a time."""

from __future__ import annotations

import uuid_utils.compat as uuids

from floecat.store.database.engine import Store
from floecat.store.jobs import leases
from tests.behaviour.store.rows import NOW_MS, at_once

ANNA, BOB = uuids.uuid7(), uuids.uuid7()


def test_a_lease_has_one_owner(store: Store) -> None:
    with store.write() as conn:
        assert leases.acquire(conn, "expiry", ANNA, NOW_MS, 100)
        assert not leases.acquire(conn, "expiry", BOB, NOW_MS + 99, 100)
        assert leases.acquire(conn, "other", BOB, NOW_MS, 100)


def test_an_expired_lease_is_free(store: Store) -> None:
    with store.write() as conn:
        leases.acquire(conn, "expiry", ANNA, NOW_MS, 100)
        assert leases.acquire(conn, "expiry", BOB, NOW_MS + 100, 100)
        assert not leases.renew(conn, "expiry", ANNA, NOW_MS + 101, 100)
        assert not leases.release(conn, "expiry", ANNA)
        assert not leases.acquire(conn, "expiry", ANNA, NOW_MS + 199, 100)
        assert leases.acquire(conn, "expiry", ANNA, NOW_MS + 200, 100)


def test_an_owner_extends_its_lease(store: Store) -> None:
    with store.write() as conn:
        leases.acquire(conn, "expiry", ANNA, NOW_MS, 100)
        assert leases.renew(conn, "expiry", ANNA, NOW_MS + 50, 100)
        assert not leases.acquire(conn, "expiry", BOB, NOW_MS + 149, 100)
        assert leases.renew(conn, "expiry", ANNA, NOW_MS + 500, 100)  # late, and nobody took it
        assert leases.acquire(conn, "expiry", ANNA, NOW_MS + 501, 100)
        assert not leases.renew(conn, "nothing", ANNA, NOW_MS, 100)


def test_a_released_lease_is_free(store: Store) -> None:
    with store.write() as conn:
        leases.acquire(conn, "expiry", ANNA, NOW_MS, 100)
        assert leases.release(conn, "expiry", ANNA)
        assert not leases.release(conn, "expiry", ANNA)
        assert leases.acquire(conn, "expiry", BOB, NOW_MS, 100)


def test_one_of_many_gets_it(store: Store) -> None:
    for now_ms in (NOW_MS, NOW_MS + 100, NOW_MS + 200):

        def acquire(_: int, now_ms: int = now_ms) -> bool:
            return store.run(lambda conn: leases.acquire(conn, "expiry", uuids.uuid7(), now_ms, 100))

        assert sum(at_once(8, acquire)) == 1
