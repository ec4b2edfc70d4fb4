"""Jobs that are divided: no group is lost or made twice, whoever dies, fails or cancels."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from floecat.errors import FloecatError
from floecat.jobs.groups import Group, Groups, Offer
from floecat.jobs.queue import Drained, JobQueue
from floecat.jobs.running_job import JobCancelledError, RunningJob
from floecat.store.jobs import job_claims
from floecat.store.jobs.jobs import JobRow
from floecat.store.jobs.leases import LeaseLostError
from tests.unit.jobs.conftest import LEASE_MS, RETRY_MS, Bench, Number

WAIT_MS = 5_000


class Divided:
    """Adds numbers up: a job makes a group for each, and reads what became of them."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.numbers = [1, 2, 3]
        self.at_once = 2
        self.offer: Offer | None = None
        self.failing: set[int] = set()
        self.woken = 0
        self.before: list[list[str]] = []
        """States of groups that attempts found, where they found any."""
        self.during: Callable[[RunningJob], None] = lambda _job: None
        self.groups = Groups(bench.store, bench.clock, bench.kind("part", self._add), wake=self._wake)
        self.whole = bench.queue("whole", self._divide)

    @property
    def parts(self) -> JobQueue:
        return self.groups.queue

    def _wake(self) -> None:
        self.woken += 1

    def _divide(self, job: RunningJob) -> str | None:
        round = self.groups.round(job)
        if round.before:
            self.before.append(sorted(group.state for group in round.before))
            job.progress["sum"] = sum(
                msgspec.json.decode(group.progress).get("added", 0) for group in round.before
            )
            round.forget()
            self.during(job)
            return None
        for start in range(0, len(self.numbers), self.at_once):
            some = self.numbers[start : start + self.at_once]
            round.make((Group(Number(number), b"%d" % number) for number in some), self.offer)
            self.during(job)
        assert round.made == len(self.numbers)
        round.wait()

    def _add(self, job: RunningJob) -> str | None:
        number = int(job.attachment() or b"0")
        if number in self.failing:
            raise FloecatError(f"cannot add {number}")
        job.progress["added"] = number
        return None

    def total(self, job: JobRow) -> int | None:
        progress = msgspec.json.decode(self.bench.row(job).progress)
        assert "round" not in progress
        found: int | None = progress.get("sum")
        return found


@pytest.fixture
def divided(bench: Bench) -> Divided:
    return Divided(bench)


def test_a_job_goes_on_when_its_last_group_has_ended(bench: Bench, divided: Divided) -> None:
    job = bench.insert(divided.whole)
    assert divided.whole.drain_once() == Drained(waiting=1)
    waiting = bench.row(job)
    assert (waiting.state, waiting.attempts, waiting.lane) == ("waiting", 0, "default")
    assert (waiting.last_error, waiting.not_before_ms) == ("waits for 3 groups", bench.clock.ms + WAIT_MS)
    groups = bench.groups(job)
    assert {(group.title, group.subject, group.created_by, group.account_id) for group in groups} == {
        ("ns.t", "t", "anna", job.account_id)
    }
    assert [group.dedup_key for group in groups] == [f"{job.id}:1:{number}" for number in range(3)]
    assert divided.parts.drain_once(max_jobs=2) == Drained(succeeded=2)
    assert divided.whole.drain_once() == Drained()
    woken = divided.woken
    assert divided.parts.drain_once() == Drained(succeeded=1)
    assert divided.woken == woken + 1
    assert divided.whole.drain_once() == Drained(succeeded=1)
    assert (divided.total(job), bench.row(job).attempts, divided.before) == (6, 1, [["succeeded"] * 3])
    assert len(bench.groups(job)) == 3


def test_a_job_looks_by_itself_whether_its_groups_have_ended(bench: Bench, divided: Divided) -> None:
    job = bench.insert(divided.whole)
    divided.whole.drain_once()
    # a worker of groups that dies as it says so
    silent = JobQueue(bench.store, bench.clock, msgspec.structs.replace(divided.parts.kind, ended=None))
    bench.clock.ms += WAIT_MS
    assert divided.whole.drain_once() == Drained(waiting=1)
    assert bench.row(job).last_error == "waits for 3 groups"
    assert silent.drain_once() == Drained(succeeded=3)
    assert divided.whole.drain_once() == Drained()
    bench.clock.ms += WAIT_MS
    assert divided.whole.drain_once() == Drained(succeeded=1)
    assert divided.total(job) == 6


def test_a_group_that_fails_for_good_counts_as_ended(bench: Bench, divided: Divided) -> None:
    divided.failing = {2}
    job = bench.insert(divided.whole)
    divided.whole.drain_once()
    assert divided.parts.drain_once() == Drained(succeeded=2, waiting=1)
    assert divided.whole.drain_once() == Drained()
    bench.clock.ms += RETRY_MS
    assert divided.parts.drain_once() == Drained(failed=1)
    assert divided.whole.drain_once() == Drained(succeeded=1)
    assert (divided.total(job), divided.before) == (4, [["failed", "succeeded", "succeeded"]])


