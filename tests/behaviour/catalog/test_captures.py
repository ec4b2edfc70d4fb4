"""Captures: commits lead to statistics, at the cost of their new files, whatever fails on the way."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
import sqlalchemy as sa
from uuid_utils.compat import uuid7

from floecat.auth.principals import Principal
from floecat.commits.commit import CreateTable
from floecat.entries.calls import Call, Page, PageRequest
from floecat.errors import BadRequestError, ConflictError, NotFoundError, UnavailableError
from floecat.events.commit_cursor import CommitCursor
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.values.bounds import process_bounds
from floecat.jobs.queue import Drained
from floecat.runtime import Kernel, open_kernel
from floecat.settings import GatewaySettings, Settings, StatisticsSettings, StorageSettings, StoreSettings
from floecat.settings.kinds import Duration
from floecat.settings.limits import LimitSettings
from floecat.statistics.capture.control import CaptureInfo, SnapshotCapture
from floecat.statistics.capture.policies import PolicyChange
from floecat.statistics.capture.reading.counting import FileSource
from floecat.statistics.capture.reading.expressions import Expression
from floecat.statistics.capture.reading.file_groups import FileGroup, GroupOrder, GroupResult, read_group
from floecat.statistics.capture.reading.tables import CapturedTable, find_table
from floecat.statistics.files.summaries import ColumnSummary, FileSummary
from floecat.statistics.index_artifacts import IndexArtifact, artifact_of
from floecat.statistics.records import (
    THETA_SKETCH,
    ColumnTarget,
    Completeness,
    ExpressionTarget,
    FileStatistics,
    FileTarget,
    ScalarStatistics,
    StatisticsRecord,
    TargetKind,
    target_storage_id,
)
from floecat.store.database.engine import Connection
from floecat.store.jobs import job_claims, jobs, leases
from floecat.store.statistics import artifact_files, schema
from floecat.store.statistics import files as file_rows
from tests.behaviour.catalog.changes import SCHEMA, change, create, set_property, table
from tests.behaviour.catalog.conftest import COMMIT
from tests.delta_tables import expected_rows, writable_copy
from tests.endless_file import endless_parquet
from tests.scan_files import ROWS_PER_FILE, Appends, WrittenAppends
from tests.services.faults import FaultyFileIO

T = table("t")


class SetClock:
    def __init__(self) -> None:
        self.ms = time.time_ns() // 1_000_000

    def now_ms(self) -> int:
        return self.ms


class Bench:
    """A table of whose files some are appended, and captures of it."""

    def __init__(self, kernel: Kernel, call: Call) -> None:
        self.kernel = kernel
        self.call = call
        self.pipeline = kernel.statistics.pipeline
        location = json.loads(create(kernel, call, "t").metadata)["location"]
        self.appends = WrittenAppends(location)

    @property
    def metadata(self) -> TableMetadata:
        return TableMetadata.parse(self.kernel.catalog.tables.load(self.call, T).metadata)

    @property
    def entry_id(self) -> UUID:
        return next(each.id for each in self.kernel.catalog.tables.list_all(self.call) if each.name == "t")

    def append(self, *manifests: int) -> None:
        self.kernel.commits.tables.commit(self.call, change("t", self.appends.append(*manifests)))

    def capture(self) -> list[CaptureInfo]:
        """What a worker does: looks for commits and works until nothing is due."""
        entry_id = self.entry_id
        self.pipeline.search_commits()
        self.pipeline.drain(entry_id)
        return self.kernel.statistics.captures.list(self.call)

    def captured(self) -> SnapshotCapture:
        return self.kernel.statistics.captures.snapshots(self.call, T)[-1]

    def records(self, kind: TargetKind | None = None) -> list[StatisticsRecord]:
        return self.kernel.statistics.targets.list(self.call, T, None, kind)[1].items

    def rows(self) -> int:
        (found,) = [each.table for each in self.records() if each.table is not None]
        return found.row_count

    def captured_rows(self) -> int | None:
        found = self.kernel.statistics.captures.snapshots(self.call, T)
        return found[-1].coverage.rows if found and found[-1].coverage else None

    def sidecars(self) -> list[Path]:
        return sorted(self.warehouse.glob("_floecat/*/*"))

    @property
    def warehouse(self) -> Path:
        return Path(self.call.catalog.storage_location.removeprefix("file://"))

    def file(self, number: int) -> Path:
        return Path(self.appends.paths[number].removeprefix("file://"))


def order_of(table: CapturedTable, group: FileGroup) -> GroupOrder:
    source = FileSource.of(table, group.snapshot_id, group.columns)
    return GroupOrder(source, table.storage, group.files, "", memory_bytes=1 << 20)


@pytest.fixture
def store_url(request: pytest.FixtureRequest, upgraded_store: Callable[[str], str]) -> str:
    """SQLite, where a test does not ask for both databases."""
    return upgraded_store(getattr(request, "param", "sqlite"))


BOTH = pytest.mark.parametrize("store_url", ["sqlite", "postgresql"], indirect=True)


def fewer_statements(store_url: str) -> int:
    """How many statements of a commit PostgreSQL takes together: two pairs of changes."""
    return 2 if store_url.startswith("postgresql") else 0


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def open_bench(store_url: str, tmp_path: Path, clock: SetClock) -> Iterator[Callable[..., Bench]]:
    opened: list[Kernel] = []

    def open_bench(**statistics: Any) -> Bench:
        settings = Settings(
            data_dir=str(tmp_path / "data"),
            gateway=GatewaySettings(commit=COMMIT),
            store=StoreSettings(url=store_url),
            storage=StorageSettings(fsync=False),
            statistics=StatisticsSettings(**{"publish_after": Duration(0)} | statistics),
        )
        kernel = open_kernel(settings, clock=clock)
        opened.append(kernel)
        account = settings.gateway.default_account_id
        kernel.catalog.catalogs.ensure(account, "floecat", settings.warehouse_location)
        call = kernel.catalog.calls.open(Principal("tester", account), "floecat")
        kernel.catalog.namespaces.create(call, ("ns",), {})
        return Bench(kernel, call)

    yield open_bench
    for kernel in opened:
        kernel.close()


@pytest.fixture
def bench(open_bench: Callable[..., Bench]) -> Bench:
    return open_bench()


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
    bench.kernel.commits.tables.commit(bench.call, set_property("t", "a", "b"))
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
    bench.append(1)
    bench.capture()
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
        bench.append(1)
        bench.capture()
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
        bench.kernel.commits.tables.commit(bench.call, columns)
    bench.append(1)
    bench.kernel.commits.tables.commit(bench.call, change("t", [analyzed(1, *blobs)]))
    bench.append(1)
    bench.capture()
    found = {each.snapshot_id: each for each in bench.metadata.statistics}
    if published is None:
        assert list(found) == [1]
    else:
        assert [blob.fields for blob in found[2].blob_metadata] == [(id,) for id in published]


@BOTH
def test_pages_have_a_bound_in_bytes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records are of any size, and captured files of tables with many columns are large."""
    kernel, call = bench.kernel, bench.call
    bench.append(5)
    bench.capture()
    put = [StatisticsRecord(FileTarget(f"s3://x/{n}"), file=FileStatistics(f"s3://x/{n}")) for n in range(3)]
    large = StatisticsRecord(ColumnTarget(9), scalar=ScalarStatistics(properties={"a": "x" * 5000}))
    kernel.statistics.targets.put(call, T, None, [*put, large])
    location = bench.appends.location
    artifacts = [
        IndexArtifact(FileTarget(f"s3://x/{n}"), f"{location}/{n}", properties={"a": "x" * 900})
        for n in range(5)
    ]
    kernel.statistics.index_artifacts.put(call, T, None, artifacts)

    def pages(list_page: Callable[[PageRequest], Page[Any]], most: int | None = None) -> list[list[Any]]:
        found: list[list[Any]] = []
        token: str | None = None
        while not found or token:
            page = list_page(PageRequest(token, most))
            found.append(list(page.items))
            token = page.next_token
        return found

    def statistics(kind: TargetKind | None) -> Callable[[PageRequest], Page[Any]]:
        return lambda page: kernel.statistics.targets.list(call, T, None, kind, page)[1]

    lists = {
        "all": statistics(None),
        "files": statistics(TargetKind.FILE),
        "artifacts": lambda page: kernel.statistics.index_artifacts.list(call, T, None, page)[1],
    }
    whole = {name: pages(each) for name, each in lists.items()}
    assert {name: len(found) for name, found in whole.items()} == dict.fromkeys(lists, 1)
    assert len(whole["files"][0]) == 8
    for most_bytes in (1, 1_500, 3_000):
        monkeypatch.setattr(process_bounds, "limits", LimitSettings(record_page_bytes=most_bytes))
        for name, each in lists.items():
            found = pages(each)
            assert [record for page in found for record in page] == whole[name][0], (name, most_bytes)
            assert len(found) > 1
            for page in found:
                # one record of each kind in any case
                assert len(page) <= 2 or len(msgspec.json.encode(page)) < 2 * most_bytes
            assert [record for page in pages(each, 2) for record in page] == whole[name][0]


