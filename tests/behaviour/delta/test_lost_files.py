"""Artifacts that are missing or damaged, as after `VACUUM`: a load rebuilds them before it answers."""

from __future__ import annotations

import os
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote, urlsplit

import deltalake
import msgspec
import pytest

from floecat.auth.authorizer import Privilege
from floecat.delta.refresh import artifact_check
from floecat.delta.refresh.delta_table import DeltaState
from floecat.delta.refresh.pipeline import DeltaPipeline
from floecat.errors import FloecatError, LeftToPipelineError, LocationNotAllowedError
from floecat.runtime import open_kernel
from tests.behaviour.delta.conftest import Lake, as_rows, delta_table, refusal, rows_of
from tests.storages import call_on


@pytest.fixture
def writer(tmp_path):
    """Deletes of a file that a later version removes, and of one that stays."""
    made = delta_table(tmp_path / "t", files=4)
    made.delete({0: [1], 1: [2]})
    made.delete({1: [2, 3]})
    made.remove([0])
    return made


def found(writer, pattern, folder=None):
    paths = sorted((folder or writer.folder / "metadata").glob(pattern))
    assert paths
    return paths


def lose(writer, pattern, folder=None):
    for path in found(writer, pattern, folder):
        path.unlink()


def wait_for_the_next_look(lake):
    lake.kernel.delta.refresh_service._looks.clear()


def path_of(location):
    return Path(unquote(urlsplit(location).path))


LOST = [
    "snap-7-compat.avro",
    "snap-2-compat.avro",
    "1-compat-m0.avro",
    "2-compat-m0.avro",
    "5-compat-d0.avro",
    "6-compat-d0.avro",
    "5-compat-pd-*",
    "6-compat-pd-*",
    "*",
]


@pytest.mark.parametrize("pattern", LOST)
def test_a_load_rebuilds_what_is_missing(engines, lake, writer, pattern):
    table = lake.register(writer.folder)
    lose(writer, pattern)
    lake.load(table)
    assert lake.state(table).generation == 1
    assert lake.versions(table) == list(range(8))
    engines.check(lake, table, writer)
    assert lake.state(table).generation == 1


@pytest.mark.parametrize("pattern", ["5-compat-dv-*", "6-compat-dv-*", "*-d0.avro"])
def test_deletion_vectors_of_version_3(engines, open_lake, writer, pattern):
    lake = open_lake(format_version=3)
    table = lake.register(writer.folder)
    lose(writer, pattern)
    engines.check(lake, table, writer)
    assert lake.state(table).generation == 1


@pytest.mark.parametrize(
    "pattern", ["snap-7-*", "snap-2-*", "1-*-m0.avro", "6-*-d0.avro", "*-pd-*", "7-*.json"]
)
@pytest.mark.parametrize("kept", [0, -1], ids=["empty", "cut off"])
def test_a_damaged_file_is_a_missing_one(lake, writer, pattern, kept):
    table = lake.register(writer.folder)
    for path in found(writer, pattern):
        path.write_bytes(path.read_bytes()[:kept])
    for version in range(1, 8):
        assert lake.rows(table, version) == as_rows(writer.rows[version])
    assert lake.state(table).generation == 1


@pytest.mark.parametrize("changed", [False, True], ids=["looked at", "before the next version"])
@pytest.mark.parametrize("pattern", ["snap-7-*", "1-compat-m0.avro", "5-compat-d0.avro"])
def test_planted_files_are_not_read_beyond_the_bound(open_lake, writer, pattern, changed):
    lake = open_lake(limits={"manifest-bytes": "64KiB"})
    table = lake.register(writer.folder)
    for path in found(writer, pattern):
        os.truncate(path, 1 << 34)
    if changed:
        writer.append(rows_of(100))
    # its memory has none of them
    other = Lake.__new__(Lake)
    other.kernel, other.root = open_kernel(lake.kernel.settings), lake.root
    other.call = call_on(other.kernel, lake.call)
    try:
        assert other.rows(table) == as_rows(writer.rows[7 + changed])
        assert other.kernel.files.counters.counts.bytes_read < 1 << 20
        assert other.state(table).generation == 1
    finally:
        other.kernel.close()


