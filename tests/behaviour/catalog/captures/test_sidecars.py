"""What captures write for themselves: it is kept while something needs it, and goes with the table."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from floecat.commits.commit import CreateTable
from floecat.entries.calls import Page, PageRequest
from floecat.iceberg.values.bounds import process_bounds
from floecat.jobs.queue import Drained
from floecat.settings.limits import LimitSettings
from floecat.statistics.capture.reading.file_groups import FileGroup, GroupResult, read_group
from floecat.statistics.capture.reading.tables import CapturedTable
from floecat.statistics.index_artifacts import IndexArtifact, artifact_of
from floecat.statistics.records import (
    ColumnTarget,
    FileStatistics,
    FileTarget,
    ScalarStatistics,
    StatisticsRecord,
    TargetKind,
    target_storage_id,
)
from floecat.store.statistics import artifact_files, schema
from tests.behaviour.catalog.captures.bench import (
    BOTH,
    Bench,
    T,
    order_of,
)
from tests.behaviour.catalog.changes import SCHEMA, change, create, table
from tests.clocks import SetClock
from tests.scan_files import Appends, WrittenAppends


@pytest.mark.parametrize("removal", ["purge", "drop", "unregister"])
@BOTH
def test_sidecars_stay_with_the_table_and_go_with_its_entry(
    bench: Bench, clock: SetClock, removal: str
) -> None:
    bench.grow()
    bench.kernel.commits.tables.create_table(
        bench.call,
        ("ns",),
        CreateTable(name="inner", schema=SCHEMA, location=f"{bench.appends.location}/inner"),
    )
    inner = WrittenAppends(f"{bench.appends.location}/inner")
    bench.commit(change("inner", inner.append(1)))
    assert bench.captures.capture(bench.call, table("inner")).state == "succeeded"
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
    bench.grow(2)
    bench.append(1)
    for sidecar in bench.sidecars():
        sidecar.unlink()
    assert bench.capture()[-1].is_open
    clock.ms += 1_000
    assert bench.capture()[-1].state == "succeeded"
    assert bench.rows() == 30


@BOTH
def test_files_are_listed_without_those_whose_sidecar_is_lost(bench: Bench) -> None:
    bench.grow(3)
    first, second, _ = (path for path in bench.sidecars() if path.suffix == ".stats")
    first.unlink()
    second.write_bytes(b"damaged")
    assert len(bench.records(TargetKind.FILE)) == 1
    bench.grow()
    assert (len(bench.records(TargetKind.FILE)), bench.rows()) == (4, 40)


def test_sidecars_that_no_snapshot_needs_are_retired(bench: Bench, clock: SetClock) -> None:
    bench.grow()
    (old,) = bench.sidecars()
    assert bench.ask(full=True).state == "succeeded"
    assert old in bench.sidecars()
    clock.ms += 8 * 86_400_000
    bench.grow()
    assert old not in bench.sidecars()
    assert len(bench.sidecars()) == 2
    assert bench.rows() == 20


@BOTH
def test_captures_of_expired_snapshots_go(bench: Bench) -> None:
    bench.grow(2)
    bench.commit(change("t", [{"action": "remove-snapshots", "snapshot-ids": [1]}]))
    bench.grow()
    assert [each.snapshot_id for each in bench.snapshots()] == [2, 3]
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
    bench.commit(change("t", bench.appends.remove(0)))
    bench.pipeline.build_page_indexes(entry_id)
    bench.commit(change("t", [{"action": "remove-snapshots", "snapshot-ids": [1]}]))
    bench.capture()
    bodies = artifact_files.all_of(bench.kernel.store, artifact_files.of_entry, entry_id)
    found = sorted(artifact_of(body).artifact_uri for body in bodies)
    assert found == sorted([kept.as_uri(), foreign.artifact_uri])
    assert removed.exists()
    clock.ms += 8 * 86_400_000
    bench.grow()
    assert (removed.exists(), kept.exists()) == (False, True)


@BOTH
def test_a_drop_costs_the_same_whatever_index_artifacts_there_are(bench: Bench) -> None:
    costs = []
    for number in (1, 1_000):
        name = f"drop{number}"
        location = json.loads(create(bench.kernel, bench.call, name).metadata)["location"]
        bench.commit(change(name, Appends(location).append(1)))
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