def test_a_round_with_a_cancelled_group_is_made_again(bench: Bench, divided: Divided) -> None:
    job = bench.insert(divided.whole)
    divided.whole.drain_once()
    bench.cancel(bench.groups(job)[1])
    assert divided.parts.drain_once() == Drained(succeeded=2)
    assert divided.whole.drain_once() == Drained(waiting=1)
    assert divided.parts.drain_once() == Drained(succeeded=3)
    assert divided.whole.drain_once() == Drained(succeeded=1)
    assert (divided.total(job), bench.states(job)) == (6, ["succeeded"] * 3)


def test_a_round_that_its_worker_did_not_end_is_waited_for_and_made_anew(
    bench: Bench, divided: Divided
) -> None:
    def die(_job: RunningJob) -> None:
        raise KeyboardInterrupt

    divided.during = die
    job = bench.insert(divided.whole)
    with pytest.raises(KeyboardInterrupt):
        divided.whole.drain_once()
    assert bench.states(job) == ["queued"] * 2
    divided.during = lambda _job: None
    bench.clock.ms += LEASE_MS + 2 * RETRY_MS
    assert divided.whole.drain_once() == Drained(waiting=1)
    assert bench.row(job).last_error == "waits for 2 groups"
    assert divided.parts.drain_once() == Drained(succeeded=2)
    # only what was waited for in a round is taken for worked on
    assert divided.whole.drain_once() == Drained(waiting=1)
    assert (divided.before, bench.states(job)) == ([], ["queued"] * 3)
    assert divided.parts.drain_once() == Drained(succeeded=3)
    assert divided.whole.drain_once() == Drained(succeeded=1)
    assert divided.total(job) == 6


def test_what_goes_missing_after_a_round_is_worked_on_by_another_one(bench: Bench, divided: Divided) -> None:
    def lose(job: RunningJob) -> None:
        if "sum" in job.progress:
            divided.during = lambda _job: None
            raise FloecatError("a result of a group is lost")

    divided.during = lose
    job = bench.insert(divided.whole)
    divided.whole.drain_once()
    divided.parts.drain_once()
    assert divided.whole.drain_once() == Drained(waiting=1)
    bench.clock.ms += RETRY_MS
    assert divided.whole.drain_once() == Drained(waiting=1)
    assert bench.states(job) == ["queued"] * 3
    divided.parts.drain_once()
    assert divided.whole.drain_once() == Drained(succeeded=1)


def test_a_worker_that_has_lost_its_job_makes_no_groups(bench: Bench, divided: Divided) -> None:
    def lose(job: RunningJob) -> None:
        bench.clock.ms += LEASE_MS + 2 * RETRY_MS
        claimed = bench.store.run(
            lambda conn: job_claims.claim(
                conn, "whole", "other", bench.clock.ms, LEASE_MS, base_ms=1, longest_ms=1
            )
        )
        assert [row.id for row in claimed] == [job.row.id]

    divided.during = lose
    job = bench.insert(divided.whole)
    assert divided.whole.drain_once(max_jobs=1) == Drained(lost=1)
    assert len(bench.groups(job)) == divided.at_once


def test_a_job_that_is_cancelled_makes_no_more_groups(bench: Bench, divided: Divided) -> None:
    divided.during = lambda job: bench.cancel(job.row)
    job = bench.insert(divided.whole)
    assert divided.whole.drain_once() == Drained(cancelled=1)
    assert bench.states(job) == ["cancelled"] * 2
    assert divided.parts.drain_once() == Drained()


def test_groups_are_offered_to_a_lane_before_they_are_due_for_all(bench: Bench, divided: Divided) -> None:
    divided.offer = Offer("fast", 10_000)
    job = bench.insert(divided.whole)
    divided.whole.drain_once()
    assert divided.parts.drain_once() == Drained()
    assert divided.parts.offered("fast") == len(bench.groups(job)) > 0
    assert divided.parts.work_on_offered("other", lambda _job: None) is None
    seen: list[int] = []
    worked = divided.parts.work_on_offered("fast", lambda job: seen.append(int(job.attachment() or b"0")))
    assert worked is not None
    assert (worked[0].parent_id, worked[1].outcome) == (job.id, "succeeded")
    assert len(seen) == 1
    bench.clock.ms += 10_000
    assert divided.parts.offered("fast") == 0
    assert divided.parts.work_on_offered("fast", lambda _job: None) is None
    assert divided.parts.drain_once() == Drained(succeeded=2)
    assert divided.whole.drain_once() == Drained(succeeded=1)
    assert divided.total(job) == 6 - seen[0]


def test_what_a_job_submits_needs_its_lease(bench: Bench) -> None:
    """Progress is stored with it, and a job that is to be cancelled submits nothing."""
    outcomes: list[object] = []

    def work(job: RunningJob) -> str | None:
        job.progress["n"] = 1
        assert job.submit(lambda _conn: 7) == 7
        assert bench.row(job.row).progress == '{"n":1}'
        bench.cancel(job.row)
        for expected in (JobCancelledError, LeaseLostError):
            with pytest.raises(expected):
                job.submit(outcomes.append)
            bench.store.run(lambda conn: job_claims.finish(conn, job.lease, "failed", "{}", bench.clock.ms))
        return None

    queue = bench.queue("one", work)
    bench.insert(queue)
    assert queue.drain_once() == Drained(lost=1)
    assert outcomes == []