def test_the_metadata_file_alone_is_written_again(lake, writer):
    table = lake.register(writer.folder)
    location = lake.load(table).metadata_location
    before = path_of(location).read_bytes()
    lose(writer, "*.metadata.json")
    answer = lake.load(table)
    assert (answer.metadata_location, lake.state(table).generation) == (location, 0)
    assert path_of(location).read_bytes() == before
    assert lake.rows(table) == as_rows(writer.rows[7])


def test_deltas_own_vacuum(engines, lake, tmp_path):
    folder = tmp_path / "v"
    for number in range(3):
        deltalake.write_deltalake(str(folder), rows_of(number), mode="append")
    table = lake.register(folder)
    lake.load(table)
    hours_ago = time.time() - 7200
    for path in folder.glob("metadata/*"):
        os.utime(path, (hours_ago, hours_ago))
    deltalake.write_deltalake(str(folder), rows_of(3), mode="append")
    lake.load(table)
    opened = deltalake.DeltaTable(str(folder))
    removed = opened.vacuum(1, dry_run=False, enforce_retention_duration=False, full=True)
    assert any("metadata" in path for path in removed)
    assert list(folder.glob("metadata/*"))
    for read in (engines.pyiceberg, engines.duckdb):
        assert as_rows(read(lake, table)) == as_rows(rows_of(0, 1, 2, 3))
        assert as_rows(read(lake, table, 1)) == as_rows(rows_of(0, 1))


def test_a_vacuum_that_the_log_does_not_tell(engines, lake, writer):
    table = lake.register(writer.folder)
    writer.append(rows_of(100))
    lake.load(table)
    # the oldest files go: all but those of the newest version
    for path in found(writer, "*"):
        if not path.name.startswith(("8-", "snap-8-")):
            path.unlink()
    engines.check(lake, table, writer)


def test_a_new_version_after_a_loss(engines, lake, writer):
    table = lake.register(writer.folder)
    lose(writer, "*-m0.avro")
    writer.append(rows_of(100))
    engines.check(lake, table, writer)


def test_a_caller_that_has_the_answer_gets_another(lake, writer):
    table = lake.register(writer.folder)
    etag = lake.load(table).etag
    lose(writer, "1-compat-m0.avro")
    answer = lake.kernel.catalog.tables.load(lake.call, table, if_none_match=etag)
    assert not answer.not_modified
    assert answer.etag != etag


@pytest.mark.parametrize("if_none_match", [False, True])
def test_looks_are_as_far_apart_as_the_settings_say(open_lake, writer, if_none_match):
    lake = open_lake(refresh_after="PT1H")
    table = lake.register(writer.folder)
    etag = lake.load(table).etag if if_none_match else None
    lose(writer, "1-compat-m0.avro")
    before = lake.kernel.files.counters.counts
    fast_loads = lake.kernel.catalog.fast_loads
    old = lake.kernel.catalog.tables.load(lake.call, table, if_none_match=etag).etag
    assert fast_loads.load(lake.call, table, "all", etag).table.etag == old
    assert (lake.kernel.files.counters.counts - before).calls == 0
    wait_for_the_next_look(lake)
    assert fast_loads.load(lake.call, table, "all", etag).state == "slow"
    assert lake.kernel.catalog.tables.load(lake.call, table, if_none_match=etag).etag != old
    assert fast_loads.load(lake.call, table, "all", etag).table.etag != old


