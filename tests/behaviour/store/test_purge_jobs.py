"""Purge jobs: claims, leases, retries."""

from __future__ import annotations

from uuid import UUID

import msgspec
import pytest
import uuid_utils.compat as uuids

from floecat.store import purge_jobs
from floecat.store.catalogs import CatalogRow
from floecat.store.documents import compress
from floecat.store.engine import Store
from floecat.store.errors import ForeignKeyError
from floecat.store.purge_jobs import PurgeJobRow
from tests.behaviour.store.rows import JSON, NOW_MS, at_once

ANNA, BOB = uuids.uuid7(), uuids.uuid7()
LEASE_MS = 1000


def add_jobs(
    store: Store,
    catalog: CatalogRow,
    count: int,
    *,
    due_at_ms: int = NOW_MS,
    document: bytes | None = None,
) -> list[PurgeJobRow]:
    jobs = [
        PurgeJobRow(
            id=uuids.uuid7(),
            catalog_id=catalog.id,
            entry_id=uuids.uuid7(),
            object_uuid=str(uuids.uuid7()),
            identifier=f"a.t{number}",
            location="s3://lake/t",
            metadata_location="s3://lake/t/metadata/1.json",
            next_attempt_at_ms=due_at_ms,
            created_at_ms=NOW_MS,
            document=document,
        )
        for number in range(count)
    ]
    with store.write() as conn:
        for job in jobs:
            purge_jobs.insert(conn, job)
    return jobs


def claim(store: Store, owner: UUID, now_ms: int, limit: int = 10) -> list[PurgeJobRow]:
    return store.run(lambda conn: purge_jobs.claim_due(conn, owner, now_ms, LEASE_MS, limit))


def test_a_job_is_claimed_and_done(store: Store, catalog: CatalogRow) -> None:
    (job,) = add_jobs(store, catalog, 1)
    assert claim(store, ANNA, NOW_MS - 1) == []
    (claimed,) = claim(store, ANNA, NOW_MS)
    assert claimed == msgspec.structs.replace(
        job,
        state="running",
        attempts=1,
        next_attempt_at_ms=NOW_MS + LEASE_MS,
        lease_owner=ANNA,
        lease_expires_at_ms=NOW_MS + LEASE_MS,
    )
    assert claim(store, BOB, NOW_MS) == []
    with store.write() as conn:
        assert not purge_jobs.finish(conn, job.id, BOB, deleted_files=1, now_ms=NOW_MS)
        assert purge_jobs.finish(conn, job.id, ANNA, deleted_files=12, now_ms=NOW_MS + 5)
        assert not purge_jobs.finish(conn, job.id, ANNA, deleted_files=12, now_ms=NOW_MS + 6)
        done = purge_jobs.get(conn, job.id)
    assert done is not None
    assert (done.state, done.deleted_files, done.finished_at_ms) == ("done", 12, NOW_MS + 5)
    assert (done.lease_owner, done.lease_expires_at_ms) == (None, None)
    assert claim(store, BOB, NOW_MS + 10 * LEASE_MS) == []


def test_a_lease_that_ran_out(store: Store, catalog: CatalogRow) -> None:
    (job,) = add_jobs(store, catalog, 1)
    claim(store, ANNA, NOW_MS)
    with store.write() as conn:
        assert purge_jobs.renew(conn, job.id, ANNA, NOW_MS + 500, LEASE_MS)
    assert claim(store, BOB, NOW_MS + LEASE_MS) == []
    (taken,) = claim(store, BOB, NOW_MS + 500 + LEASE_MS)
    assert (taken.lease_owner, taken.attempts) == (BOB, 2)
    with store.write() as conn:
        assert not purge_jobs.renew(conn, job.id, ANNA, NOW_MS, LEASE_MS)
        assert not purge_jobs.finish(conn, job.id, ANNA, deleted_files=1, now_ms=NOW_MS)
        assert not purge_jobs.fail(
            conn, job.id, ANNA, error="late", retry_at_ms=None, deleted_files=0, now_ms=NOW_MS
        )
        assert purge_jobs.finish(conn, job.id, BOB, deleted_files=1, now_ms=NOW_MS)


