"""Data files that cannot be read, or take too much, stop no others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from floecat.errors import UnavailableError
from floecat.iceberg.values.bounds import process_bounds
from floecat.settings.kinds import Duration
from floecat.settings.limits import LimitSettings
from floecat.statistics.records import Completeness
from tests.behaviour.catalog.captures.bench import Bench
from tests.clocks import SetClock
from tests.endless_file import endless_parquet


@pytest.mark.parametrize(
    "groups", [{}, {"files_per_group": 1, "max_attempts": 1}], ids=["one step", "groups"]
)
def test_a_file_that_is_gone_or_broken_is_named_and_stops_nothing(
    open_bench: Callable[..., Bench], groups: dict[str, int]
) -> None:
    bench = open_bench(**groups)
    bench.append(3)
    bench.file(0).unlink()
    bench.file(1).write_bytes(b"PAR1 broken")
    (done,) = bench.capture()
    assert done.state == "succeeded"
    captured = bench.captured()
    assert captured.problem is not None
    assert done.problem == captured.problem
    assert captured.problem.startswith("2 data files are missing in the statistics")
    assert bench.appends.paths[0] in captured.problem
    assert bench.appends.paths[1] in captured.problem
    assert bench.rows() == 10
    assert {each.metadata.completeness for each in bench.records()} == {Completeness.PARTIAL}
    assert bench.metadata.statistics == ()


def test_a_table_of_which_nothing_can_be_read_is_tried_eight_times(bench: Bench, clock: SetClock) -> None:
    bench.append(1)
    bench.file(0).unlink()
    waits = []
    while (done := bench.capture()[0]).is_open:
        assert done.due_at_ms is not None
        waits.append(done.due_at_ms - clock.ms)
        clock.ms = done.due_at_ms
    assert (done.state, done.attempts) == ("failed", 8)
    assert done.last_error is not None
    assert bench.appends.paths[0] in done.last_error
    longest = [min(30_000, 500 * 2**number) for number in range(7)]
    assert all(most / 2 <= waited <= most for most, waited in zip(longest, waits, strict=True))
    assert bench.captured().status == "pending"
    assert bench.records() == []


def test_a_file_beyond_a_bound_makes_the_capture_partial(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.grow()
    monkeypatch.setattr(process_bounds, "limits", LimitSettings(data_file_footer_bytes=100))
    bench.append(1)
    assert {each.state for each in bench.capture()} == {"succeeded"}
    problem = bench.captured().problem
    assert problem is not None
    assert bench.appends.paths[1] in problem
    assert "floecat.limits.data-file-footer-bytes" in problem
    assert bench.rows() == 10


def test_a_file_that_takes_too_long_is_named_and_stops_nothing(open_bench: Callable[..., Bench]) -> None:
    bench = open_bench(in_process_bytes=0, file_processor_time=Duration(2_000))
    bench.append(3)
    size = bench.file(1).stat().st_size
    bench.file(1).write_bytes(endless_parquet(20, size_bytes=size))
    (done,) = bench.capture()
    assert (done.state, done.attempts) == ("succeeded", 1)
    problem = bench.captured().problem
    assert problem is not None
    assert bench.appends.paths[1] in problem
    assert "(floecat.statistics.file-processor-time)" in problem
    assert bench.rows() == 20
    built = bench.pipeline.build_page_indexes(bench.entry_id)
    assert built is not None
    assert built.built == 2
    assert [each.location for each in built.problems] == [bench.appends.paths[1]]


def test_a_table_of_files_that_take_too_long_is_tried_once(open_bench: Callable[..., Bench]) -> None:
    bench = open_bench(in_process_bytes=0, file_processor_time=Duration(2_000), files_per_group=1)
    bench.append(2)
    for number in range(2):
        size = bench.file(number).stat().st_size
        bench.file(number).write_bytes(endless_parquet(20, size_bytes=size))
    (done,) = bench.capture()
    assert (done.state, done.attempts) == ("failed", 1)
    assert done.last_error is not None
    assert "(floecat.statistics.file-processor-time)" in done.last_error
    groups = bench.shown(done.id).groups
    assert [(group.state, group.attempts) for group in groups] == [("failed", 1)] * 2


def test_a_capture_of_damaged_files_says_which_while_it_is_tried_again(
    open_bench: Callable[..., Bench],
) -> None:
    bench = open_bench(backoff_base_ms=10_000, backoff_max_ms=10_000)
    bench.append(3)
    for number in range(3):
        bench.file(number).write_bytes(b"damaged")
    named = r"took longer.*attempt: Cannot read file:.*; 2 other data files cannot be read, either"
    with pytest.raises(UnavailableError, match=named):
        bench.ask(wait_ms=2_000)
