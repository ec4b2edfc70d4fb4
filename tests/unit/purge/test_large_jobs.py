"""Purges of large tables: offered to other processes, done in ranges, and by workers if none comes."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Thread

import pytest
from msgspec import structs

from floecat.errors import FloecatError
from floecat.fileio.base import FileIO
from floecat.fileio.local import LocalFileIO
from floecat.fileio.locations import AllowedLocations
from floecat.jobs.queue import Drained
from floecat.purge.deletion.progress import progress_of
from floecat.purge.deletion.ranges import ManifestRange, RangeResult, delete_range
from floecat.purge.sharing.kept_files import KeptKeys
from floecat.purge.sharing.location_set import file_key
from floecat.settings import Duration, PurgeSettings
from floecat.store.jobs import purge_batches
from tests.services.faults import FaultyFileIO
from tests.storages import storage_at
from tests.unit.iceberg.manifest_bytes import manifest_list_bytes
from tests.unit.purge.kernels import NAME, PurgeBench
from tests.unit.purge.table_files import TableFiles

OFFER_MS = 15 * 60_000
LARGE = PurgeSettings(large_job_files=20, large_job_offer=Duration(OFFER_MS), files_per_call=5)


class PickledRanges:
    """Runs ranges as another process would: from what was pickled."""

    width = 2

    def __init__(self) -> None:
        self.rounds: list[int] = []

    def __call__(self, ranges: Sequence[ManifestRange]) -> Sequence[RangeResult]:
        self.rounds.append(len(ranges))
        return [pickle.loads(pickle.dumps(delete_range(pickle.loads(pickle.dumps(one))))) for one in ranges]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[PurgeBench]:
    opened = PurgeBench(tmp_path, LARGE)
    yield opened
    opened.kernel.close()


def large_table(bench: PurgeBench, name: str, manifests: int = 5) -> TableFiles:
    """Manifests of 8 files, of which the list says so many that each is a range."""
    table = TableFiles(bench.kernel.files, f"{bench.settings.warehouse_location}/ns/{name}")
    for _ in range(manifests):
        table.append(count=8, expire=True)
    listed = [{"manifest_path": path, "added_files_count": 8_000} for path in table.manifests]
    location = table.write(table.path("metadata/counted.avro"), manifest_list_bytes(listed))
    table.snapshots[-1]["manifest-list"] = location
    table.commit()
    bench.register(table, name)
    return table


def test_a_small_table_is_worked_on_at_once(bench: PurgeBench) -> None:
    table = bench.new_table("t")
    bench.drop(NAME)
    assert bench.kernel.purge.queue.drain_once() == Drained(succeeded=1)
    assert table.remaining() == []
    assert progress_of(bench.job()).offered_until_ms is None


def test_a_large_table_waits_for_other_processes_and_then_for_none(bench: PurgeBench) -> None:
    table = large_table(bench, "t")
    bench.drop(NAME)
    assert bench.kernel.purge.queue.drain_once() == Drained(waiting=1)
    row = bench.job()
    assert (row.attempts, row.not_before_ms) == (0, bench.clock.ms + OFFER_MS)
    assert progress_of(row).expected == 40_000
    assert bench.kernel.jobs.get(bench.call, row.id).state == "waiting"
    assert row.last_error == "40000 files: waits for a run on Spark before the service deletes them"
    assert bench.kernel.purge.large_jobs.offered() == 1
    assert bench.kernel.purge.queue.drain_once() == Drained()
    bench.clock.ms = row.not_before_ms
    assert bench.kernel.purge.large_jobs.offered() == 0
    assert bench.kernel.purge.large_jobs.work_on_next(PickledRanges()) is None
    assert bench.kernel.purge.queue.drain_once() == Drained(succeeded=1)
    assert not [each for each in table.remaining() if "/snap-" not in each]


def test_other_processes_empty_the_manifests(bench: PurgeBench) -> None:
    table = large_table(bench, "t")
    bench.drop(NAME)
    bench.kernel.purge.queue.drain_once()
    runner = PickledRanges()
    worked = bench.kernel.purge.large_jobs.work_on_next(runner)
    assert worked is not None
    assert (worked[0].id, worked[1].outcome) == (bench.job().id, "succeeded")
    assert runner.rounds == [2, 2, 1]
    assert not [each for each in table.remaining() if "/snap-" not in each]
    progress = progress_of(bench.job())
    assert (progress.found, progress.deleted, progress.failed) == (47, 47, 0)
    assert bench.kernel.purge.large_jobs.work_on_next(runner) is None


def test_what_a_range_leaves_is_left_to_the_worker(bench: PurgeBench) -> None:
    table = large_table(bench, "t")
    bench.drop(NAME)
    bench.kernel.purge.queue.drain_once()

    class Failing(PickledRanges):
        def __call__(self, ranges: Sequence[ManifestRange]) -> Sequence[RangeResult]:
            super().__call__(ranges[1:])
            return [RangeResult(progress_of(bench.job()), error="the executor was lost") for _ in ranges]

    worked = bench.kernel.purge.large_jobs.work_on_next(Failing())
    assert worked is not None
    assert worked[1].outcome == "succeeded"
    assert not [each for each in table.remaining() if "/snap-" not in each]


def test_a_round_that_fails_is_under_way_until_the_time_of_its_ranges_is_over(tmp_path: Path) -> None:
    bench = PurgeBench(tmp_path, structs.replace(LARGE, lease_timeout_ms=2000))
    given: list[ManifestRange] = []
    ended: list[float] = []

    class Lost:
        width = 2

        def __call__(self, ranges: Sequence[ManifestRange]) -> Sequence[RangeResult]:
            given.extend(ranges)
            raise FloecatError("one task failed, another still runs")

    def wait_for_the_end() -> None:
        while not ended:
            with bench.kernel.store.read() as conn:
                if given and not purge_batches.under_way(conn, bench.clock.now_ms()):
                    ended.append(time.time())
            time.sleep(0.002)

    large_table(bench, "t")
    bench.drop(NAME)
    bench.kernel.purge.queue.drain_once()
    watcher = Thread(target=wait_for_the_end)
    watcher.start()
    worked = bench.kernel.purge.large_jobs.work_on_next(Lost())
    watcher.join()
    bench.kernel.close()
    assert worked is not None
    assert worked[1].outcome == "waiting"
    assert ended[0] >= given[0].ends_at


def test_files_of_live_tables_stay(bench: PurgeBench) -> None:
    table = large_table(bench, "t")
    shared = [location for location in table.written if "/data/" in location][:3]
    other = TableFiles(bench.kernel.files, f"{bench.settings.warehouse_location}/ns/other")
    other.append(*shared)
    other.commit()
    bench.register(other, "other")
    bench.drop(NAME)
    bench.kernel.purge.queue.drain_once()
    worked = bench.kernel.purge.large_jobs.work_on_next(PickledRanges())
    assert worked is not None
    assert worked[1].outcome == "succeeded"
    assert [each for each in table.remaining() if "/snap-" not in each] == shared
    assert progress_of(bench.job()).shared == 3


class TestRanges:
    """One range, in the process that runs it."""

    def made(
        self, files: FileIO, allowed: AllowedLocations, table: TableFiles, **given: object
    ) -> ManifestRange:
        values: dict[str, object] = {
            "manifests": tuple(table.manifests),
            "storage": storage_at(allowed, files),
            "kept": KeptKeys(),
            "ends_at": time.time() + 60,
            "files_per_call": 2,
        }
        return ManifestRange(**(values | given))  # type: ignore[arg-type]

    @pytest.fixture
    def table(self, files: FileIO, warehouse: str) -> TableFiles:
        table = TableFiles(files, f"{warehouse}/t")
        table.append(count=3)
        table.append(count=3)
        return table

    def data(self, table: TableFiles) -> list[str]:
        return [location for location in table.remaining() if "/data/" in location]

    def test_it_deletes_data_and_no_manifest(
        self, files: FileIO, allowed: AllowedLocations, table: TableFiles
    ) -> None:
        result = delete_range(self.made(files, allowed, table))
        assert (result.emptied, result.error, result.progress.deleted) == (table.manifests, None, 6)
        assert len(table.remaining()) == len(table.written) - 6

    def test_it_can_be_repeated(self, files: FileIO, allowed: AllowedLocations, table: TableFiles) -> None:
        first, second = (delete_range(self.made(files, allowed, table)) for _ in range(2))
        assert first.emptied == second.emptied == table.manifests
        assert first.progress.deleted == second.progress.deleted == 6

    def test_it_stops_when_its_time_is_over(
        self, files: FileIO, allowed: AllowedLocations, table: TableFiles
    ) -> None:
        times = iter([0.0, 0.0, 0.0, 0.0, 9.0, 9.0, 9.0])
        result = delete_range(self.made(files, allowed, table, ends_at=5.0), now=lambda: next(times))
        assert (result.emptied, result.error) == ([], "the time of the range is over")
        assert 0 < len(self.data(table)) < 6

    def test_it_keeps_what_it_is_told(
        self, files: FileIO, allowed: AllowedLocations, table: TableFiles
    ) -> None:
        kept = self.data(table)[2]
        delete_range(self.made(files, allowed, table, kept=KeptKeys(frozenset({file_key(kept)}))))
        assert self.data(table) == [kept]

    def test_a_file_that_stays_leaves_the_range_unfinished(
        self, allowed: AllowedLocations, table: TableFiles
    ) -> None:
        files = FaultyFileIO(LocalFileIO(fsync=False))
        files.refuse(self.data(table)[1])
        result = delete_range(self.made(files, allowed, table))
        assert result.emptied == []
        assert result.progress.failed == 1
        assert len(self.data(table)) == 1

    def test_a_missing_manifest_is_left_out(
        self, files: FileIO, allowed: AllowedLocations, table: TableFiles
    ) -> None:
        files.delete(table.manifests[0])
        assert delete_range(self.made(files, allowed, table)).emptied == table.manifests[1:]
