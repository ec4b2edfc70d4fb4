"""Files of index artifacts go with their table, and stay as long as a live one has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from floecat.clock import SystemClock
from floecat.identifiers.namespace import TableIdentifier
from floecat.jobs.queue import Drained
from floecat.settings import PurgeSettings
from floecat.statistics.index_artifacts import IndexArtifact
from floecat.statistics.records import FileTarget
from tests.unit.purge.kernels import NAME, PurgeBench
from tests.unit.purge.table_files import TableFiles

LATER_MS = 10 * 86_400_000


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[PurgeBench]:
    opened = PurgeBench(tmp_path, PurgeSettings(files_per_call=4))
    yield opened
    opened.kernel.close()


def with_artifacts(bench: PurgeBench, name: str, *places: str) -> tuple[TableFiles, list[str]]:
    """A table, and a file of an index artifact for each of its data files."""
    table = bench.new_table(name)
    written = [table.write(table.path(place)) for place in places]
    put(bench, name, written)
    return table, written


def put(bench: PurgeBench, name: str, locations: list[str]) -> None:
    artifacts = [
        IndexArtifact(target=FileTarget(f"data/{number}.parquet"), artifact_uri=location)
        for number, location in enumerate(locations)
    ]
    bench.kernel.statistics.index_artifacts.put(bench.call, TableIdentifier(("ns",), name), None, artifacts)


def test_they_go_with_the_table(bench: PurgeBench) -> None:
    table, _ = with_artifacts(bench, "t", *(f"index/{number}.idx" for number in range(5)))
    bench.drop(NAME)
    assert len(table.remaining()) == len(table.written)
    assert bench.kernel.purge.queue.drain_once() == Drained(succeeded=1)
    assert table.remaining() == []


def test_those_of_a_live_table_stay(bench: PurgeBench) -> None:
    """One table names a file of the other one as its index, too."""
    table, written = with_artifacts(bench, "t", "index/shared.idx", "index/own.idx")
    bench.register(table, "twin")
    put(bench, "twin", written[:1])
    bench.drop(NAME)
    assert bench.kernel.purge.queue.drain_once() == Drained(succeeded=1)
    assert [place for place in written if table.files.exists(place)] == written[:1]
    assert table.files.exists(table.metadata_location)


def test_they_are_no_orphans_of_a_live_table(bench: PurgeBench) -> None:
    table, written = with_artifacts(bench, "t", "index/0.idx")
    stray = table.write(table.path("index/stray.idx"))
    bench.clock.ms = SystemClock().now_ms() + LATER_MS
    found: list[str] = []
    note: Callable[..., None] = lambda entry: found.append(entry.location)  # noqa: E731
    report = bench.kernel.purge.orphans.find(
        bench.call, NAME, older_than_ms=LATER_MS // 2, delete=True, found=note
    )
    assert found == [stray]
    assert report.deleted == 1
    assert table.files.exists(written[0])