@BOTH
def test_a_snapshot_costs_its_new_files(bench: Bench, store_url: str) -> None:
    bench.append(2)
    bench.capture()
    for number in range(2):
        bench.file(number).unlink()
    bench.append(1)
    with bench.kernel.store.count_statements() as counter:
        assert bench.pipeline.search_commits() == 1
    assert (counter.statements, counter.transactions) == (7, 1)
    entry_id = bench.entry_id
    with bench.kernel.store.count_statements() as counter:
        assert bench.pipeline.drain(entry_id).succeeded == 1
    assert (counter.statements, counter.transactions) == (40 - fewer_statements(store_url), 6)
    captured = bench.captured()
    assert captured.coverage is not None
    assert (captured.coverage.files, captured.coverage.captured, captured.coverage.read) == (3, 3, 1)
    assert bench.rows() == 30


def test_files_from_before_a_new_column_are_not_read_again(bench: Bench) -> None:
    bench.append(1)
    bench.capture()
    fields = [*json.loads(bytes(SCHEMA))["fields"]]
    fields.append({"id": 3, "name": "extra", "required": False, "type": "int"})
    wider = {"type": "struct", "schema-id": 1, "fields": fields}
    appended = bench.appends.append(1)
    appended[0]["snapshot"]["schema-id"] = 1
    updates = [
        {"action": "add-schema", "schema": wider},
        {"action": "set-current-schema", "schema-id": -1},
        *appended,
    ]
    bench.kernel.commits.tables.commit(bench.call, change("t", updates))
    bench.capture()
    captured = bench.captured()
    assert captured.coverage is not None
    assert (captured.coverage.files, captured.coverage.read) == (2, 1)
    found = {each.scalar.display_name: each.scalar for each in bench.records() if each.scalar}
    assert (found["extra"].row_count, found["extra"].null_count) == (20, 20)
    assert (found["id"].row_count, found["id"].max) == (20, "19")