def test_failures_and_the_end_of_patience(store: Store, catalog: CatalogRow) -> None:
    (job,) = add_jobs(store, catalog, 1)
    claim(store, ANNA, NOW_MS)
    with store.write() as conn:
        assert purge_jobs.fail(
            conn, job.id, ANNA, error="503", retry_at_ms=NOW_MS + 60, deleted_files=3, now_ms=NOW_MS + 1
        )
        assert purge_jobs.next_due_at_ms(conn) == NOW_MS + 60
    assert claim(store, BOB, NOW_MS + 59) == []
    (again,) = claim(store, BOB, NOW_MS + 60)
    assert (again.attempts, again.last_error, again.deleted_files) == (2, "503", 3)
    with store.write() as conn:
        assert purge_jobs.fail(
            conn, job.id, BOB, error="403", retry_at_ms=None, deleted_files=4, now_ms=NOW_MS + 70
        )
        dead = purge_jobs.get(conn, job.id)
        assert purge_jobs.next_due_at_ms(conn) is None
    assert dead is not None
    assert (dead.state, dead.last_error, dead.deleted_files) == ("dead", "403", 7)
    assert dead.finished_at_ms == NOW_MS + 70
    assert claim(store, ANNA, NOW_MS + 10**9) == []
    with store.write() as conn:
        assert purge_jobs.retry(conn, job.id, NOW_MS + 80)
        assert not purge_jobs.retry(conn, job.id, NOW_MS + 80)
    (revived,) = claim(store, ANNA, NOW_MS + 80)
    assert (revived.attempts, revived.last_error, revived.finished_at_ms) == (1, "403", None)


def test_those_that_wait_longest_come_first(store: Store, catalog: CatalogRow) -> None:
    late = add_jobs(store, catalog, 2, due_at_ms=NOW_MS + 10)
    early = add_jobs(store, catalog, 2, due_at_ms=NOW_MS)
    assert [job.id for job in claim(store, ANNA, NOW_MS + 20, limit=2)] == [job.id for job in early]
    assert [job.id for job in claim(store, ANNA, NOW_MS + 20, limit=2)] == [job.id for job in late]


def test_no_job_goes_to_two_workers(store: Store, catalog: CatalogRow) -> None:
    jobs = add_jobs(store, catalog, 60)

    def drain(number: int) -> list[UUID]:
        owner, mine = uuids.uuid7(), []
        while claimed := claim(store, owner, NOW_MS, limit=1 + number % 4):
            assert len(claimed) <= 1 + number % 4
            mine += [job.id for job in claimed]
        return mine

    claimed = [job_id for mine in at_once(8, drain) for job_id in mine]
    assert sorted(claimed) == sorted(job.id for job in jobs)


def test_a_claim_does_not_wait_for_another_one(store: Store, catalog: CatalogRow, backend: str) -> None:
    if backend == "sqlite":  # transactions take turns there
        with store.write() as conn:
            add = purge_jobs.claim_due(conn, ANNA, NOW_MS, LEASE_MS, 1)
        assert add == []
        return
    first, second = add_jobs(store, catalog, 2)
    with store.write() as conn:
        assert [job.id for job in purge_jobs.claim_due(conn, ANNA, NOW_MS, LEASE_MS, 1)] == [first.id]
        (got,) = at_once(1, lambda _: claim(store, BOB, NOW_MS))
        assert [job.id for job in got] == [second.id]


def test_lists_and_counts(store: Store, catalog: CatalogRow) -> None:
    jobs = add_jobs(store, catalog, 5)
    claim(store, ANNA, NOW_MS, limit=2)
    with store.write() as conn:
        running = purge_jobs.list_all(conn, catalog.id, states=["running"])
        purge_jobs.finish(conn, running[0].id, ANNA, deleted_files=1, now_ms=NOW_MS)
        assert purge_jobs.count_by_state(conn) == {"pending": 3, "running": 1, "done": 1}
        assert [job.id for job in purge_jobs.list_all(conn, catalog.id)] == [job.id for job in jobs]
        page = purge_jobs.list_all(conn, catalog.id, states=["pending", "done"], limit=2)
        rest = purge_jobs.list_all(conn, catalog.id, states=["pending", "done"], after=page[-1].id)
        assert len(page) == len(rest) == 2
        assert purge_jobs.list_all(conn, uuids.uuid7()) == []
        assert purge_jobs.get(conn, uuids.uuid7()) is None


