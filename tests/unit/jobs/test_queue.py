"""One job at a time about a subject, with its groups."""

from __future__ import annotations

import time

import msgspec
import pytest

from floecat.errors import FloecatError
from floecat.jobs.queue import Drained, JobQueue
from floecat.jobs.running_job import JobPostponedError, RunningJob
from floecat.store.jobs import leases
from tests.unit.jobs.conftest import LEASE_MS, RETRY_MS, Bench

LOCK_WAIT_MS = 250


def is_free(bench: Bench, subject: str = "t") -> bool:
    """Takes the lock of a subject for nobody, if it is free, and gives it back."""
    probe = bench.insert(bench.queue("probe", lambda _job: None), subject=subject).id
    name = f"table:{subject}"
    with bench.store.write() as conn:
        taken = leases.acquire(conn, name, probe, bench.clock.ms, 1)
        leases.release(conn, name, probe)
    return taken


def test_a_job_waits_while_another_one_has_the_lock_of_its_subject(bench: Bench) -> None:
    seen: list[Drained] = []

    def work(job: RunningJob) -> str | None:
        if job.row.id == first.id:
            seen.append(queue.drain_once(subject="t"))
            seen.append(queue.drain_once(subject="other"))
        return None

    queue = bench.queue("whole", work, lock="table")
    first, second, _ = bench.insert(queue), bench.insert(queue), bench.insert(queue, subject="other")
    assert queue.drain_once(max_jobs=1, subject="t") == Drained(succeeded=1)
    assert seen == [Drained(waiting=1), Drained(succeeded=1)]
    row = bench.row(second)
    assert (row.attempts, row.last_error) == (0, "another whole of ns.t is under way")
    assert row.not_before_ms == bench.clock.ms + LOCK_WAIT_MS
    bench.clock.ms += LOCK_WAIT_MS
    assert queue.drain_once() == Drained(succeeded=1)
    assert is_free(bench)


@pytest.mark.parametrize("error", [FloecatError("no"), ValueError("no")])
def test_a_job_that_fails_releases_its_lock(bench: Bench, error: Exception) -> None:
    def work(_job: RunningJob) -> str | None:
        raise error

    queue = bench.queue("whole", work, lock="table")
    bench.insert(queue)
    for outcome in ("waiting", "failed"):
        assert getattr(queue.drain_once(), outcome) == 1
        assert is_free(bench)
        bench.clock.ms += RETRY_MS


def test_a_job_that_is_put_back_keeps_its_lock_and_its_groups_extend_it(bench: Bench) -> None:
    def work(job: RunningJob) -> str | None:
        raise JobPostponedError("waits for groups", bench.clock.ms + 3 * LEASE_MS)

    def group(job: RunningJob) -> str | None:
        bench.clock.ms += LEASE_MS - 1
        before = bench.row(job.row).lease_expires_at_ms
        while bench.row(job.row).lease_expires_at_ms == before:
            time.sleep(0.01)
        return None

    queue, parts = bench.queue("whole", work, lock="table"), bench.queue("part", group, lock="table")
    # it renews by the clock of the machine
    quick = JobQueue(
        bench.store, bench.clock, msgspec.structs.replace(parts.kind, lease_ms=300, is_part=True)
    )
    whole, other = bench.insert(queue), bench.insert(queue)
    assert queue.drain_once(max_jobs=1) == Drained(waiting=1)
    assert not is_free(bench)
    bench.insert(parts, parent_id=whole.id)
    assert quick.drain_once() == Drained(succeeded=1)
    bench.clock.ms += 299
    assert not is_free(bench)
    assert queue.drain_once() == Drained(waiting=1)
    assert bench.row(other).last_error == "another whole of ns.t is under way"
    bench.clock.ms += 1
    assert is_free(bench)
    # what a group does when the job that made it has ended locks nothing
    bench.insert(parts, parent_id=whole.id)
    assert quick.drain_once() == Drained(succeeded=1)
    assert is_free(bench)
