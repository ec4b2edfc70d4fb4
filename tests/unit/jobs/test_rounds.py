"""Rounds: due jobs several at once, fair between accounts, until none is left."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from uuid import UUID

import pytest
import uuid_utils.compat as uuids

from floecat.child_process import NICENESS
from floecat.jobs.rounds import JobRound
from floecat.jobs.running_job import RunningJob
from floecat.store.jobs import jobs
from tests.unit.jobs.conftest import Bench, Number

Tell = Callable[[UUID], None]


def insert(bench: Bench, account: UUID, number: int = 1) -> None:
    kind = bench.kind("scan", lambda _job: None)
    for _ in range(number):
        made = kind.new_job(
            account_id=account,
            catalog_id=uuids.uuid7(),
            title="t",
            subject="t",
            payload=Number(0),
            created_by="anna",
            now_ms=bench.clock.ms,
        )
        bench.store.run(lambda conn, made=made: jobs.insert(conn, made))


def round_of(bench: Bench, work: Callable[[RunningJob, Tell], str | None]) -> JobRound[UUID]:
    return JobRound(bench.queue("scan", lambda _job: None), work, at_once=8, lasts_s=60)


def test_an_account_leaves_threads_to_others(bench: Bench) -> None:
    hang = threading.Event()
    accounts = [uuids.uuid7() for _ in range(3)]
    running: list[UUID] = []
    begun = threading.Semaphore(0)

    def work(job: RunningJob, tell: Tell) -> str | None:
        running.append(job.row.account_id)
        begun.release()
        hang.wait(60)
        tell(job.row.account_id)
        return None

    for account in accounts:
        insert(bench, account, 10)
    made = round_of(bench, work)
    looks: list[int] = []
    told: list[UUID] = []
    thread = threading.Thread(target=lambda: told.extend(made.run(lambda: looks.append(1))))
    thread.start()
    for _ in range(6):
        assert begun.acquire(timeout=30)
    # an account begins one while more are free than it has: two are left for others
    assert sorted(map(running.count, accounts)) == [2, 2, 2]
    hang.set()
    thread.join(60)
    assert sorted(map(told.count, accounts)) == [10, 10, 10]
    assert looks


def test_what_becomes_due_meanwhile_is_worked_on(bench: Bench) -> None:
    account, more = uuids.uuid7(), [uuids.uuid7(), uuids.uuid7()]

    def work(job: RunningJob, tell: Tell) -> str | None:
        tell(job.row.account_id)
        return None

    def look() -> None:
        if more:
            insert(bench, more.pop())

    insert(bench, account)
    assert len(list(round_of(bench, work).run(look))) == 3


def test_a_fault_of_the_store_ends_it_and_jobs_are_given_back(bench: Bench) -> None:
    class DiedError(BaseException):
        pass

    def work(job: RunningJob, _tell: Tell) -> str | None:
        if job.row.account_id == dies:
            raise DiedError
        while True:
            job.check()

    dies, waits = sorted([uuids.uuid7(), uuids.uuid7()], reverse=True)
    insert(bench, waits)
    insert(bench, dies)
    with pytest.raises(DiedError):
        list(round_of(bench, work).run(lambda: None))
    with bench.store.read() as conn:
        states = jobs.count_by_state(conn)
    assert states == {("scan", "running"): 1, ("scan", "waiting"): 1}


def test_jobs_give_way_to_requests_and_their_process_does_not(bench: Bench) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    seen: list[int] = []

    def work(_job: RunningJob, _tell: Tell) -> str | None:
        seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        return None

    insert(bench, uuids.uuid7())
    assert list(round_of(bench, work).run(lambda: None)) == []
    assert seen == [max(own, NICENESS)]
    assert os.getpriority(os.PRIO_PROCESS, 0) == own
