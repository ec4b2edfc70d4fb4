"""Loads of Delta tables while their logs go on: what is new is seen, and what it costs."""

from __future__ import annotations

import shutil
import threading
import zlib
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from floecat.errors import InvalidDeltaTableError, UnavailableError, UnsupportedDeltaTableError
from floecat.iceberg.avro.container import Block, encode_container, read_blocks, read_header
from floecat.iceberg.avro.inflation import inflate_block
from floecat.iceberg.manifests.lists import read_manifest_list
from floecat.store.jobs import leases
from tests.behaviour.delta.conftest import artifacts, as_rows, delta_table, rows_of


def assert_history(lake, table, writer):
    """Every version reads as it was. (PyIceberg takes snapshot 0 for none: other clients' tests have it.)"""
    for version in lake.versions(table):
        if version:
            assert lake.rows(table, version) == as_rows(writer.rows[version])


def test_every_version_is_a_snapshot(lake, tmp_path):
    writer = delta_table(tmp_path / "t", files=3)
    writer.delete({0: [0, 3]})
    table = lake.register(writer.folder)
    assert lake.versions(table) == [0, 1, 2, 3, 4]
    assert_history(lake, table, writer)


def test_new_versions_are_seen_by_the_next_load(lake, tmp_path):
    writer = delta_table(tmp_path / "t")
    table = lake.register(writer.folder)
    for change in (
        lambda: writer.append(rows_of(100)),
        lambda: writer.delete({0: [1]}),
        lambda: writer.delete({0: [1, 2], 1: [5]}),
        lambda: writer.remove([1]),
        lambda: writer.delete({0: []}),
        lambda: writer.remove([0, 1]),
    ):
        change()
        assert lake.rows(table) == as_rows(writer.rows[writer.version])
    assert_history(lake, table, writer)


def test_a_load_looks_only_as_often_as_set(open_lake, tmp_path):
    lake = open_lake(refresh_after="PT1H")
    writer = delta_table(tmp_path / "t")
    table = lake.register(writer.folder)
    writer.append(rows_of(100))
    lake.load(table)  # reads the authorities of the account, once
    before = lake.kernel.files.counters.counts.calls
    with lake.kernel.store.count_statements() as counter:
        lake.load(table)
    assert counter.statements == 1
    assert lake.kernel.files.counters.counts.calls == before
    assert lake.versions(table)[-1] == writer.version - 1


def test_looks_are_counted_by_what_became_of_them(lake, tmp_path):
    writer = delta_table(tmp_path / "t")
    table = lake.register(writer.folder)
    before = dict(lake.kernel.delta.refreshes)
    lake.load(table)
    writer.append(rows_of(100))
    lake.load(table)
    after = lake.kernel.delta.refreshes
    assert {name: count - before.get(name, 0) for name, count in after.items()} == {
        "unchanged": 1,
        "changed": 1,
    }


def test_looking_costs_a_listing_of_the_log_and_one_of_the_artifacts(lake, tmp_path):
    table = lake.register(delta_table(tmp_path / "t", files=5).folder)
    lake.load(table)
    before = lake.kernel.files.counters.counts
    with lake.kernel.store.count_statements() as counter:
        lake.load(table)
    spent = lake.kernel.files.counters.counts - before
    assert (spent.lists, spent.lookups, spent.calls) == (2, 0, 2)
    assert counter.statements <= 4


def test_a_version_costs_its_own_changes(lake, tmp_path):
    costs = []
    for files in (5, 50):
        writer = delta_table(tmp_path / f"t{files}", files=0)
        actions = [{"add": writer._write(rows_of(n), None, {}).add} for n in range(files)]
        writer.commit(actions)
        table = lake.register(writer.folder, f"t{files}")
        writer.append(rows_of(1000))
        before = lake.kernel.files.counters.counts
        lake.load(table)
        costs.append((lake.kernel.files.counters.counts - before).calls)
    assert costs[0] == costs[1] <= 8


def test_two_catalogs_make_the_same_bytes(open_lake, tmp_path):
    writer = delta_table(tmp_path / "t", files=4)
    writer.delete({0: [0], 2: [1, 2]})
    writer.remove([1])
    open_lake().register(writer.folder)
    first = artifacts(writer.folder)
    shutil.rmtree(writer.folder / "metadata")
    open_lake().register(writer.folder)
    assert artifacts(writer.folder) == first
    assert first


def test_artifacts_that_are_there_are_used(open_lake, tmp_path):
    writer = delta_table(tmp_path / "t", files=3)
    writer.delete({0: [0]})
    open_lake().register(writer.folder)
    made = {path: path.stat().st_mtime_ns for path in writer.folder.glob("metadata/*.avro")}
    other = open_lake()
    table = other.register(writer.folder)
    assert {path: path.stat().st_mtime_ns for path in writer.folder.glob("metadata/*.avro")} == made
    assert other.state(table).generation == 0
    assert other.rows(table) == as_rows(writer.rows[writer.version])