def test_many_small_appends_keep_what_was_merged(bench: Bench) -> None:
    for _ in range(11):
        bench.append(1)
        bench.capture()
    captured = bench.captured()
    assert captured.coverage is not None
    merged = captured.coverage.merged
    assert merged is not None
    # a file of its own, beside the sidecar of the data file that the capture has read
    assert Path(merged.path.removeprefix("file://")).stat().st_size == merged.size_bytes
    assert bench.rows() == 110
    ndv = next(
        each.scalar.ndv for each in bench.records() if each.scalar and each.scalar.display_name == "id"
    )
    assert ndv is not None
    assert ndv.exact == 110


def test_files_whose_sidecar_is_lost_count_in_what_was_merged(bench: Bench) -> None:
    for _ in range(10):
        bench.append(1)
        bench.capture()
    entry_id = bench.entry_id
    with bench.kernel.store.read() as conn:
        lost = file_rows.needed(conn, entry_id, "", 1)
    bench.kernel.store.run(lambda conn: file_rows.forget(conn, entry_id, lost))
    bench.append(1)
    bench.capture()
    captured = bench.captured()
    assert captured.coverage is not None
    assert (captured.coverage.read, captured.coverage.rows) == (1, 110)
    # what is read again in full counts once
    assert bench.kernel.statistics.captures.capture(bench.call, T, full=True).state == "succeeded"
    assert (bench.captured_rows(), bench.rows()) == (110, 110)


class UnwrittenFiles(WrittenAppends):
    """Appends whose data files are there only while `written` is set."""

    written = False

    def _file_size(self, number: int) -> int:
        return super()._file_size(number) if self.written else 1000


def counted(group: FileGroup) -> GroupResult:
    """What reading files would give that are not there."""
    bounds = [end.to_bytes(8, "little") for end in (0, 1)]
    column = ColumnSummary(1, ROWS_PER_FILE, 0, 0, *bounds, 0, None)
    return GroupResult(
        {live.key: FileSummary(live.file.location, ROWS_PER_FILE, (column,)) for live in group.files}
    )


@BOTH
def test_an_append_costs_the_same_whatever_the_table_has(
    open_bench: Callable[..., Bench], clock: SetClock, store_url: str
) -> None:
    bench = open_bench(files_per_group=100, large_capture_bytes=1)
    appends = bench.appends = UnwrittenFiles(bench.appends.location)
    entry_id, costs = bench.entry_id, []
    for files in (1_000, 4_000):
        appends.written = False
        bench.append(files)
        bench.capture()
        while bench.pipeline.work_on_next_group(lambda _table, group, _check: counted(group)) is not None:
            pass
        with bench.kernel.store.count_statements() as counter:
            bench.pipeline.drain(entry_id)
        # files are looked up a thousand at a time; a slow worker renews its lease
        assert counter.statements < 60
        appends.written = True
        bench.append(1)
        storage = FaultyFileIO(bench.kernel.files)
        worker = Kernel(bench.kernel.settings, bench.kernel.store, storage, clock)
        worker.statistics.pipeline.search_commits()
        with worker.store.count_statements() as counter:
            worker.statistics.pipeline.drain(entry_id)
        captured = bench.captured()
        assert captured.coverage is not None
        assert (captured.coverage.read, captured.coverage.rows) == (1, len(appends.paths) * ROWS_PER_FILE)
        costs.append((counter.statements, counter.transactions, Counter(kind for kind, _ in storage.calls)))
    assert costs[0] == costs[1]
    # two manifest lists, a manifest, a data file and what was merged; a statistics file is published
    calls = {"read": 3, "read_range": 4, "write_new": 4, "delete_many": 1}
    assert costs[0] == (45 - fewer_statements(store_url), 6, calls)


def test_files_that_a_commit_removes_are_not_counted(bench: Bench, clock: SetClock) -> None:
    bench.append(1, 1, 1)
    bench.capture()
    for _ in range(9):
        bench.append(1)
        bench.capture()
    # one of the three that share a sidecar, and one that has its own
    for manifest in (1, 6):
        bench.kernel.commits.tables.commit(bench.call, change("t", bench.appends.remove(manifest)))
    bench.capture()
    captured = bench.captured()
    assert captured.coverage is not None
    assert (captured.coverage.files, captured.coverage.read, bench.rows()) == (10, 0, 100)
    files = [path for path in bench.sidecars() if "merged" not in path.name]
    assert len(files) == 10
    clock.ms += 8 * 86_400_000
    bench.append(1)
    bench.capture()
    assert len([path for path in bench.sidecars() if "merged" not in path.name]) == 10
    assert len(bench.records(TargetKind.FILE)) == 11


def test_a_rollback_keeps_the_statistics_of_the_files_that_return(bench: Bench, clock: SetClock) -> None:
    for _ in range(10):
        bench.append(1)
        bench.capture()
    bench.kernel.commits.tables.commit(bench.call, change("t", bench.appends.remove(0)))
    bench.capture()
    back = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 10}
    bench.kernel.commits.tables.commit(bench.call, change("t", [back]))
    for _ in range(2):
        bench.kernel.statistics.captures.capture(bench.call, T, wait_ms=0)
        bench.capture()
        clock.ms += 8 * 86_400_000
    assert bench.rows() == 100
    assert len(bench.records(TargetKind.FILE)) == 10


def test_files_in_rewritten_manifests_are_known(bench: Bench) -> None:
    for _ in range(10):
        bench.append(1)
        bench.capture()
    bench.append(1)
    bench.kernel.commits.tables.commit(bench.call, change("t", bench.appends.rewrite()))
    bench.capture()
    captured = bench.captured()
    assert captured.coverage is not None
    assert (captured.coverage.files, captured.coverage.read, bench.rows()) == (11, 1, 110)


