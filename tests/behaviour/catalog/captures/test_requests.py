"""Captures that are asked for, waited for and cancelled, beside commits and each other."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from uuid_utils.compat import uuid7

from floecat.errors import BadRequestError, ConflictError, NotFoundError, UnavailableError
from floecat.statistics.capture.descriptions import CaptureInfo
from floecat.store.database.engine import Connection
from floecat.store.jobs import job_claims, jobs, leases
from tests.behaviour.catalog.captures.bench import (
    BOTH,
    Bench,
    T,
    wait_for,
)
from tests.clocks import SetClock


def test_capture_now_answers_or_is_cancelled(bench: Bench) -> None:
    bench.append(1)
    assert bench.ask().state == "succeeded"
    full = bench.ask("main", full=True)
    assert (full.state, full.stored, full.done) == ("succeeded", 0, 1)
    assert bench.captured().generation == 2
    with pytest.raises(BadRequestError, match="between 0 and 60 s"):
        bench.ask(wait_ms=60_001)
    with pytest.raises(NotFoundError, match="no snapshot 7"):
        bench.ask("7")


def test_a_capture_that_takes_too_long_is_cancelled(open_bench: Callable[..., Bench]) -> None:
    bench = open_bench(files_per_group=1, large_capture_bytes=1)
    bench.append(2)
    seen: list[CaptureInfo] = []
    with pytest.raises(UnavailableError, match=r"took longer than 0\.3 s and was cancelled"):
        bench.ask(wait_ms=300, watch=seen.append)
    (done,) = bench.listed()
    assert done.state == "cancelled"
    assert {each.id for each in seen} == {done.id}
    assert bench.records() == []


def test_waiting_for_a_capture_of_a_commit_does_not_cancel_it(bench: Bench) -> None:
    bench.append(1)
    bench.pipeline.search_commits()
    with bench.kernel.store.read() as conn:
        (job,) = jobs.list_open(conn, "capture")
    other = uuid7()
    assert bench.kernel.store.run(
        lambda conn: leases.acquire(conn, f"capture:{bench.entry_id}", other, time.time_ns() // 10**6, 60_000)
    )
    with pytest.raises(UnavailableError, match="goes on"):
        bench.ask(wait_ms=50)
    assert bench.shown(job.id).is_open


def test_a_cancelled_capture_is_asked_for_again_by_a_backfill(bench: Bench) -> None:
    bench.append(1)
    asked = bench.ask(wait_ms=0)
    assert bench.captures.backfill(bench.call, T) == []
    bench.captures.cancel(bench.call, asked.id)
    assert len(bench.captures.backfill(bench.call, T)) == 1
    bench.capture()
    assert bench.rows() == 10


def test_a_capture_that_is_being_cancelled_takes_no_twin(bench: Bench, clock: SetClock) -> None:
    bench.append(1)
    asked = bench.ask(wait_ms=0)

    def claim(conn: Connection) -> None:
        job_claims.claim(conn, "capture", "dead", clock.ms, 1_000, base_ms=1, longest_ms=1)

    bench.kernel.store.run(claim)
    assert bench.captures.cancel(bench.call, asked.id).state == "cancelling"
    with pytest.raises(ConflictError, match="is being cancelled"):
        bench.ask()


@BOTH
def test_twins_are_one_capture_and_a_table_has_one_at_a_time(bench: Bench, clock: SetClock) -> None:
    bench.append(1)
    bench.append(1)
    first = bench.ask(wait_ms=0)
    assert bench.ask(wait_ms=0).id == first.id
    other = bench.ask("1", wait_ms=0)
    assert other.id != first.id
    workers = [threading.Thread(target=bench.pipeline.drain, args=(bench.entry_id,)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    while any(each.is_open for each in bench.listed()):
        clock.ms += 1_000
        bench.pipeline.drain(bench.entry_id)
    assert {each.state for each in bench.listed()} == {"succeeded"}
    assert [each.status for each in bench.snapshots()] == ["finalized", "finalized"]
    assert bench.rows() == 20


@BOTH
def test_only_the_newest_of_several_commits_is_captured(bench: Bench) -> None:
    bench.append(1)
    bench.pipeline.search_commits()
    bench.append(1)
    bench.pipeline.search_commits()
    bench.capture()
    assert [each.snapshot_id for each in bench.snapshots()] == [2]
    assert len(bench.captures.backfill(bench.call, T)) == 1
    bench.capture()
    assert [each.snapshot_id for each in bench.snapshots()] == [1, 2]
    first = bench.captures.snapshot_page(bench.call, T, None, 1)
    rest = bench.captures.snapshot_page(bench.call, T, first.next_token, 1)
    assert [each.snapshot_id for each in (*first.items, *rest.items)] == [1, 2]
    assert rest.next_token is None


@BOTH
def test_a_table_that_is_dropped_meanwhile_ends_its_captures(bench: Bench) -> None:
    bench.append(1)
    entry_id = bench.entry_id
    bench.pipeline.search_commits()
    bench.kernel.purge.drops.drop(bench.call, T, purge=False)
    bench.pipeline.drain(entry_id)
    (done,) = bench.listed()
    assert done.state == "succeeded"
    assert bench.pipeline.search_commits() == 0


def test_captures_beside_commits_lose_neither(open_bench: Callable[..., Bench]) -> None:
    bench = open_bench(poll_interval_ms=10)
    bench.kernel.background.start()
    for _ in range(8):
        bench.append(1)
    wait_for(lambda: bench.captured_rows() == 80)
    assert len(bench.metadata.snapshots) == 8


def test_loads_go_on_while_a_process_reads_files(open_bench: Callable[..., Bench]) -> None:
    bench = open_bench(poll_interval_ms=10, in_process_bytes=0, workers=1)
    bench.kernel.background.start()
    bench.append(1)
    wait_for(lambda: [each.state for each in bench.listed()] == ["succeeded"])
    (process,) = capture_processes()
    os.kill(process, signal.SIGSTOP)
    bench.append(1)
    wait_for(lambda: any(each.state == "running" for each in bench.listed()))
    assert bench.metadata.current_snapshot_id == 2
    assert bench.captured_rows() is None
    os.kill(process, signal.SIGCONT)
    wait_for(lambda: bench.captured_rows() == 20)
    assert capture_processes() == {process}


def capture_processes() -> set[int]:
    """Processes of this one that read data files."""
    found = set()
    # /proc/self/task/*/children misses what moves from a thread that ends to another one
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            parent = process.joinpath("stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) == os.getpid() and b"# capture" in process.joinpath("cmdline").read_bytes():
                found.add(int(process.name))
    return found