def test_artifacts_of_another_processor_are_used(open_lake, tmp_path):
    """It may compress the same records in another way; sizes in the lists are those of the files."""
    writer = delta_table(tmp_path / "t", files=3)
    writer.delete({0: [0]})
    open_lake().register(writer.folder)
    manifests = [path for path in writer.folder.glob("metadata/*.avro") if "snap-" not in path.name]
    for path in manifests:
        recompress(path)
    for path in writer.folder.glob("metadata/snap-*"):
        path.unlink()
    lake = open_lake()
    table = lake.register(writer.folder)
    assert lake.state(table).generation == 0
    assert_history(lake, table, writer)
    found = read_manifest_list((writer.folder / "metadata/snap-4-compat.avro").read_bytes(), location="")
    sizes = {Path(each.manifest_path).name: each.manifest_length for each in found}
    assert sizes == {path.name: path.stat().st_size for path in manifests}


def recompress(path):
    data, where = path.read_bytes(), {"location": path.name, "what": "manifest"}
    header = read_header(data, **where)
    blocks = [
        Block(block.rows, zlib.compress(inflate_block(block.data, "deflate", **where), 9, -15))
        for block in read_blocks(data, header, **where)
    ]
    metadata = {name: value for name, value in header.metadata.items() if name != "avro.codec"}
    path.write_bytes(encode_container(metadata, blocks))
    assert path.read_bytes() != data


def test_names_that_others_took_are_left_alone(lake, tmp_path):
    writer = delta_table(tmp_path / "t")
    taken = writer.folder / "metadata" / "1-compat-m0.avro"
    taken.parent.mkdir()
    taken.write_bytes(b"of somebody else")
    table = lake.register(writer.folder)
    assert taken.read_bytes() == b"of somebody else"
    assert lake.state(table).generation == 1
    assert lake.rows(table) == as_rows(writer.rows[writer.version])


@pytest.mark.parametrize("lost", ["snap-*", "*-m0.avro", "*"])
def test_artifacts_that_were_lost_are_made_anew(lake, tmp_path, lost):
    writer = delta_table(tmp_path / "t")
    writer.delete({0: [4]})
    table = lake.register(writer.folder)
    for path in writer.folder.glob(f"metadata/{lost}"):
        path.unlink()
    assert lake.kernel.delta.refresh_service.repair(lake.delta_entry(table))
    assert not lake.kernel.delta.refresh_service.repair(lake.delta_entry(table))
    assert_history(lake, table, writer)


def test_a_table_that_was_replaced_at_its_place_is_another_table(lake, tmp_path):
    writer = delta_table(tmp_path / "t", files=2)
    table = lake.register(writer.folder)
    shutil.rmtree(writer.folder)
    other = delta_table(tmp_path / "t", files=2, rows=3)
    assert lake.rows(table) == as_rows(other.rows[2])
    shutil.rmtree(writer.folder)
    shorter = delta_table(tmp_path / "t", files=1, rows=4)
    assert lake.versions(table) == [0, 1]
    assert lake.rows(table) == as_rows(shorter.rows[1])


def test_a_long_log_comes_in_parts(open_lake, tmp_path):
    lake = open_lake(max_versions_in_request=5)
    writer = delta_table(tmp_path / "t", files=12, rows=1)
    table = lake.register(writer.folder)
    assert lake.versions(table) == [8, 9, 10, 11, 12]
    assert lake.materialise(table)
    assert lake.versions(table) == list(range(13))
    assert_history(lake, table, writer)
    assert not lake.materialise(table)


def test_versions_that_the_log_forgot_are_taken_out(lake, tmp_path):
    folder = tmp_path / "t"
    writer = delta_table(folder, files=4)
    table = lake.register(folder)
    import deltalake

    deltalake.DeltaTable(str(folder)).create_checkpoint()
    for version in range(3):
        (folder / "_delta_log" / f"{version:020}.json").unlink()
    writer.append(rows_of(500))
    assert lake.materialise(table)
    assert lake.versions(table) == [4, 5]
    assert lake.rows(table) == as_rows(writer.rows[5])


def test_what_is_too_much_for_a_load_is_left_to_the_pipeline(open_lake, tmp_path):
    lake = open_lake(max_files_in_request=1, wait="PT0.5S")
    writer = delta_table(tmp_path / "t", files=3)
    writer.delete({0: [0], 1: [0]})
    table = lake.register(writer.folder)
    with pytest.raises(UnavailableError, match="compat/artifacts"):
        lake.load(table)
    assert "compat/artifacts" in (lake.state(table).problem or "")
    lake.materialise(table)
    assert lake.rows(table) == as_rows(writer.rows[writer.version])


