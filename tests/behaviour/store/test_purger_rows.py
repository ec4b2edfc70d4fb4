"""Rows of purgers: kept by key for one job each, and gone with it."""

from __future__ import annotations

import pytest

from floecat.errors import BadRequestError
from floecat.purge.spi import PurgerRows
from floecat.store.catalogs.catalogs import CatalogRow
from floecat.store.database.engine import Store
from floecat.store.jobs import job_claims, job_trees, jobs, purger_rows
from floecat.store.jobs.job_claims import Lease
from floecat.store.jobs.leases import LeaseLostError
from tests.behaviour.store.rows import NOW_MS
from tests.behaviour.store.test_jobs import LEASE_MS, add_jobs, claim

MOST_BYTES = 100_000


@pytest.fixture
def leases(store: Store, catalog: CatalogRow) -> list[Lease]:
    add_jobs(store, catalog, 2)
    rows = [claim(store, "worker", NOW_MS) for _ in range(2)]
    return [Lease(row.id, "worker", row.lease_epoch) for row in rows if row is not None]


def test_values_by_key(store: Store, leases: list[Lease]) -> None:
    one, other = (PurgerRows(store, lease, MOST_BYTES) for lease in leases)
    assert one.get("a") is None
    for key, value in (("b", b"1"), ("a", b""), ("\u00e9", bytes(range(256))), ("B", b"2"), ("b", b"3")):
        one.put(key, value)
    assert list(one) == [("B", b"2"), ("a", b""), ("b", b"3"), ("\u00e9", bytes(range(256)))]
    assert [one.get("b"), other.get("b"), list(other)] == [b"3", None, []]
    for key in ("b", "missing"):
        one.delete(key)
    assert [key for key, _ in one] == ["B", "a", "\u00e9"]


def test_more_rows_than_a_page(store: Store, leases: list[Lease]) -> None:
    rows = PurgerRows(store, leases[0], MOST_BYTES)
    for number in range(201):
        rows.put(f"{number:03}", b"x")
    assert [key for key, _ in rows] == [f"{number:03}" for number in range(201)]


def test_bounds(store: Store, leases: list[Lease]) -> None:
    rows = PurgerRows(store, leases[0], 2 * 256 + 10)
    rows.put("\u00fc" * 128, b"1234")
    rows.put("b", b"123456")
    for key, value in (("b", b"1234567"), ("c", b"1" * 257)):
        with pytest.raises(
            BadRequestError, match=r"more than 522 bytes \(floecat\.purge\.purger-rows-bytes\)"
        ):
            rows.put(key, value)
    rows.put("b", b"12345")
    for key in ("", "\u00fc" * 129, "a\0", "\ud800"):
        with pytest.raises(BadRequestError, match="text of 1 to 256 bytes"):
            rows.put(key, b"")
    assert [value for _, value in rows] == [b"12345", b"1234"]


def test_only_the_holder_of_the_job_changes_them(store: Store, leases: list[Lease]) -> None:
    lost = PurgerRows(store, leases[0], MOST_BYTES)
    lost.put("a", b"1")
    again = [claim(store, "other", NOW_MS + LEASE_MS + 1000) for _ in range(2)]
    (row,) = [row for row in again if row is not None and row.id == leases[0].job_id]
    held = PurgerRows(store, Lease(row.id, "other", row.lease_epoch), MOST_BYTES)
    assert held.get("a") == b"1"
    for change in (lambda: lost.put("a", b"2"), lambda: lost.delete("a")):
        with pytest.raises(LeaseLostError):
            change()
    held.put("a", b"3")
    with store.write() as conn:
        job_trees.cancel(conn, row.id, NOW_MS)
    with pytest.raises(LeaseLostError):
        held.put("a", b"4")
    assert lost.get("a") == b"3"


def test_they_go_with_the_job(store: Store, leases: list[Lease]) -> None:
    for lease in leases:
        PurgerRows(store, lease, MOST_BYTES).put("a", b"1")
    with store.write() as conn:
        assert job_claims.finish(conn, leases[0], "succeeded", "{}", NOW_MS)
        assert purger_rows.get(conn, leases[0].job_id, "a") == b"1"
        job_claims.delete_finished(conn, "purge", NOW_MS + 1, 10)
        assert jobs.get(conn, leases[0].job_id) is None
        assert [purger_rows.get(conn, lease.job_id, "a") for lease in leases] == [None, b"1"]
