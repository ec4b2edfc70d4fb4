"""Jobs: claims, leases, back-off, cancellation, retention."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from uuid import UUID

import pytest
import sqlalchemy as sa
import uuid_utils.compat as uuids

from floecat.store import schema
from floecat.store.catalogs.catalogs import CatalogRow
from floecat.store.database.engine import Connection, Store
from floecat.store.database.errors import DuplicateKeyError
from floecat.store.jobs import job_claims, job_trees, jobs
from floecat.store.jobs.job_claims import FIRST_TURN, Lease
from floecat.store.jobs.jobs import FINISHED_STATES, OPEN_STATES, JobFilter, JobRow
from tests.behaviour.store.rows import NOW_MS, add_catalog, at_once

LEASE_MS = 1000
BASE_MS, LONGEST_MS = 100, 300
KIND = "purge"


def add_jobs(
    store: Store,
    catalog: CatalogRow,
    count: int,
    *,
    due_at_ms: int = NOW_MS,
    attachment: bytes | None = None,
    kind: str = KIND,
    dedup_key: str | None = None,
) -> list[JobRow]:
    made = [
        JobRow(
            id=uuids.uuid7(),
            account_id=catalog.account_id,
            catalog_id=catalog.id,
            kind=kind,
            title=f"a.t{number}",
            subject=str(uuids.uuid7()),
            resource=f"s3://lake/t{number}/metadata/1.json",
            payload='{"n":1}',
            max_attempts=3,
            not_before_ms=due_at_ms,
            dedup_key=dedup_key,
            created_by="anna",
            created_at_ms=NOW_MS,
            updated_at_ms=NOW_MS,
        )
        for number in range(count)
    ]
    with store.write() as conn:
        for job in made:
            jobs.insert(conn, job, attachment)
    return made


def claim(store: Store, owner: str, now_ms: int, kind: str = KIND) -> JobRow | None:
    rows = store.run(
        lambda conn: job_claims.claim(
            conn, kind, owner, now_ms, LEASE_MS, base_ms=BASE_MS, longest_ms=LONGEST_MS
        )
    )
    return rows[0] if rows else None


def claimed(store: Store, owner: str, now_ms: int) -> JobRow:
    row = claim(store, owner, now_ms)
    assert row is not None
    return row


def lease(row: JobRow) -> Lease:
    assert row.lease_owner is not None
    return Lease(row.id, row.lease_owner, row.lease_epoch)


def listed(conn: Connection, catalog_id: UUID, *, titles: Sequence[str] = ()) -> list[JobRow]:
    wanted = [(KIND, state) for state in (*OPEN_STATES, *FINISHED_STATES)]
    return jobs.list_all(conn, JobFilter(catalog_id, wanted, titles))


def found(store: Store, job_id: UUID) -> JobRow:
    with store.read() as conn:
        row = jobs.get(conn, job_id)
    assert row is not None
    return row


def test_a_job_is_claimed_and_succeeds(store: Store, catalog: CatalogRow) -> None:
    (job,) = add_jobs(store, catalog, 1)
    assert found(store, job.id) == job
    assert claim(store, "anna", NOW_MS - 1) is None
    assert claim(store, "anna", NOW_MS, kind="scan") is None
    row = claimed(store, "anna", NOW_MS)
    assert (row.state, row.attempts, row.lease_owner, row.lease_epoch) == ("running", 1, "anna", 1)
    assert (row.lease_expires_at_ms, row.started_at_ms) == (NOW_MS + LEASE_MS, NOW_MS)
    assert (row.payload, row.title, row.created_by) == (job.payload, job.title, "anna")
    assert claim(store, "bob", NOW_MS) is None
    other = Lease(job.id, "bob", 1)
    with store.write() as conn:
        assert not job_claims.finish(conn, other, "succeeded", "{}", NOW_MS)
        assert job_claims.finish(conn, lease(row), "succeeded", '{"deleted_files":12}', NOW_MS + 5)
        assert not job_claims.finish(conn, lease(row), "succeeded", "{}", NOW_MS + 6)
    done = found(store, job.id)
    assert (done.state, done.progress, done.finished_at_ms) == (
        "succeeded",
        '{"deleted_files":12}',
        NOW_MS + 5,
    )
    assert (done.lease_owner, done.lease_expires_at_ms) == (None, None)
    assert claim(store, "bob", NOW_MS + 10 * LEASE_MS) is None


def test_a_lease_that_ended_unreleased_waits_its_back_off(store: Store, catalog: CatalogRow) -> None:
    add_jobs(store, catalog, 1)
    now_ms = NOW_MS
    for attempt, back_off in ((1, 100), (2, 200), (3, 300), (4, 300)):
        row = claimed(store, f"w{attempt}", now_ms)
        assert row.attempts == row.lease_epoch == attempt
        assert claim(store, "next", now_ms + LEASE_MS + back_off - 1) is None
        now_ms += LEASE_MS + back_off
    with store.write() as conn:
        assert job_claims.renew(conn, lease(row), "{}", now_ms, LEASE_MS) is False
    # the renewal moved the end of the lease, and the back-off behind it stays
    assert claim(store, "next", now_ms + LEASE_MS + 299) is None
    taken = claimed(store, "next", now_ms + LEASE_MS + 300)
    with store.write() as conn:
        assert job_claims.renew(conn, lease(row), "{}", now_ms, LEASE_MS) is None
        assert not job_claims.finish(conn, lease(row), "succeeded", "{}", now_ms)
        assert not job_claims.put_back(conn, lease(row), "{}", now_ms, error="late", retry_at_ms=0)
        assert job_claims.finish(conn, lease(taken), "succeeded", "{}", now_ms)


def test_one_owner_that_claims_again_has_another_lease(store: Store, catalog: CatalogRow) -> None:
    add_jobs(store, catalog, 1)
    first = claimed(store, "anna", NOW_MS)
    second = claimed(store, "anna", NOW_MS + LEASE_MS + BASE_MS)
    with store.write() as conn:
        assert job_claims.renew(conn, lease(first), "{}", NOW_MS, LEASE_MS) is None
        assert job_claims.renew(conn, lease(second), "{}", NOW_MS, LEASE_MS) is False


def test_failures_retry_and_the_dead_letter(store: Store, catalog: CatalogRow) -> None:
    (job,) = add_jobs(store, catalog, 1)
    row = claimed(store, "anna", NOW_MS)
    with store.write() as conn:
        assert job_claims.put_back(
            conn, lease(row), '{"n":3}', NOW_MS + 1, error="503", retry_at_ms=NOW_MS + 60
        )
    waiting = found(store, job.id)
    assert (waiting.state, waiting.attempts, waiting.progress) == ("waiting", 1, '{"n":3}')
    assert claim(store, "bob", NOW_MS + 59) is None
    row = claimed(store, "bob", NOW_MS + 60)
    assert (row.attempts, row.last_error) == (2, "503")
    with store.write() as conn:
        assert job_claims.put_back(
            conn, lease(row), "{}", NOW_MS, error="stopped", retry_at_ms=NOW_MS, counts=False
        )
    row = claimed(store, "bob", NOW_MS + 60)
    assert row.attempts == 2
    with store.write() as conn:
        assert job_claims.finish(conn, lease(row), "failed", "{}", NOW_MS + 70, "403")
    dead = found(store, job.id)
    assert (dead.state, dead.last_error, dead.finished_at_ms) == ("failed", "403", NOW_MS + 70)
    assert claim(store, "anna", NOW_MS + 10**9) is None
    with store.write() as conn:
        assert jobs.retry(conn, job.id, NOW_MS + 80)
        assert not jobs.retry(conn, job.id, NOW_MS + 80)
    row = claimed(store, "anna", NOW_MS + 80)
    assert (row.attempts, row.last_error, row.finished_at_ms) == (1, "403", None)


def test_cancellation(store: Store, catalog: CatalogRow) -> None:
    idle, running, abandoned = (job.id for job in add_jobs(store, catalog, 3))
    with store.write() as conn:
        assert job_trees.cancel(conn, idle, NOW_MS)
        assert not job_trees.cancel(conn, idle, NOW_MS)
        assert not job_trees.cancel(conn, uuids.uuid7(), NOW_MS)
    assert (found(store, idle).state, found(store, idle).finished_at_ms) == ("cancelled", NOW_MS)
    rows = {row.id: row for row in (claimed(store, "anna", NOW_MS), claimed(store, "anna", NOW_MS))}
    assert set(rows) == {running, abandoned}
    with store.write() as conn:
        for job_id in rows:
            assert job_trees.cancel(conn, job_id, NOW_MS)
        assert job_claims.renew(conn, lease(rows[running]), "{}", NOW_MS, LEASE_MS) is True
        assert job_claims.finish(conn, lease(rows[running]), "cancelled", "{}", NOW_MS + 1)
    assert found(store, abandoned).state == "cancelling"
    # its worker died: no other worker takes it up again, and a sweep ends it
    assert claim(store, "bob", NOW_MS + 10**9) is None
    with store.write() as conn:
        assert job_claims.end_abandoned_cancellations(conn, KIND, NOW_MS + LEASE_MS - 1) == 0
        assert job_claims.end_abandoned_cancellations(conn, "scan", NOW_MS + LEASE_MS) == 0
        assert job_claims.end_abandoned_cancellations(conn, KIND, NOW_MS + LEASE_MS) == 1
    assert found(store, abandoned).state == "cancelled"
    with store.write() as conn:
        assert jobs.retry(conn, idle, NOW_MS)
    assert claimed(store, "bob", NOW_MS).id == idle


def test_those_that_wait_longest_come_first(store: Store, catalog: CatalogRow) -> None:
    (late,) = add_jobs(store, catalog, 1, due_at_ms=NOW_MS + 10)
    (early,) = add_jobs(store, catalog, 1, due_at_ms=NOW_MS)
    assert [claimed(store, "anna", NOW_MS + 20).id for _ in range(2)] == [early.id, late.id]


def test_no_job_goes_to_two_workers(store: Store, catalog: CatalogRow) -> None:
    made = add_jobs(store, catalog, 60)

    def drain(number: int) -> list[UUID]:
        mine = []
        while row := claim(store, f"w{number}", NOW_MS):
            mine.append(row.id)
        return mine

    taken = [job_id for mine in at_once(8, drain) for job_id in mine]
    assert sorted(taken) == sorted(job.id for job in made)


def test_a_claim_does_not_wait_for_another_one(store: Store, catalog: CatalogRow, backend: str) -> None:
    if backend == "sqlite":  # transactions take turns there
        assert claim(store, "anna", NOW_MS) is None
        return
    first, second = add_jobs(store, catalog, 2)
    with store.write() as conn:
        (row,) = job_claims.claim(
            conn, KIND, "anna", NOW_MS, LEASE_MS, base_ms=BASE_MS, longest_ms=LONGEST_MS
        )
        assert row.id == first.id
        (got,) = at_once(1, lambda _: claim(store, "bob", NOW_MS))
        assert got is not None
        assert got.id == second.id


def test_lists_and_counts(store: Store, catalog: CatalogRow) -> None:
    made = add_jobs(store, catalog, 4)
    add_jobs(store, catalog, 1, kind="scan")
    row = claimed(store, "anna", NOW_MS)
    with store.write() as conn:
        job_claims.finish(conn, lease(row), "succeeded", "{}", NOW_MS)
        assert jobs.count_by_state(conn) == {
            (KIND, "queued"): 3,
            (KIND, "succeeded"): 1,
            ("scan", "queued"): 1,
        }
        found = partial(listed, conn, catalog.id)
        assert [job.id for job in found()] == [job.id for job in made]
        assert len(jobs.list_all(conn, JobFilter(catalog.id, [(KIND, "succeeded"), ("scan", "queued")]))) == 2
        assert listed(conn, uuids.uuid7()) == []
        assert found(titles=["nothing"]) == []
        assert found(titles=["nothing", made[0].title])[0].id == made[0].id
        assert jobs.oldest_open(conn) == {KIND: NOW_MS, "scan": NOW_MS}
        assert jobs.get(conn, uuids.uuid7()) is None


def test_what_operators_of_all_catalogs_see(store: Store, catalog: CatalogRow) -> None:
    add_jobs(store, catalog, 2)
    with store.read() as conn:
        assert jobs.count_due(conn, KIND, NOW_MS) == 2
        assert jobs.count_due(conn, "nothing", NOW_MS) == 0
    rows = [claimed(store, "anna", NOW_MS) for _ in range(2)]
    with store.write() as conn:
        assert jobs.count_due(conn, KIND, NOW_MS) == 0
        for at_ms, row in zip((NOW_MS + 2, NOW_MS + 1), rows, strict=True):
            job_claims.finish(conn, lease(row), "failed", "{}", at_ms, "x")
        failed = jobs.list_failed(conn, KIND, 10)
        assert [job.id for job in failed] == [rows[1].id, rows[0].id]
        assert jobs.list_failed(conn, KIND, 1) == failed[:1]
        assert jobs.list_failed(conn, "nothing", 1) == []


def test_only_a_job_that_no_worker_had_is_cancelled_unstarted(store: Store, catalog: CatalogRow) -> None:
    first, second = add_jobs(store, catalog, 2)
    row = claimed(store, "anna", NOW_MS)
    with store.write() as conn:
        job_claims.put_back(conn, lease(row), "{}", NOW_MS, error="x", retry_at_ms=NOW_MS, counts=False)
        other = second if row.id == first.id else first
        assert not jobs.cancel_unstarted(conn, row.id, NOW_MS)
        assert jobs.cancel_unstarted(conn, other.id, NOW_MS)
        assert not jobs.cancel_unstarted(conn, other.id, NOW_MS)
        left = [jobs.get(conn, each) for each in (row.id, other.id)]
    assert [each.state for each in left if each] == ["waiting", "cancelled"]


def test_a_job_that_is_given_back_while_it_is_cancelled_has_ended(store: Store, catalog: CatalogRow) -> None:
    (job,) = add_jobs(store, catalog, 1)
    row = claimed(store, "anna", NOW_MS)
    with store.write() as conn:
        assert job_trees.cancel(conn, job.id, NOW_MS)
        assert job_claims.put_back(conn, lease(row), "{}", NOW_MS + 5, error="stopped", retry_at_ms=NOW_MS)
    ended = found(store, job.id)
    assert (ended.state, ended.finished_at_ms, ended.lease_owner) == ("cancelled", NOW_MS + 5, None)
    assert claim(store, "bob", NOW_MS + 10**9) is None


def test_finished_jobs_are_deleted_in_batches_and_failed_ones_stay(store: Store, catalog: CatalogRow) -> None:
    add_jobs(store, catalog, 5)
    states = ["succeeded", "succeeded", "cancelled", "failed"]
    for number, state in enumerate(states):
        row = claimed(store, "anna", NOW_MS)
        with store.write() as conn:
            job_claims.finish(conn, lease(row), state, "{}", NOW_MS + number)
    deleted = [
        store.run(lambda conn: job_claims.delete_finished(conn, KIND, NOW_MS + 9, 2)) for _ in range(3)
    ]
    assert deleted == [2, 1, 0]
    with store.read() as conn:
        assert sorted(job.state for job in listed(conn, catalog.id)) == ["failed", "queued"]


def test_open_jobs_are_found_by_subject_and_by_resource(store: Store, catalog: CatalogRow) -> None:
    (job,) = add_jobs(store, catalog, 1)

    def is_open() -> tuple[bool, ...]:
        searches = (
            (KIND, job.subject, "elsewhere"),
            (KIND, "other", job.resource),
            (KIND, "other", "elsewhere"),
            ("scan", job.subject, job.resource),
        )
        with store.read() as conn:
            return tuple(jobs.catalogs_with_open_job(conn, *search) == [catalog.id] for search in searches)

    assert is_open() == (True, True, False, False)
    row = claimed(store, "anna", NOW_MS)
    assert is_open() == (True, True, False, False)
    with store.write() as conn:
        job_claims.finish(conn, lease(row), "failed", "{}", NOW_MS, "no")
    assert is_open() == (False,) * 4
    with store.write() as conn:
        jobs.retry(conn, job.id, NOW_MS)
    assert is_open() == (True, True, False, False)


def test_two_open_jobs_of_a_kind_cannot_do_the_same(store: Store, catalog: CatalogRow) -> None:
    (first,) = add_jobs(store, catalog, 1, dedup_key="t1")
    add_jobs(store, catalog, 1, dedup_key="t1", kind="scan")
    add_jobs(store, catalog, 1, dedup_key="t2")
    with pytest.raises(DuplicateKeyError):
        add_jobs(store, catalog, 1, dedup_key="t1")
    with store.write() as conn:
        job_trees.cancel(conn, first.id, NOW_MS)
    add_jobs(store, catalog, 1, dedup_key="t1")
    with pytest.raises(DuplicateKeyError), store.write() as conn:
        jobs.retry(conn, first.id, NOW_MS)


def test_a_job_keeps_its_attachment_until_it_succeeds(store: Store, catalog: CatalogRow) -> None:
    (job,) = add_jobs(store, catalog, 1, attachment=b"document")

    def stored(job_id: UUID = job.id) -> bytes | None:
        with store.read() as conn:
            return jobs.attachment(conn, job_id)

    assert stored(uuids.uuid7()) is None
    row = claimed(store, "anna", NOW_MS)
    with store.write() as conn:
        job_claims.finish(conn, lease(row), "failed", "{}", NOW_MS, "no")
    assert stored() == b"document"
    with store.write() as conn:
        jobs.retry(conn, job.id, NOW_MS)
    row = claimed(store, "anna", NOW_MS)
    with store.write() as conn:
        job_claims.finish(conn, lease(row), "succeeded", "{}", NOW_MS)
    assert stored() is None


def test_pages_have_a_bound_in_bytes(store: Store, catalog: CatalogRow) -> None:
    made = add_jobs(store, catalog, 5)
    progress = f'{{"note":"{"x" * (6 << 20)}"}}'
    for _ in made:
        held = lease(claimed(store, "anna", NOW_MS))
        with store.write() as conn:
            job_claims.renew(conn, held, progress, NOW_MS, LEASE_MS)
    found, sizes = list[UUID](), []
    running = JobFilter(catalog.id, [(KIND, "running")])
    while True:
        after = found[-1] if found else UUID(int=0)
        page = jobs.page_of(store, running._replace(after=after), 100)
        sizes.append(len(page.rows))
        found += [row.id for row in page.rows]
        if not page.has_more:
            break
    assert found == [job.id for job in made]
    # of 16 MiB
    assert sizes == [2, 2, 1]
    page = jobs.page_of(store, running._replace(titles=["a.t3"]), 1)
    assert ([row.title for row in page.rows], page.has_more) == (["a.t3"], False)


def test_accounts_take_turns(store: Store) -> None:
    many, few = (add_catalog(store, name) for name in ("many", "few"))
    first = [job.id for job in add_jobs(store, many, 4)]
    later = [job.id for job in add_jobs(store, few, 2, due_at_ms=NOW_MS + 1)]
    last, taken = FIRST_TURN, []
    while rows := _claim_after(store, last):
        last = rows[0].account_id
        taken.append(rows[0].id)
    assert taken == [first[0], later[0], first[1], later[1], first[2], first[3]]


def test_accounts_that_have_enough_are_left_alone(store: Store) -> None:
    many, few = (add_catalog(store, name) for name in ("many", "few"))
    add_jobs(store, many, 3)
    (other,) = add_jobs(store, few, 1, due_at_ms=NOW_MS + 1)
    for last in (FIRST_TURN, many.account_id, few.account_id):
        before = [row.id for row in _claim_after(store, last, without=[many.account_id])]
        assert before == ([other.id] if last == FIRST_TURN else [])
    assert _claim_after(store, FIRST_TURN, without=[many.account_id, few.account_id]) == []
    assert len(_claim_after(store, FIRST_TURN)) == 1


def test_accounts_take_turns_at_what_is_offered(store: Store) -> None:
    for name in ("many", "few"):
        for job in add_jobs(store, add_catalog(store, name), 2, due_at_ms=NOW_MS + 1000):
            store.run(lambda conn, id=job.id: conn.change(_OFFER, {"of_id": id}))  # type: ignore[misc]
    first, second = (_claim_after(store, FIRST_TURN, lane="spark")[0] for _ in range(2))
    (third,) = _claim_after(store, second.account_id, lane="spark")
    assert first.account_id == second.account_id < third.account_id
    assert _claim_after(store, third.account_id, lane="spark")[0].account_id == third.account_id


_OFFER = (
    sa.update(schema.jobs)
    .where(schema.jobs.c.id == sa.bindparam("of_id"))
    .values(state="waiting", lane="spark")
)


def _claim_after(
    store: Store, account_id: UUID, *, lane: str | None = None, without: Sequence[UUID] = ()
) -> list[JobRow]:
    return store.run(
        lambda conn: job_claims.claim(
            conn,
            KIND,
            "anna",
            NOW_MS + 5,
            LEASE_MS,
            base_ms=BASE_MS,
            longest_ms=LONGEST_MS,
            lane=lane,
            after_account=account_id,
            without=without,
        )
    )