def test_a_version_that_cannot_be_read_is_not_served_as_the_one_before(lake, tmp_path):
    writer = delta_table(tmp_path / "t")
    table = lake.register(writer.folder)
    before = lake.versions(table)
    writer.version += 1
    bad = writer.folder / "_delta_log" / f"{writer.version:020}.json"
    bad.write_text('{"add": {"path": \n')
    with pytest.raises(InvalidDeltaTableError, match=bad.name):
        lake.load(table)
    assert "Line 1" in (lake.state(table).problem or "")
    bad.unlink()
    writer.version -= 1
    writer.append(rows_of(7))
    assert lake.versions(table) == [*before, writer.version]
    assert lake.state(table).problem is None


def test_a_feature_that_comes_later_is_refused_then(lake, tmp_path):
    writer = delta_table(tmp_path / "t")
    table = lake.register(writer.folder)
    writer._features.append("someFutureFeature")
    writer.set_schema(writer.schema)
    with pytest.raises(UnsupportedDeltaTableError, match="someFutureFeature"):
        lake.load(table)


def test_old_versions_whose_vectors_are_gone_are_not_offered(lake, tmp_path):
    writer = delta_table(tmp_path / "t")
    writer.delete({0: [0]})
    gone = list(writer.folder.glob("**/deletion_vector_*.bin"))
    writer.remove([0])
    for path in gone:
        path.unlink()
    table = lake.register(writer.folder)
    assert lake.versions(table) == [0, 1, 2, 4]
    assert lake.rows(table) == as_rows(writer.rows[4])


def test_loads_at_once_do_the_work_once(lake, tmp_path):
    writer = delta_table(tmp_path / "t", files=6)
    table = lake.register(writer.folder)
    writer.append(rows_of(99))
    answers, errors = [], []

    def load():
        try:
            answers.append(lake.load(table).metadata_location)
        except Exception as error:  # noqa: BLE001 - collected for the assertion
            errors.append(error)

    threads = [threading.Thread(target=load) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(set(answers)) == 1
    assert len(list(writer.folder.glob(f"metadata/snap-{writer.version}-*"))) == 1


def test_a_load_waits_for_another_process_for_a_bounded_time(open_lake, tmp_path):
    lake = open_lake(wait="PT0.3S")
    writer = delta_table(tmp_path / "t")
    table = lake.register(writer.folder)
    writer.append(rows_of(99))
    entry_id = lake.delta_entry(table).row.id
    other = lake.call.catalog.id
    with lake.kernel.store.write() as conn:
        assert leases.acquire(conn, f"delta:{entry_id}", other, lake.kernel.clock.now_ms(), 60_000)
    with pytest.raises(UnavailableError):
        lake.load(table)
    with lake.kernel.store.write() as conn:
        leases.release(conn, f"delta:{entry_id}", other)
    assert lake.rows(table) == as_rows(writer.rows[writer.version])


def test_many_small_commits_do_not_make_many_manifests(open_lake, tmp_path):
    from floecat.iceberg.manifests.lists import read_manifest_list

    lake = open_lake(max_versions_in_request=300)
    writer = delta_table(tmp_path / "t", files=130, rows=1)
    table = lake.register(writer.folder)
    metadata = msgspec.json.decode(lake.load(table).metadata)
    location = metadata["snapshots"][-1]["manifest-list"]
    data = Path(location.removeprefix("file://")).read_bytes()
    manifests = list(read_manifest_list(data, location=location))
    assert len(manifests) < 40
    assert lake.rows(table) == as_rows(writer.rows[writer.version])


def test_a_wider_type_has_wider_bounds(lake, tmp_path):
    folder = tmp_path / "t"
    narrow = pa.schema([("id", pa.int32())])
    from tests.clients.delta.writer import DeltaWriter

    writer = DeltaWriter(folder, narrow, reader_features=["typeWidening"])
    writer.append(pa.table({"id": pa.array([1, 2], pa.int32())}))
    writer.set_schema(pa.schema([("id", pa.int64())]))
    writer.append(pa.table({"id": pa.array([5_000_000_000], pa.int64())}))
    table = lake.register(folder)
    assert lake.rows(table) == [(1,), (2,), (5_000_000_000,)]
    import fastavro

    for path in folder.glob("metadata/2-compat-m*.avro"):
        with path.open("rb") as file:
            for entry in fastavro.reader(file):
                assert {len(bound["value"]) for bound in entry["data_file"]["lower_bounds"]} == {8}
    assert lake.rows(table, 1) == [(1,), (2,)]
