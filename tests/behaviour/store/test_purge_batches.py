"""How commits and purges take turns: announcements of batches, and what a commit sees of them."""

from __future__ import annotations

import threading

import pytest
import uuid_utils.compat as uuids

from floecat.store.catalogs import catalogs
from floecat.store.catalogs.catalogs import CatalogRow
from floecat.store.commits import commit_log
from floecat.store.commits.commit_log import CommitNumbers
from floecat.store.database.engine import Connection, Store
from floecat.store.jobs import job_claims, purge_batches
from floecat.store.jobs.job_claims import Lease
from floecat.store.jobs.leases import LeaseLostError
from floecat.store.jobs.purge_batches import Batch
from tests.behaviour.store.rows import NOW_MS, add_catalog, log_entry
from tests.behaviour.store.test_jobs import LEASE_MS, add_jobs, claim

FOLDERS = ("s3://lake/t",)


@pytest.fixture
def lease(store: Store, catalog: CatalogRow) -> Lease:
    add_jobs(store, catalog, 1)
    row = claim(store, "worker", NOW_MS)
    assert row is not None
    return Lease(row.id, "worker", row.lease_epoch)


def begin(store: Store, lease: Lease, now_ms: int = NOW_MS) -> bool:
    return store.run(lambda conn: purge_batches.begin(conn, lease, FOLDERS, now_ms))


def announce(store: Store, lease: Lease) -> None:
    assert begin(store, lease)
    store.run(purge_batches.pass_commits)


def commit(conn: Connection, catalog: CatalogRow) -> CommitNumbers:
    return commit_log.append(conn, catalog.id, [log_entry("t")], NOW_MS)


def is_purging(store: Store, catalog: CatalogRow) -> bool:
    return store.run(lambda conn: commit(conn, catalog)).purging


def under_way(store: Store, now_ms: int = NOW_MS) -> list[Batch]:
    with store.read() as conn:
        return purge_batches.under_way(conn, now_ms)


def test_commits_of_all_catalogs_see_a_batch_until_one_sees_none(
    store: Store, catalog: CatalogRow, lease: Lease
) -> None:
    other = add_catalog(store, "other")
    for each in (catalog, other):
        # a catalog that was made beside a purge
        assert is_purging(store, each)
        store.run(lambda conn, each=each: purge_batches.note_none(conn, each.id))  # type: ignore[misc]
        assert not is_purging(store, each)
    announce(store, lease)
    assert is_purging(store, catalog)
    assert is_purging(store, other)
    assert under_way(store) == [Batch(lease.job_id, catalog.id, "a.t0", FOLDERS)]
    store.run(lambda conn: purge_batches.end(conn, lease))
    assert under_way(store) == []
    store.run(lambda conn: purge_batches.note_none(conn, catalog.id))
    assert not is_purging(store, catalog)
    assert is_purging(store, other)
    announce(store, lease)
    assert is_purging(store, catalog)
    assert len(under_way(store)) == 1


def test_a_batch_counts_while_its_worker_holds_the_job(store: Store, lease: Lease) -> None:
    announce(store, lease)
    assert under_way(store, NOW_MS + LEASE_MS - 1)
    assert under_way(store, NOW_MS + LEASE_MS) == []
    later = NOW_MS + LEASE_MS + 1000
    again = claim(store, "other", later)
    assert again is not None
    assert under_way(store, later) == []
    with pytest.raises(LeaseLostError):
        begin(store, lease)
    second = Lease(again.id, "other", again.lease_epoch)
    assert begin(store, second, later)
    store.run(lambda conn: purge_batches.end(conn, lease))
    assert under_way(store, later)
    store.run(lambda conn: job_claims.finish(conn, second, "succeeded", "{}", later))
    assert under_way(store, later) == []


def test_commits_that_wait_go_first(store: Store, lease: Lease) -> None:
    announce(store, lease)
    store.run(lambda conn: purge_batches.hold(conn, [lease.job_id, uuids.uuid7()], NOW_MS + 500))
    store.run(lambda conn: purge_batches.hold(conn, [lease.job_id], NOW_MS + 100))
    store.run(lambda conn: purge_batches.end(conn, lease))
    assert not begin(store, lease, NOW_MS + 499)
    assert under_way(store) == []
    assert begin(store, lease, NOW_MS + 500)


def test_a_commit_that_did_not_see_the_batch_is_in_the_log_that_the_purge_reads(
    store: Store, catalog: CatalogRow, lease: Lease
) -> None:
    """It was numbered before the announcement, and is committed after it."""
    with store.read() as conn:
        seen = catalogs.commit_versions(conn)
    announced = threading.Thread(target=announce, args=(store, lease))
    with store.write() as conn:
        commit(conn, catalog)
        purge_batches.note_none(conn, catalog.id)
        announced.start()
        announced.join(0.3)
        assert announced.is_alive()
    announced.join(120)
    with store.read() as conn:
        now = catalogs.commit_versions(conn)
        assert now == {catalog.id: 1}
        assert len(commit_log.changed_entries(conn, seen, now)) == 1
    assert is_purging(store, catalog)


def test_a_commit_that_waited_for_the_announcement_sees_the_batch(
    store: Store, catalog: CatalogRow, lease: Lease
) -> None:
    """The statement that numbers it begins before the announcement is committed."""
    store.run(lambda conn: purge_batches.note_none(conn, catalog.id))
    seen: list[tuple[bool, int]] = []

    def numbered(conn: Connection) -> None:
        purging = commit(conn, catalog).purging
        seen.append((purging, len(purge_batches.under_way(conn, NOW_MS))))

    waiting = threading.Thread(target=lambda: store.run(numbered))
    assert begin(store, lease)
    with store.write() as conn:
        purge_batches.pass_commits(conn)
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()
    waiting.join(120)
    assert seen == [(True, 1)]