def test_a_load_that_read_the_entry_before_it_was_replaced_looks_again(open_lake, writer):
    lake = open_lake(refresh_after="PT1H")
    table = lake.register(writer.folder)
    old = lake.kernel.parts.entries.find_table(lake.call, table, Privilege.READ_TABLE)
    assert not lake.kernel.delta.refresh_service.due(old.row)
    lose(writer, "1-compat-m0.avro")
    wait_for_the_next_look(lake)
    new = lake.load(table)
    assert lake.kernel.delta.refresh_service.due(old.row)
    assert not lake.kernel.delta.refresh_service.due(lake.delta_entry(table).row)
    answered = lake.kernel.delta.format.current(lake.call, old)
    assert answered.row.metadata_location == new.metadata_location


def test_a_look_is_two_listings_however_many_files_there_are(lake, tmp_path):
    writer = delta_table(tmp_path / "t", files=30, rows=3)
    for number in range(10):
        writer.delete({number: [0]})
    table = lake.register(writer.folder)
    before = lake.kernel.files.counters.counts
    lake.load(table)
    spent = lake.kernel.files.counters.counts - before
    assert (spent.lists, spent.calls) == (2, 2)


def test_another_process_reads_what_it_compares_once(lake, writer):
    table = lake.register(writer.folder)
    other = open_kernel(lake.kernel.settings)
    try:
        costs = []
        for _ in range(2):
            before = other.files.counters.counts
            other.catalog.tables.load(call_on(other, lake.call), table)
            costs.append(other.files.counters.counts - before)
    finally:
        other.close()
    # manifest lists and manifests of deletes
    assert costs[0].reads == len(found(writer, "snap-*")) + len(found(writer, "*-d*.avro"))
    assert (costs[1].calls, costs[1].lists) == (2, 2)


def test_loads_of_one_moment_look_once(open_lake, writer):
    lake = open_lake(refresh_after="PT1H")
    table = lake.register(writer.folder)
    lose(writer, "1-compat-m0.avro")
    wait_for_the_next_look(lake)
    lists = []
    listing = lake.kernel.files.list

    def counted(prefix, **options):
        lists.append(prefix)
        time.sleep(0.2)
        return listing(prefix, **options)

    lake.kernel.files.list = counted
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: lake.load(table), range(8)))
    assert len({answer.metadata_location for answer in answers}) == 1
    # the look, and the work that it led to
    assert len(lists) <= 6
    assert lake.rows(table) == as_rows(writer.rows[7])


def test_two_processes_at_once(lake, writer):
    table = lake.register(writer.folder)
    other = Lake.__new__(Lake)
    other.kernel, other.root = open_kernel(lake.kernel.settings), lake.root
    other.call = call_on(other.kernel, lake.call)
    try:
        for _ in range(3):
            lose(writer, "*-m0.avro")
            generation = lake.state(table).generation
            barrier = threading.Barrier(2)

            def rows(each, barrier=barrier):
                barrier.wait()
                return each.rows(table)

            with ThreadPoolExecutor(2) as pool:
                assert list(pool.map(rows, (lake, other))) == [as_rows(writer.rows[7])] * 2
            assert lake.state(table).generation == generation + 1
    finally:
        other.kernel.close()


def test_a_location_of_its_own(engines, open_lake, writer, tmp_path):
    lake = open_lake(location=(tmp_path / "compat").as_uri())
    table = lake.register(writer.folder)
    [folder] = (tmp_path / "compat").iterdir()
    lose(writer, "1-compat-m0.avro", folder)
    engines.check(lake, table, writer)
    shutil.rmtree(folder)
    engines.check(lake, table, writer)
    assert not (writer.folder / "metadata").exists()


