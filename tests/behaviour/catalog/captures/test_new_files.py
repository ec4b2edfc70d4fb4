"""A capture costs the new files of its snapshot, whatever the table has."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from floecat.runtime import Kernel
from floecat.statistics.capture.reading.file_groups import FileGroup, GroupResult
from floecat.statistics.files.summaries import ColumnSummary, FileSummary
from floecat.statistics.records import TargetKind
from floecat.store.statistics import files as file_rows
from tests.behaviour.catalog.captures.bench import BOTH, Bench, fewer_statements
from tests.behaviour.catalog.changes import SCHEMA, change, table
from tests.clocks import SetClock
from tests.delta_tables import expected_rows, writable_copy
from tests.scan_files import ROWS_PER_FILE, WrittenAppends
from tests.services.faults import FaultyFileIO


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
    assert (counter.statements, counter.transactions) == (42 - fewer_statements(store_url), 6)
    coverage = bench.coverage()
    assert (coverage.files, coverage.captured, coverage.read) == (3, 3, 1)
    assert bench.rows() == 30


def test_files_from_before_a_new_column_are_not_read_again(bench: Bench) -> None:
    bench.grow()
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
    bench.commit(change("t", updates))
    bench.capture()
    coverage = bench.coverage()
    assert (coverage.files, coverage.read) == (2, 1)
    found = {each.scalar.display_name: each.scalar for each in bench.records() if each.scalar}
    assert (found["extra"].row_count, found["extra"].null_count) == (20, 20)
    assert (found["id"].row_count, found["id"].max) == (20, "19")


def test_many_small_appends_keep_what_was_merged(bench: Bench) -> None:
    bench.grow(8)
    assert bench.coverage().merged is None
    for _ in range(4):
        before = bench.sidecars()
        bench.grow()
        merged = bench.coverage().merged
        assert merged is not None
        # a file of its own, beside the sidecar of the data file that the capture has read
        assert Path(merged.path.removeprefix("file://")).stat().st_size == merged.size_bytes
        # the merged columns before are in the new ones
        assert len([path for path in bench.sidecars() if "merged" in path.name]) == 1
        assert len(bench.sidecars()) == len(before) + (
            1 if any("merged" in path.name for path in before) else 2
        )
    assert bench.rows() == 120
    ndv = next(
        each.scalar.ndv for each in bench.records() if each.scalar and each.scalar.display_name == "id"
    )
    assert ndv is not None
    assert ndv.exact == 120


def test_files_whose_sidecar_is_lost_count_in_what_was_merged(bench: Bench) -> None:
    bench.grow(10)
    entry_id = bench.entry_id
    with bench.kernel.store.read() as conn:
        lost = file_rows.needed(conn, entry_id, "", 1)
    bench.kernel.store.run(lambda conn: file_rows.forget(conn, entry_id, lost))
    bench.grow()
    coverage = bench.coverage()
    assert (coverage.read, coverage.rows) == (1, 110)
    # what is read again in full counts once
    assert bench.ask(full=True).state == "succeeded"
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
        # files are looked up a thousand at a time; a slow worker renews its lease, on a busy machine often
        assert counter.statements < 200
        appends.written = True
        bench.append(1)
        storage = FaultyFileIO(bench.kernel.files)
        worker = Kernel(bench.kernel.settings, bench.kernel.store, storage, clock)
        worker.statistics.pipeline.search_commits()
        with worker.store.count_statements() as counter:
            worker.statistics.pipeline.drain(entry_id)
        coverage = bench.coverage()
        assert (coverage.read, coverage.rows) == (1, len(appends.paths) * ROWS_PER_FILE)
        costs.append((counter.statements, counter.transactions, Counter(kind for kind, _ in storage.calls)))
    assert costs[0] == costs[1]
    # two manifest lists, a manifest, a data file and what was merged; a statistics file is published
    calls = {"read": 3, "read_range": 4, "write_new": 4, "delete_many": 1}
    assert costs[0] == (47 - fewer_statements(store_url), 6, calls)


def test_files_that_a_commit_removes_are_not_counted(bench: Bench, clock: SetClock) -> None:
    bench.append(1, 1, 1)
    bench.capture()
    bench.grow(9)
    # one of the three that share a sidecar, and one that has its own
    for manifest in (1, 6):
        bench.commit(change("t", bench.appends.remove(manifest)))
    bench.capture()
    coverage = bench.coverage()
    assert (coverage.files, coverage.read, bench.rows()) == (10, 0, 100)
    files = [path for path in bench.sidecars() if "merged" not in path.name]
    assert len(files) == 10
    clock.ms += 8 * 86_400_000
    bench.grow()
    assert len([path for path in bench.sidecars() if "merged" not in path.name]) == 10
    assert len(bench.records(TargetKind.FILE)) == 11


def test_a_rollback_keeps_the_statistics_of_the_files_that_return(bench: Bench, clock: SetClock) -> None:
    bench.grow(10)
    bench.commit(change("t", bench.appends.remove(0)))
    bench.capture()
    back = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 10}
    bench.commit(change("t", [back]))
    for _ in range(2):
        bench.ask(wait_ms=0)
        bench.capture()
        clock.ms += 8 * 86_400_000
    assert bench.rows() == 100
    assert len(bench.records(TargetKind.FILE)) == 10


def test_files_in_rewritten_manifests_are_known(bench: Bench) -> None:
    bench.grow(10)
    bench.append(1)
    bench.commit(change("t", bench.appends.rewrite()))
    bench.capture()
    coverage = bench.coverage()
    assert (coverage.files, coverage.read, bench.rows()) == (11, 1, 110)


def test_a_full_capture_reads_everything_again(open_bench: Callable[..., Bench]) -> None:
    bench = open_bench(files_per_group=1)
    bench.grow(10)
    for path in bench.sidecars():
        if "merged" in path.name:
            path.write_bytes(b"wrong numbers")
    asked = bench.ask(full=True, wait_ms=0)
    bench.capture()
    assert bench.shown(asked.id).state == "succeeded"
    assert bench.rows() == 100


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