def test_jobs_that_are_done_go_in_batches(store: Store, catalog: CatalogRow) -> None:
    jobs = add_jobs(store, catalog, 5)
    claim(store, ANNA, NOW_MS)
    with store.write() as conn:
        for number, job in enumerate(jobs[:3]):
            purge_jobs.finish(conn, job.id, ANNA, deleted_files=1, now_ms=NOW_MS + number)
        purge_jobs.fail(conn, jobs[3].id, ANNA, error="", retry_at_ms=None, deleted_files=0, now_ms=NOW_MS)
    deleted = [store.run(lambda conn: purge_jobs.delete_finished(conn, NOW_MS + 2, 1)) for _ in range(3)]
    assert deleted == [1, 1, 0]
    with store.read() as conn:
        assert [job.state for job in purge_jobs.list_all(conn, catalog.id)] == ["done", "dead", "running"]


def test_a_catalog_is_needed(store: Store, catalog: CatalogRow) -> None:
    with pytest.raises(ForeignKeyError):
        add_jobs(store, msgspec.structs.replace(catalog, id=uuids.uuid7()), 1)


def test_open_jobs_are_found_by_table_and_by_file(store: Store, catalog: CatalogRow) -> None:
    (job,) = add_jobs(store, catalog, 1)
    other = str(uuids.uuid7())

    def found() -> tuple[bool, ...]:
        with store.read() as conn:
            return (
                purge_jobs.is_open_for(conn, job.object_uuid, "s3://lake/u/metadata/1.json"),
                purge_jobs.is_open_for(conn, job.object_uuid.upper(), "s3://lake/u/metadata/1.json"),
                purge_jobs.is_open_for(conn, other, job.metadata_location),
                purge_jobs.is_open_for(conn, other, "s3://lake/u/metadata/1.json"),
            )

    assert found() == (True, True, True, False)
    claim(store, ANNA, NOW_MS)
    assert found() == (True, True, True, False)
    with store.write() as conn:
        purge_jobs.fail(conn, job.id, ANNA, error="", retry_at_ms=None, deleted_files=0, now_ms=NOW_MS)
    assert found() == (False,) * 4
    with store.write() as conn:
        purge_jobs.retry(conn, job.id, NOW_MS)
    assert found() == (True, True, True, False)
    claim(store, BOB, NOW_MS)
    with store.write() as conn:
        purge_jobs.finish(conn, job.id, BOB, deleted_files=1, now_ms=NOW_MS)
    assert found() == (False,) * 4


def test_a_job_keeps_its_document_until_it_is_done(store: Store, catalog: CatalogRow) -> None:
    (job,) = add_jobs(store, catalog, 1, document=compress(JSON))
    (bare,) = add_jobs(store, catalog, 1, due_at_ms=NOW_MS + 1)

    def stored() -> bytes | None:
        with store.read() as conn:
            return purge_jobs.document(conn, job.id)

    (claimed,) = claim(store, ANNA, NOW_MS)
    assert claimed.document is None
    assert stored() == compress(JSON)
    with store.write() as conn:
        purge_jobs.fail(conn, job.id, ANNA, error="", retry_at_ms=NOW_MS, deleted_files=0, now_ms=NOW_MS)
        assert purge_jobs.document(conn, bare.id) is None
        assert purge_jobs.document(conn, uuids.uuid7()) is None
    assert stored() == compress(JSON)
    claim(store, ANNA, NOW_MS)
    with store.write() as conn:
        purge_jobs.finish(conn, job.id, ANNA, deleted_files=1, now_ms=NOW_MS)
    assert stored() is None