def test_each_append_to_many_files_reads_its_own_and_what_was_merged_before(bench: Bench) -> None:
    for _ in range(9):
        bench.append(1)
        bench.capture()
    for _ in range(3):
        gone = bench.sidecars()
        bench.append(1)
        bench.capture()
        captured = bench.captured()
        assert captured.coverage is not None
        assert captured.coverage.merged is not None
        # the merged columns before are in the new ones
        assert len([path for path in bench.sidecars() if "merged" in path.name]) == 1
        assert len(bench.sidecars()) == len(gone) + (1 if any("merged" in path.name for path in gone) else 2)
    assert bench.rows() == 120


def test_a_full_capture_reads_everything_again(open_bench: Callable[..., Bench]) -> None:
    bench = open_bench(files_per_group=1)
    for _ in range(10):
        bench.append(1)
        bench.capture()
    for path in bench.sidecars():
        if "merged" in path.name:
            path.write_bytes(b"wrong numbers")
    asked = bench.kernel.statistics.captures.capture(bench.call, T, full=True, wait_ms=0)
    bench.capture()
    assert bench.kernel.statistics.captures.get(bench.call, asked.id).state == "succeeded"
    assert bench.rows() == 100


def test_waiting_for_a_capture_of_a_commit_does_not_cancel_it(bench: Bench) -> None:
    bench.append(1)
    bench.pipeline.search_commits()
    with bench.kernel.store.read() as conn:
        (job,) = jobs.list_open(conn, "capture")
    lane = uuid7()
    assert bench.kernel.store.run(
        lambda conn: leases.acquire(conn, f"capture:{bench.entry_id}", lane, time.time_ns() // 10**6, 60_000)
    )
    with pytest.raises(UnavailableError, match="goes on"):
        bench.kernel.statistics.captures.capture(bench.call, T, wait_ms=50)
    assert bench.kernel.statistics.captures.get(bench.call, job.id).is_open


def test_a_cancelled_capture_is_asked_for_again_by_a_backfill(bench: Bench) -> None:
    bench.append(1)
    asked = bench.kernel.statistics.captures.capture(bench.call, T, wait_ms=0)
    assert bench.kernel.statistics.captures.backfill(bench.call, T) == []
    bench.kernel.statistics.captures.cancel(bench.call, asked.id)
    assert len(bench.kernel.statistics.captures.backfill(bench.call, T)) == 1
    bench.capture()
    assert bench.rows() == 10


def test_a_file_that_is_gone_or_broken_is_named_and_stops_nothing(bench: Bench) -> None:
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
        row = bench.kernel.jobs.get(bench.call, done.id)
        waits.append(row.not_before_ms - clock.ms)
        clock.ms = row.not_before_ms
    assert (done.state, done.attempts) == ("failed", 8)
    assert done.last_error is not None
    assert bench.appends.paths[0] in done.last_error
    longest = [min(30_000, 500 * 2**number) for number in range(7)]
    assert all(most / 2 <= waited <= most for most, waited in zip(longest, waits, strict=True))
    assert bench.captured().status == "pending"
    assert bench.records() == []


def test_what_is_lost_while_groups_are_read_is_read_by_the_next_attempt(
    open_bench: Callable[..., Bench], clock: SetClock
) -> None:
    bench = open_bench(files_per_group=1, large_capture_bytes=1)
    bench.append(1)
    bench.capture()
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
def test_a_large_snapshot_is_captured_in_groups(open_bench: Callable[..., Bench]) -> None:
    bench = open_bench(files_per_group=2)
    bench.append(5)
    (done,) = bench.capture()
    shown = bench.kernel.statistics.captures.get(bench.call, done.id)
    assert (shown.state, shown.attempts, shown.done, shown.stored) == ("succeeded", 1, 5, 0)
    captured = bench.captured()
    assert captured.coverage is not None
    assert captured.coverage.read == 5
    assert [(group.number, group.state, group.files) for group in shown.groups] == [
        (0, "succeeded", 2),
        (1, "succeeded", 2),
        (2, "succeeded", 1),
    ]
    assert bench.rows() == 50


def test_a_group_that_fails_for_good_makes_the_capture_partial(open_bench: Callable[..., Bench]) -> None:
    bench = open_bench(files_per_group=1, max_attempts=1)
    bench.append(3)
    bench.file(1).unlink()
    (done,) = bench.capture()
    assert done.state == "succeeded"
    problem = bench.captured().problem
    assert problem is not None
    assert bench.appends.paths[1] in problem
    assert bench.rows() == 20


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
    bench.append(1)
    bench.capture()
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
    (failed,) = bench.kernel.statistics.captures.list(bench.call)
    assert (failed.state, failed.attempts) == ("failed", 2)
    assert failed.last_error is not None
    assert failed.last_error.endswith("; 8 other data files cannot be read, either")
    shown = bench.kernel.statistics.captures.get(bench.call, failed.id)
    assert [(group.state, group.files) for group in shown.groups] == [("failed", 7), ("failed", 2)]
    with bench.kernel.store.read() as conn:
        progress = [json.loads(group.progress) for group in jobs.children(conn, failed.id)]
    assert sorted(len(each["problems"]) for each in progress) == [2, 5]


def test_a_file_beyond_a_bound_makes_the_capture_partial(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.append(1)
    bench.capture()
    monkeypatch.setattr(process_bounds, "limits", LimitSettings(data_file_footer_bytes=100))
    bench.append(1)
    assert {each.state for each in bench.capture()} == {"succeeded"}
    problem = bench.captured().problem
    assert problem is not None
    assert bench.appends.paths[1] in problem
    assert "floecat.limits.data-file-footer-bytes" in problem
    assert bench.rows() == 10


def test_a_file_that_takes_too_long_is_named_and_stops_nothing(open_bench: Callable[..., Bench]) -> None:
    bench = open_bench(in_process_bytes=0, file_processor_time=Duration(1_000))
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
    bench = open_bench(in_process_bytes=0, file_processor_time=Duration(1_000), files_per_group=1)
    bench.append(2)
    for number in range(2):
        size = bench.file(number).stat().st_size
        bench.file(number).write_bytes(endless_parquet(20, size_bytes=size))
    (done,) = bench.capture()
    assert (done.state, done.attempts) == ("failed", 1)
    assert done.last_error is not None
    assert "(floecat.statistics.file-processor-time)" in done.last_error
    groups = bench.kernel.statistics.captures.get(bench.call, done.id).groups
    assert [(group.state, group.attempts) for group in groups] == [("failed", 1)] * 2


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
    cancelled = bench.kernel.statistics.captures.cancel(bench.call, waiting.id)
    assert cancelled.state == "cancelled"
    assert [group.state for group in cancelled.groups] == ["cancelled", "cancelled"]
    assert bench.pipeline.pending() == []
    # the lane is free at once
    assert bench.kernel.statistics.captures.capture(bench.call, T, wait_ms=0).is_open


def test_a_capture_that_is_being_cancelled_takes_no_twin(bench: Bench, clock: SetClock) -> None:
    bench.append(1)
    captures = bench.kernel.statistics.captures
    asked = captures.capture(bench.call, T, wait_ms=0)

    def claim(conn: Connection) -> None:
        job_claims.claim(conn, "capture", "dead", clock.ms, 1_000, base_ms=1, longest_ms=1)

    bench.kernel.store.run(claim)
    assert captures.cancel(bench.call, asked.id).state == "cancelling"
    with pytest.raises(ConflictError, match="is being cancelled"):
        captures.capture(bench.call, T)


@BOTH
def test_twins_are_one_capture_and_a_table_has_one_at_a_time(bench: Bench, clock: SetClock) -> None:
    bench.append(1)
    bench.append(1)
    captures = bench.kernel.statistics.captures
    first = captures.capture(bench.call, T, wait_ms=0)
    assert captures.capture(bench.call, T, wait_ms=0).id == first.id
    other = captures.capture(bench.call, T, "1", wait_ms=0)
    assert other.id != first.id
    workers = [threading.Thread(target=bench.pipeline.drain, args=(bench.entry_id,)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    while any(each.is_open for each in captures.list(bench.call)):
        clock.ms += 1_000
        bench.pipeline.drain(bench.entry_id)
    assert {each.state for each in captures.list(bench.call)} == {"succeeded"}
    assert [each.status for each in captures.snapshots(bench.call, T)] == ["finalized", "finalized"]
    assert bench.rows() == 20


@BOTH
def test_only_the_newest_of_several_commits_is_captured(bench: Bench) -> None:
    bench.append(1)
    bench.pipeline.search_commits()
    bench.append(1)
    bench.pipeline.search_commits()
    bench.capture()
    assert [each.snapshot_id for each in bench.kernel.statistics.captures.snapshots(bench.call, T)] == [2]
    assert len(bench.kernel.statistics.captures.backfill(bench.call, T)) == 1
    bench.capture()
    assert [each.snapshot_id for each in bench.kernel.statistics.captures.snapshots(bench.call, T)] == [1, 2]
    first = bench.kernel.statistics.captures.snapshot_page(bench.call, T, None, 1)
    rest = bench.kernel.statistics.captures.snapshot_page(bench.call, T, first.next_token, 1)
    assert [each.snapshot_id for each in (*first.items, *rest.items)] == [1, 2]
    assert rest.next_token is None


def test_properties_say_what_is_captured(bench: Bench) -> None:
    bench.kernel.commits.tables.commit(bench.call, set_property("t", "floecat.statistics.snapshots", "all"))
    bench.kernel.commits.tables.commit(bench.call, set_property("t", "floecat.statistics.columns", "text"))
    bench.kernel.commits.tables.commit(bench.call, set_property("t", "floecat.statistics.publish", "false"))
    bench.append(1)
    bench.append(1)
    bench.capture()
    assert [each.snapshot_id for each in bench.kernel.statistics.captures.snapshots(bench.call, T)] == [1, 2]
    assert [each.scalar.display_name for each in bench.records() if each.scalar] == ["text"]
    assert bench.metadata.statistics == ()
    bench.kernel.commits.tables.commit(bench.call, set_property("t", "floecat.statistics.enabled", "false"))
    bench.append(1)
    bench.capture()
    assert [each.snapshot_id for each in bench.kernel.statistics.captures.snapshots(bench.call, T)] == [1, 2]
    assert bench.kernel.statistics.captures.capture(bench.call, T).state == "succeeded"
    assert bench.rows() == 30


def test_a_policy_is_shown_and_changed(bench: Bench) -> None:
    policies = bench.kernel.statistics.policies
    default = policies.get(bench.call, T)
    assert (default.enabled, default.snapshots, default.first_columns) == (True, "latest", 32)
    changed = policies.change(bench.call, T, PolicyChange(enabled=False, columns=("id", "text")))
    assert (changed.enabled, changed.columns) == (False, ("id", "text"))
    assert policies.change(bench.call, T, PolicyChange()) == default
    with pytest.raises(BadRequestError, match="must be latest or all"):
        policies.change(bench.call, T, PolicyChange(snapshots="some"))


def test_a_catalog_has_a_policy_that_tables_inherit(bench: Bench) -> None:
    policies, call = bench.kernel.statistics.policies, bench.call
    of_catalog = PolicyChange(columns=("text",), publish="never", expressions=(Expression("day", "id"),))
    made = policies.change(call, None, of_catalog)
    assert (made.columns, made.publish) == (("text",), "never")
    assert made.set_by == dict.fromkeys(("columns", "publish", "expressions"), "catalog")
    call = bench.kernel.catalog.calls.open(call.principal, call.catalog.name)
    assert policies.get(call, None) == policies.get(call, T) == made
    inherited = policies.change(call, T, PolicyChange(publish="always", enabled=True))
    assert (inherited.columns, inherited.publish) == (("text",), "always")
    assert inherited.set_by == made.set_by | {"publish": "table", "enabled": "table"}
    # what cannot be read is inherited
    bench.kernel.commits.tables.commit(call, set_property("t", "floecat.statistics.publish", "sometimes"))
    assert policies.get(call, T).publish == "never"
    bench.append(1)
    bench.capture()
    assert [each.scalar.display_name for each in bench.records() if each.scalar] == ["text"]
    assert policies.change(call, None, PolicyChange()).set_by == {}


def test_expressions_that_a_policy_names_are_captured_as_columns_are(bench: Bench) -> None:
    bucket = Expression("bucket[4]", "id")
    bench.append(1)
    bench.capture()
    policies = bench.kernel.statistics.policies
    change = PolicyChange(
        columns=("id",), expressions=(Expression("BUCKET[4]", "id"), Expression("truncate[1]", "text"))
    )
    assert policies.change(bench.call, T, change).expressions == (bucket, Expression("truncate[1]", "text"))
    bench.append(1)
    bench.capture()
    captured = bench.captured()
    assert captured.coverage is not None
    assert captured.coverage.read == 2  # the file of before, too
    bench.append(1)
    bench.capture()
    captured = bench.captured()
    assert captured.coverage is not None
    assert captured.coverage.read == 1
    found = {
        each.scalar.display_name: each.scalar for each in bench.records(TargetKind.EXPRESSION) if each.scalar
    }
    assert found.keys() == {"bucket(4, id)", "truncate(1, text)"}
    numbers = found["bucket(4, id)"]
    assert (numbers.row_count, numbers.null_count, numbers.avg_width_bytes) == (30, 0, 4)
    assert (numbers.logical_type, numbers.min, numbers.max) == ("INT", "0", "3")
    assert numbers.ndv is not None
    assert numbers.ndv.exact == 4
    text = found["truncate(1, text)"]
    assert (text.logical_type, text.min, text.max, text.avg_width_bytes) == ("STRING", "0", "2", 1)
    # the column is captured with its expression; the statistics file has columns only
    assert len(bench.records(TargetKind.COLUMN)) == 2
    assert {blob.fields for each in bench.metadata.statistics for blob in each.blob_metadata} == {(1,), (2,)}
    target = target_storage_id(
        ExpressionTarget("iceberg", b'{"type":"transform","transform":"bucket[4]","term":"id"}')
    )
    assert bench.kernel.statistics.targets.get(bench.call, T, None, target).scalar == numbers
    policies.change(bench.call, T, PolicyChange(expressions=()))
    # of an engine, not of the catalog
    other = StatisticsRecord(ExpressionTarget("iceberg+spark", b"x"), scalar=ScalarStatistics(row_count=1))
    bench.kernel.statistics.targets.put(bench.call, T, None, [other])
    assert bench.kernel.statistics.captures.capture(bench.call, T).state == "succeeded"
    assert bench.records(TargetKind.EXPRESSION) == [other]


def test_expressions_that_do_not_fit_are_refused_or_left_out(bench: Bench) -> None:
    policies = bench.kernel.statistics.policies
    for transform, term, message in (
        ("day", "id", "day does not take column id of long"),
        ("bucket[0]", "id", "width of transform bucket"),
        ("bucket", "id", "unknown transform bucket"),
        ("bucket[a]", "id", "unknown transform bucket"),
        ("identity", "id", "unknown transform identity"),
        ("bucket[4]", "nothing", "cannot find column nothing"),
        ("bucket[4]", "", "must be the name of a column"),
    ):
        with pytest.raises(BadRequestError, match=message):
            policies.change(bench.call, T, PolicyChange(expressions=(Expression(transform, term),)))
    fitting, other = Expression("bucket[2]", "id"), Expression("day", "id")
    terms = msgspec.json.encode([other, fitting]).decode()
    bench.kernel.commits.tables.commit(bench.call, set_property("t", "floecat.statistics.expressions", terms))
    bench.append(1)
    bench.capture()
    assert [each.scalar.display_name for each in bench.records(TargetKind.EXPRESSION) if each.scalar] == [
        "bucket(2, id)"
    ]


@BOTH
def test_a_table_that_is_dropped_meanwhile_ends_its_captures(bench: Bench) -> None:
    bench.append(1)
    entry_id = bench.entry_id
    bench.pipeline.search_commits()
    bench.kernel.purge.drops.drop(bench.call, T, purge=False)
    bench.pipeline.drain(entry_id)
    (done,) = bench.kernel.statistics.captures.list(bench.call)
    assert done.state == "succeeded"
    assert bench.pipeline.search_commits() == 0


def test_capture_now_answers_or_is_cancelled(bench: Bench) -> None:
    bench.append(1)
    captures = bench.kernel.statistics.captures
    assert captures.capture(bench.call, T).state == "succeeded"
    full = captures.capture(bench.call, T, "main", full=True)
    assert (full.state, full.stored, full.done) == ("succeeded", 0, 1)
    assert bench.captured().generation == 2
    with pytest.raises(BadRequestError, match="between 0 and 60 s"):
        captures.capture(bench.call, T, wait_ms=60_001)
    with pytest.raises(NotFoundError, match="no snapshot 7"):
        captures.capture(bench.call, T, "7")


def test_a_capture_that_takes_too_long_is_cancelled(open_bench: Callable[..., Bench]) -> None:
    bench = open_bench(files_per_group=1, large_capture_bytes=1)
    bench.append(2)
    seen: list[CaptureInfo] = []
    with pytest.raises(UnavailableError, match=r"took longer than 0\.3 s and was cancelled"):
        bench.kernel.statistics.captures.capture(bench.call, T, wait_ms=300, watch=seen.append)
    (done,) = bench.kernel.statistics.captures.list(bench.call)
    assert done.state == "cancelled"
    assert {each.id for each in seen} == {done.id}
    assert bench.records() == []


def test_a_capture_of_damaged_files_says_which_while_it_is_tried_again(
    open_bench: Callable[..., Bench],
) -> None:
    bench = open_bench(backoff_base_ms=10_000, backoff_max_ms=10_000)
    bench.append(3)
    for number in range(3):
        bench.file(number).write_bytes(b"damaged")
    named = r"took longer.*attempt: Cannot read file:.*; 2 other data files cannot be read, either"
    with pytest.raises(UnavailableError, match=named):
        bench.kernel.statistics.captures.capture(bench.call, T, wait_ms=2_000)


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
    captures = bench.kernel.statistics.captures
    bench.append(1)
    wait_for(lambda: [each.state for each in captures.list(bench.call)] == ["succeeded"])
    (process,) = capture_processes()
    os.kill(process, signal.SIGSTOP)
    bench.append(1)
    wait_for(lambda: any(each.state == "running" for each in captures.list(bench.call)))
    assert bench.metadata.current_snapshot_id == 2
    assert bench.captured_rows() is None
    os.kill(process, signal.SIGCONT)
    wait_for(lambda: bench.captured_rows() == 20)
    assert capture_processes() == {process}


def wait_for(is_done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def capture_processes() -> set[int]:
    """Processes of this one that read data files."""
    found = set()
    for children in Path("/proc/self/task").glob("*/children"):
        for pid in children.read_text().split():
            if b"# capture" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.add(int(pid))
    return found


@pytest.mark.parametrize("removal", ["purge", "drop", "unregister"])
@BOTH
def test_sidecars_stay_with_the_table_and_go_with_its_entry(
    bench: Bench, clock: SetClock, removal: str
) -> None:
    bench.append(1)
    bench.capture()
    bench.kernel.commits.tables.create_table(
        bench.call,
        ("ns",),
        CreateTable(name="inner", schema=SCHEMA, location=f"{bench.appends.location}/inner"),
    )
    inner = WrittenAppends(f"{bench.appends.location}/inner")
    bench.kernel.commits.tables.commit(bench.call, change("inner", inner.append(1)))
    assert bench.kernel.statistics.captures.capture(bench.call, table("inner")).state == "succeeded"
    sidecars = bench.sidecars()
    assert len(sidecars) == 2
    location = Path(bench.appends.location.removeprefix("file://"))
    assert not any(location in path.parents for path in sidecars)
    clock.ms += 7 * 86_400_000
    report = bench.kernel.purge.orphans.find(bench.call, T, delete=True)
    assert (report.orphans, bench.sidecars()) == (0, sidecars)
    if removal == "unregister":
        bench.kernel.purge.drops.unregister(bench.call, T)
    else:
        bench.kernel.purge.drops.drop(bench.call, T, purge=removal == "purge")
    # of another entry, or of no name that the catalog gives
    foreign = sidecars[0].with_name("data.parquet")
    foreign.touch()
    assert bench.kernel.purge.entry_files.drain_once() == Drained(succeeded=1)
    left = bench.sidecars()
    assert len([path for path in left if path.suffix == ".stats"]) == 1
    assert foreign in left
    bench.kernel.purge.drops.drop(bench.call, table("inner"), purge=False)
    assert bench.kernel.purge.entry_files.drain_once() == Drained(succeeded=1)
    assert bench.sidecars() == [foreign]
    with bench.kernel.store.read() as conn:
        assert not conn.all(sa.select(schema.snapshot_captures.c.snapshot_id))
        assert not conn.all(sa.select(schema.statistics_sidecars.c.path))


def test_a_capture_of_a_table_that_is_purged_meanwhile_leaves_no_sidecar(
    open_bench: Callable[..., Bench],
) -> None:
    bench = open_bench(files_per_group=1, large_capture_bytes=1)
    bench.append(2)
    bench.capture()

    def read(table: CapturedTable, group: FileGroup, check: Callable[[int], None]) -> GroupResult:
        result = read_group(order_of(table, group), check)
        bench.kernel.purge.drops.drop(bench.call, T, purge=True)
        assert bench.kernel.purge.entry_files.drain_once().succeeded == 1
        return result

    worked = bench.pipeline.work_on_next_group(read)
    assert worked is not None
    assert worked[1].outcome == "cancelled"
    assert bench.sidecars() == []


def test_sidecars_that_are_lost_are_made_again_at_once(bench: Bench, clock: SetClock) -> None:
    for _ in range(2):
        bench.append(1)
        bench.capture()
    bench.append(1)
    for sidecar in bench.sidecars():
        sidecar.unlink()
    assert bench.capture()[-1].is_open
    clock.ms += 1_000
    assert bench.capture()[-1].state == "succeeded"
    assert bench.rows() == 30


@BOTH
def test_files_are_listed_without_those_whose_sidecar_is_lost(bench: Bench) -> None:
    for _ in range(3):
        bench.append(1)
        bench.capture()
    first, second, _ = (path for path in bench.sidecars() if path.suffix == ".stats")
    first.unlink()
    second.write_bytes(b"damaged")
    assert len(bench.records(TargetKind.FILE)) == 1
    bench.append(1)
    bench.capture()
    assert (len(bench.records(TargetKind.FILE)), bench.rows()) == (4, 40)


def test_sidecars_that_no_snapshot_needs_are_retired(bench: Bench, clock: SetClock) -> None:
    bench.append(1)
    bench.capture()
    (old,) = bench.sidecars()
    assert bench.kernel.statistics.captures.capture(bench.call, T, full=True).state == "succeeded"
    assert old in bench.sidecars()
    clock.ms += 8 * 86_400_000
    bench.append(1)
    bench.capture()
    assert old not in bench.sidecars()
    assert len(bench.sidecars()) == 2
    assert bench.rows() == 20


@BOTH
def test_captures_of_expired_snapshots_go(bench: Bench) -> None:
    bench.append(1)
    bench.capture()
    bench.append(1)
    bench.capture()
    bench.kernel.commits.tables.commit(
        bench.call, change("t", [{"action": "remove-snapshots", "snapshot-ids": [1]}])
    )
    bench.append(1)
    bench.capture()
    assert [each.snapshot_id for each in bench.kernel.statistics.captures.snapshots(bench.call, T)] == [2, 3]
    assert bench.rows() == 30


@BOTH
def test_index_artifacts_of_expired_snapshots_go(bench: Bench, clock: SetClock) -> None:
    entry_id = bench.entry_id
    bench.append(1, 1)
    bench.capture()
    bench.pipeline.build_page_indexes(entry_id)
    foreign = IndexArtifact(
        target=FileTarget(f"{bench.appends.location}/other"), artifact_uri=f"{bench.appends.location}/other"
    )
    bench.kernel.statistics.index_artifacts.put(bench.call, T, None, [foreign])
    removed, kept = (path for path in bench.sidecars() if "page-index" in path.name)
    if target_storage_id(FileTarget(bench.appends.paths[0])) not in removed.name:
        removed, kept = kept, removed
    bench.kernel.commits.tables.commit(bench.call, change("t", bench.appends.remove(0)))
    bench.pipeline.build_page_indexes(entry_id)
    bench.kernel.commits.tables.commit(
        bench.call, change("t", [{"action": "remove-snapshots", "snapshot-ids": [1]}])
    )
    bench.capture()
    bodies = artifact_files.all_of(bench.kernel.store, artifact_files.of_entry, entry_id)
    found = sorted(artifact_of(body).artifact_uri for body in bodies)
    assert found == sorted([kept.as_uri(), foreign.artifact_uri])
    assert removed.exists()
    clock.ms += 8 * 86_400_000
    bench.append(1)
    bench.capture()
    assert (removed.exists(), kept.exists()) == (False, True)


@BOTH
def test_a_drop_costs_the_same_whatever_index_artifacts_there_are(bench: Bench) -> None:
    costs = []
    for number in (1, 1_000):
        name = f"drop{number}"
        location = json.loads(create(bench.kernel, bench.call, name).metadata)["location"]
        bench.kernel.commits.tables.commit(bench.call, change(name, Appends(location).append(1)))
        artifacts = [
            IndexArtifact(target=FileTarget(f"{location}/{each}"), artifact_uri=f"{location}/{each}")
            for each in range(number)
        ]
        bench.kernel.statistics.index_artifacts.put(bench.call, table(name), None, artifacts)
        with bench.kernel.store.count_statements() as counter:
            bench.kernel.purge.drops.drop(bench.call, table(name), purge=True)
        costs.append((counter.statements, counter.transactions))
        with bench.kernel.store.read() as conn:
            kept = conn.all(sa.select(schema.index_artifacts.c.updated_at_ms))
        # none is written again
        assert len(kept) == sum((1, 1_000)[: len(costs)])
        assert 0 not in {row[0] for row in kept}
    assert costs[0] == costs[1]
    assert bench.kernel.purge.queue.drain_once().succeeded == 2


@pytest.mark.parametrize(
    "name", ["golden/dv-with-columnmapping/delta", "golden/data-reader-partition-values/delta"]
)
def test_a_delta_table_is_captured_with_its_deletes(
    open_bench: Callable[..., Bench], tmp_path: Path, name: str
) -> None:
    bench = open_bench()
    folder = writable_copy(name, tmp_path / "data" / "warehouse" / "delta")
    written = {path for path in folder.rglob("*") if path.is_file()}
    found = bench.kernel.delta.registration.register(bench.call, ("ns",), "d", folder.as_uri())
    bench.pipeline.search_commits()
    bench.pipeline.drain(found.entry_id)
    expected = expected_rows(name)
    assert expected is not None
    _, page = bench.kernel.statistics.targets.list(bench.call, table("d"))
    assert [each.table.row_count for each in page.items if each.table] == [expected.num_rows]
    nulls = {each.scalar.display_name: each.scalar.null_count for each in page.items if each.scalar}
    assert {name: nulls[name] for name in nulls if name in expected.column_names} == {
        name: expected[name].null_count for name in expected.column_names if name in nulls
    }
    assert bench.sidecars()
    bench.kernel.purge.drops.drop(bench.call, table("d"), purge=True)
    assert bench.kernel.purge.queue.drain_once().succeeded == 1
    assert bench.kernel.purge.entry_files.drain_once().succeeded == 1
    assert bench.sidecars() == []
    assert {path for path in folder.rglob("*") if path.is_file()} == written