def test_a_folder_behind_a_link(engines, lake, writer, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (writer.folder / "metadata").symlink_to(tmp_path / "elsewhere")
    table = lake.register(writer.folder)
    lake.load(table)
    assert lake.state(table).generation == 0
    lose(writer, "1-compat-m0.avro")
    engines.check(lake, table, writer)


def test_a_folder_that_leads_outside_is_not_listed(lake, writer, tmp_path_factory):
    table = lake.register(writer.folder)
    folder = writer.folder / "metadata"
    outside = tmp_path_factory.mktemp("outside") / "metadata"
    folder.rename(outside)
    folder.symlink_to(outside)
    with pytest.raises(LocationNotAllowedError):
        lake.load(table)


def test_what_cannot_be_rebuilt_is_not_answered(lake, writer):
    table = lake.register(writer.folder)
    shutil.rmtree(writer.folder / "metadata")
    (writer.folder / "metadata").write_text("a file where the folder belongs")
    with pytest.raises(FloecatError):
        lake.load(table)
    (writer.folder / "metadata").unlink()
    assert lake.rows(table) == as_rows(writer.rows[7])


def test_what_is_too_much_for_a_load_is_left_to_the_pipeline(open_lake, writer, tmp_path):
    lake = open_lake(max_files_in_request=0, wait="PT0.2S")
    pipeline = DeltaPipeline(lake.kernel.store, lake.kernel.parts.storages, lake.kernel.delta.refresh_service)
    table = lake.register(writer.folder)
    [unread] = pipeline.look(None, limit=10).pending
    lake.materialise(table)
    assert pipeline.look(None, limit=10).pending == ()
    lose(writer, "1-compat-m0.avro")
    assert isinstance(refusal(lake, table), LeftToPipelineError)
    [pending] = pipeline.look(None, limit=10).pending
    assert pending.reason == "incomplete"
    # a run of the first state was started before, and none is started twice
    assert pending.state != unread.state
    lake.materialise(table)
    assert DeltaState.is_complete(lake.state(table).state)
    assert lake.rows(table) == as_rows(writer.rows[7])


@pytest.mark.parametrize("pattern", ["2-compat-m0.avro", "snap-7-*", "7-*.json", "6-*-pd-*"])
def test_of_a_large_folder_the_oldest_files_are_looked_up(lake, writer, monkeypatch, pattern):
    monkeypatch.setattr(artifact_check, "MOST_LISTED", 3)
    table = lake.register(writer.folder)
    before = lake.kernel.files.counters.counts
    lake.load(table)
    spent = lake.kernel.files.counters.counts - before
    assert (spent.lists, spent.calls) == (2, 2 + spent.lookups)
    assert 0 < spent.lookups <= 16
    lose(writer, pattern)
    assert lake.rows(table) == as_rows(writer.rows[7])
    assert found(writer, pattern) if pattern.endswith(".json") else lake.state(table).generation == 1


def test_older_snapshots_of_a_long_history(open_lake, tmp_path):
    lake = open_lake(max_versions_in_request=2)
    writer = delta_table(tmp_path / "t", files=6)
    table = lake.register(writer.folder)
    lake.materialise(table)
    lose(writer, "snap-1-compat.avro")
    lake.load(table)
    assert lake.versions(table) == [5, 6]
    lake.materialise(table)
    assert lake.versions(table) == list(range(7))
    for version in range(1, 7):
        assert lake.rows(table, version) == as_rows(writer.rows[version])


@pytest.mark.parametrize("pattern", ["snap-2-compat.avro", "5-*-pd-*", "*-d0.avro", "1-compat-m0.avro"])
def test_the_pipeline_rebuilds_too(lake, writer, pattern):
    table = lake.register(writer.folder)
    assert not lake.kernel.delta.refresh_service.repair(lake.delta_entry(table))
    lose(writer, pattern)
    assert lake.kernel.delta.refresh_service.repair(lake.delta_entry(table))
    assert not lake.kernel.delta.refresh_service.repair(lake.delta_entry(table))
    document = msgspec.json.decode(lake.load(table).metadata)
    assert [each["snapshot-id"] for each in document["snapshots"]] == list(range(8))
    for version in range(1, 8):
        assert lake.rows(table, version) == as_rows(writer.rows[version])
