"""Statistics files of tables: when they are published, and when not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from floecat.events.commit_cursor import CommitCursor
from floecat.runtime import Kernel
from floecat.settings.kinds import Duration
from floecat.statistics.capture.reading.tables import find_table
from floecat.statistics.records import (
    THETA_SKETCH,
    TargetKind,
)
from tests.behaviour.catalog.captures.bench import (
    BOTH,
    Bench,
    T,
)
from tests.behaviour.catalog.changes import change, set_property
from tests.clocks import SetClock


def test_a_commit_leads_to_statistics_and_to_a_statistics_file(bench: Bench) -> None:
    bench.append(2)
    (done,) = bench.capture()
    assert (done.state, done.reason, done.files, done.done) == ("succeeded", "commit", 2, 2)
    first, second, of_table = bench.records()
    assert of_table.table is not None
    assert first.scalar is not None
    assert second.scalar is not None
    assert (of_table.table.row_count, of_table.table.data_file_count) == (20, 2)
    assert (first.scalar.min, first.scalar.max, first.scalar.null_count) == ("0", "19", 0)
    assert first.scalar.nan_count is None  # only floats have NaN
    assert second.scalar.ndv is not None
    assert second.scalar.ndv.exact == 3
    assert (second.scalar.display_name, second.scalar.logical_type) == ("text", "STRING")
    assert len(bench.records(TargetKind.FILE)) == 2
    (published,) = bench.metadata.statistics
    assert published.snapshot_id == 1
    assert [blob.properties for blob in published.blob_metadata] == [{"ndv": "20"}, {"ndv": "3"}]
    assert (
        Path(published.statistics_path.removeprefix("file://")).stat().st_size == published.file_size_in_bytes
    )
    assert bench.captured().statistics_file == published.statistics_path
    *_, commit = bench.kernel.events.commits.after(CommitCursor(), limit=100).events
    assert (commit.only_statistics, commit.snapshot_id) == (True, 1)
    # that commit starts nothing, nor does one of properties
    bench.commit(set_property("t", "a", "b"))
    assert len(bench.capture()) == 1


@BOTH
def test_a_statistics_file_waits_until_nobody_works_on_the_table(
    open_bench: Callable[..., Bench], clock: SetClock
) -> None:
    """What commits to a table between a client's load and its commit fails some transactions of Java."""
    bench = open_bench(publish_after=Duration(60_000))
    kernel, entry_id = bench.kernel, bench.entry_id
    other = Kernel(kernel.settings, kernel.store, kernel.files, clock)  # as another process

    def files() -> list[int]:
        found = find_table(kernel.parts, entry_id)
        assert found is not None
        return [each.snapshot_id for each in found.metadata.statistics]

    def wait(ms: int) -> list[int]:
        clock.ms += ms
        other.statistics.pipeline.drain(entry_id)
        return files()

    bench.append(1)
    clock.ms += 30_000
    bench.append(1)
    (done,) = bench.capture()
    assert (done.state, files()) == ("succeeded", [])
    assert bench.pipeline.pending() == []
    # a load of this process puts it off for all
    assert wait(59_000) == []
    kernel.catalog.tables.load(bench.call, T)
    kernel.statistics.jobs.hold_publications(kernel.catalog.loads)
    assert wait(2_000) == []
    # one of that process, too: the longer ago the last commit was, the less
    assert other.catalog.tables.load(bench.call, T)
    assert wait(29_000) == []
    clock.ms += 31_000
    assert [each.captures for each in bench.pipeline.pending()] == [1]
    assert wait(0) == [2]
    assert len(bench.capture()) == 1
    # at most one for a snapshot
    kernel.commits.tables.commit(bench.call, change("t", [{"action": "remove-statistics", "snapshot-id": 2}]))
    kernel.statistics.captures.capture(bench.call, T, wait_ms=0)
    assert wait(10 * 60_000) == []
    # a table that is read all the time, and not committed to
    bench.grow()
    waited_ms = 0
    while files() != [3]:
        other.catalog.tables.load(bench.call, T)
        wait(5_000)
        waited_ms += 5_000
        assert waited_ms < 3_600_000
    assert waited_ms > 600_000


def test_a_commit_takes_the_place_of_a_statistics_file_that_waits(
    open_bench: Callable[..., Bench], clock: SetClock
) -> None:
    bench = open_bench(publish_after=Duration(60_000))
    for _ in range(3):
        bench.grow()
        clock.ms += 50_000
    bench.capture()
    assert bench.metadata.statistics == ()
    clock.ms += 120_000
    bench.capture()
    assert [each.snapshot_id for each in bench.metadata.statistics] == [3]


def analyzed(snapshot_id: int, *blobs: tuple[str, int]) -> dict[str, Any]:
    """A statistics file of another engine."""
    described = [
        {"type": kind, "snapshot-id": snapshot_id, "sequence-number": snapshot_id, "fields": [id]}
        for kind, id in blobs
    ]
    file = {
        "snapshot-id": snapshot_id,
        "statistics-path": "file:///elsewhere.stats",
        "file-size-in-bytes": 1,
        "file-footer-size-in-bytes": 1,
        "blob-metadata": described,
    }
    return {"action": "set-statistics", "snapshot-id": snapshot_id, "statistics": file}


@pytest.mark.parametrize(
    ("settings", "blobs", "published"),
    [
        # what the newest file has is captured, too
        ({"first_columns": 1}, [(THETA_SKETCH, 1), (THETA_SKETCH, 2)], [1, 2]),
        ({"first_columns": 1}, [(THETA_SKETCH, 1), (THETA_SKETCH, 99)], [1]),
        # what cannot be made is not hidden
        ({"first_columns": 1}, [(THETA_SKETCH, 1), ("another-kind", 2)], None),
        ({"columns": "id"}, [(THETA_SKETCH, 1), (THETA_SKETCH, 2)], None),
    ],
    ids=["more columns", "dropped column", "another kind", "policy names columns"],
)
def test_a_statistics_file_hides_no_columns_of_the_newest_one(
    open_bench: Callable[..., Bench],
    settings: dict[str, Any],
    blobs: list[tuple[str, int]],
    published: list[int] | None,
) -> None:
    """Engines read the file of the nearest ancestor alone."""
    bench = open_bench(**({} if "columns" in settings else settings))
    if "columns" in settings:
        columns = set_property("t", "floecat.statistics.columns", settings["columns"])
        bench.commit(columns)
    bench.append(1)
    bench.commit(change("t", [analyzed(1, *blobs)]))
    bench.grow()
    found = {each.snapshot_id: each for each in bench.metadata.statistics}
    if published is None:
        assert list(found) == [1]
    else:
        assert [blob.fields for blob in found[2].blob_metadata] == [(id,) for id in published]
