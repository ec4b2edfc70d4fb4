"""Captures of many files, which are divided into groups."""

from __future__ import annotations

import json
from collections.abc import Callable

from floecat.statistics.capture.reading.file_groups import FileGroup, GroupResult, read_group
from floecat.statistics.capture.reading.tables import CapturedTable
from floecat.store.jobs import jobs
from tests.behaviour.catalog.captures.bench import (
    BOTH,
    Bench,
    order_of,
)
from tests.clocks import SetClock


@BOTH
def test_a_large_snapshot_is_captured_in_groups(open_bench: Callable[..., Bench]) -> None:
    bench = open_bench(files_per_group=2)
    bench.append(5)
    (done,) = bench.capture()
    shown = bench.shown(done.id)
    assert (shown.state, shown.attempts, shown.done, shown.stored) == ("succeeded", 1, 5, 0)
    coverage = bench.coverage()
    assert coverage.read == 5
    assert [(group.number, group.state, group.files) for group in shown.groups] == [
        (0, "succeeded", 2),
        (1, "succeeded", 2),
        (2, "succeeded", 1),
    ]
    assert bench.rows() == 50


def test_a_capture_reads_no_more_groups_than_it_may_and_the_next_goes_on(
    open_bench: Callable[..., Bench],
) -> None:
    bench = open_bench(files_per_group=1, groups_per_capture=2)
    bench.append(3)
    (done,) = bench.capture()
    assert done.state == "succeeded"
    assert bench.captured().problem == (
        "1 data file is missing in the statistics:"
        " a capture reads no more (floecat.statistics.groups-per-capture)"
    )
    assert bench.rows() == 20
    bench.grow()
    assert (bench.captured().problem, bench.rows()) == (None, 40)


def test_an_attempt_replaces_the_groups_of_the_one_before(
    open_bench: Callable[..., Bench], clock: SetClock
) -> None:
    bench = open_bench(files_per_group=7, max_attempts=2)
    bench.append(9)
    for number in range(9):
        bench.file(number).unlink()
    while any(each.is_open for each in bench.capture()):
        clock.ms += 60_000
    (failed,) = bench.listed()
    assert (failed.state, failed.attempts) == ("failed", 2)
    assert failed.last_error is not None
    assert failed.last_error.endswith("; 8 other data files cannot be read, either")
    shown = bench.shown(failed.id)
    assert [(group.state, group.files) for group in shown.groups] == [("failed", 7), ("failed", 2)]
    with bench.kernel.store.read() as conn:
        progress = [json.loads(group.progress) for group in jobs.children(conn, failed.id)]
    assert sorted(len(each["problems"]) for each in progress) == [2, 5]


def test_what_is_lost_while_groups_are_read_is_read_by_the_next_attempt(
    open_bench: Callable[..., Bench], clock: SetClock
) -> None:
    bench = open_bench(files_per_group=1, large_capture_bytes=1)
    bench.grow()
    (before,) = (path for path in bench.sidecars() if path.suffix == ".stats")
    bench.append(3)
    bench.capture()
    before.unlink()
    while bench.pipeline.work_on_next_group(lambda table, group, _: read_group(order_of(table, group))):
        pass
    while any(each.is_open for each in bench.capture()):
        clock.ms += 60_000
    assert (bench.captured().problem, bench.rows()) == (None, 40)


@BOTH
def test_large_captures_are_offered_to_spark(open_bench: Callable[..., Bench], clock: SetClock) -> None:
    bench = open_bench(files_per_group=2, large_capture_bytes=1)
    bench.append(4)
    bench.capture()
    (pending,) = bench.pipeline.pending()
    assert (pending.name, pending.captures, pending.groups) == ("ns.t", 1, 2)
    assert pending.offered_bytes > 0

    def read(table: CapturedTable, group: FileGroup, check: Callable[[int], None]) -> GroupResult:
        return read_group(order_of(table, group), check)

    while (worked := bench.pipeline.work_on_next_group(read)) is not None:
        assert worked[1].outcome == "succeeded"
    bench.pipeline.drain(bench.entry_id)
    assert bench.rows() == 40


@BOTH
def test_cancelling_spreads_to_groups(open_bench: Callable[..., Bench]) -> None:
    bench = open_bench(files_per_group=1, large_capture_bytes=1)
    bench.append(2)
    (waiting,) = bench.capture()
    assert waiting.state == "waiting"
    cancelled = bench.captures.cancel(bench.call, waiting.id)
    assert cancelled.state == "cancelled"
    assert [group.state for group in cancelled.groups] == ["cancelled", "cancelled"]
    assert bench.pipeline.pending() == []
    # the lock of the table is free at once
    assert bench.ask(wait_ms=0).is_open
