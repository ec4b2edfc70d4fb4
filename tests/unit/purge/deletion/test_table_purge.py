from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from floecat.errors import BoundExceededError, InvalidMetadataError, LocationNotAllowedError
from floecat.fileio.base import DeleteOutcome, FileIO
from floecat.fileio.local import LocalFileIO
from floecat.fileio.locations import AllowedLocations
from floecat.iceberg.values.bounds import Bounds
from floecat.purge.deletion.progress import PurgeProgress
from floecat.purge.deletion.table_purge import PurgeIncompleteError, PurgeTarget, TablePurge
from floecat.purge.sharing.shared_files import SharedFilesUnknownError
from floecat.store.entries.documents import compress
from tests.storages import storage_at
from tests.unit.iceberg.manifest_bytes import entry
from tests.unit.purge.table_files import FakeLiveTables, TableFiles, new_purger


def target(table: TableFiles, allowed: AllowedLocations) -> PurgeTarget:
    return PurgeTarget(table.table_uuid, table.metadata_location, storage_at(allowed, table.files))


def full_table(files: FileIO, location: str) -> TableFiles:
    table = TableFiles(files, location)
    for _ in range(3):
        table.append(count=4)
        table.commit()
    table.add_statistics()
    deletes = table.write(table.path("data/deletes.parquet"))
    vectors = table.write(table.path("data/dv.puffin"))
    table.append(
        table.write(table.path("more/a.parquet")),
        manifest=table.manifest(entry(deletes, content=1), entry(vectors, content=1, file_format="PUFFIN")),
    )
    table.files.delete(table.path("more/a.parquet"))
    table.commit()
    return table


@pytest.fixture
def table(files: FileIO, warehouse: str) -> TableFiles:
    return full_table(files, f"{warehouse}/ns/test")


def test_everything_reachable_goes(table: TableFiles, purger: TablePurge, allowed: AllowedLocations) -> None:
    report = purger.purge(target(table, allowed))
    assert table.remaining() == []
    assert report.note == ""
    assert report.complete
    assert report.deleted == len(table.written) - 1


def test_data_outside_the_table_location_goes_too(
    files: FileIO, warehouse: str, purger: TablePurge, allowed: AllowedLocations
) -> None:
    table = TableFiles(files, f"{warehouse}/t")
    table.append(table.write(f"{warehouse}/elsewhere/a.parquet"))
    table.commit(f"{warehouse}/meta/root.metadata.json")
    purger.purge(target(table, allowed))
    assert table.remaining() == []


def test_the_neighbour_with_the_longer_name_stays(
    table: TableFiles,
    files: FileIO,
    warehouse: str,
    purger: TablePurge,
    live: FakeLiveTables,
    allowed: AllowedLocations,
) -> None:
    neighbour = full_table(files, f"{warehouse}/ns/test2")
    live.register(neighbour)
    before = neighbour.remaining()
    purger.purge(target(table, allowed))
    assert table.remaining() == []
    assert neighbour.remaining() == before


NAMES = ["f", "f?x", "f?x=1#y", "f#x", "f#x?y", "d?e/f", "d#e/f", "d/f"]
"""Each is a file of its own on the local disk."""


@pytest.mark.parametrize("dropped_name", NAMES)
def test_names_with_question_marks_and_hashes(
    files: FileIO,
    warehouse: str,
    purger: TablePurge,
    live: FakeLiveTables,
    allowed: AllowedLocations,
    dropped_name: str,
) -> None:
    """Two tables in one folder: one is purged, and the files of the other have the names that are left."""
    dropped, kept = TableFiles(files, f"{warehouse}/t"), TableFiles(files, f"{warehouse}/k#t", first_number=9)
    dropped.append(dropped.write(f"{warehouse}/data/{dropped_name}"))
    dropped.commit()
    names = [name for name in NAMES if name != dropped_name]
    kept.append(*[kept.write(f"{warehouse}/data/{name}") for name in names])
    kept.commit()
    live.register(kept)
    before = kept.remaining()
    report = purger.purge(target(dropped, allowed))
    assert (report.complete, report.outside) == (True, 0)
    assert dropped.remaining() == []
    assert kept.remaining() == before


@pytest.mark.parametrize("name", NAMES)
def test_a_shared_file_with_such_a_name_stays(
    files: FileIO,
    warehouse: str,
    purger: TablePurge,
    live: FakeLiveTables,
    allowed: AllowedLocations,
    name: str,
) -> None:
    dropped, kept = (
        TableFiles(files, f"{warehouse}/t#1"),
        TableFiles(files, f"{warehouse}/k?", first_number=9),
    )
    shared = dropped.write(f"{warehouse}/data/{name}")
    dropped.append(shared)
    dropped.commit()
    kept.append(shared.removeprefix("file://"))
    kept.commit()
    live.register(kept)
    purger.purge(target(dropped, allowed))
    assert dropped.remaining() == [shared]


@pytest.mark.parametrize(("dropped", "kept"), [("ns/t", "ns/t/inner"), ("ns/t/inner", "ns/t"), ("t", "t")])
def test_tables_inside_each_other(
    files: FileIO,
    warehouse: str,
    purger: TablePurge,
    live: FakeLiveTables,
    allowed: AllowedLocations,
    dropped: str,
    kept: str,
) -> None:
    first = TableFiles(files, f"{warehouse}/{dropped}")
    second = TableFiles(files, f"{warehouse}/{kept}", first_number=100)
    first.append(first.write(first.path("data/first.parquet")), manifest=None)
    second.append(second.write(second.path("data/second.parquet")))
    first.commit()
    second.commit()
    live.register(second)
    before = second.remaining()
    purger.purge(target(first, allowed))
    assert first.remaining() == []
    assert second.remaining() == before


def test_what_another_entry_of_the_same_table_reaches_stays(
    files: FileIO, warehouse: str, purger: TablePurge, live: FakeLiveTables, allowed: AllowedLocations
) -> None:
    """An entry registered from an older metadata file keeps just what that file reaches."""
    table = TableFiles(files, f"{warehouse}/t")
    table.append(count=2)
    old = table.commit()
    needed = table.remaining()
    live.register(table, metadata_location=old)
    table.append(count=2)
    table.commit()
    report = purger.purge(target(table, allowed))
    assert table.remaining() == needed
    assert report.shared == len(needed)
    assert report.deleted == len(table.written) - len(needed)


def test_files_that_two_tables_added_stay_for_the_other(
    files: FileIO, warehouse: str, purger: TablePurge, live: FakeLiveTables, allowed: AllowedLocations
) -> None:
    """Only the manifests of the live table tell that it needs the files."""
    source = TableFiles(files, f"{warehouse}/source")
    source.append(count=3)
    source.commit()
    data = [location for location in source.written if location.endswith(".parquet")]
    copy = TableFiles(files, f"{warehouse}/copy")
    copy.append(data[0], data[1])
    copy.commit()
    live.register(copy)
    purger.purge(target(source, allowed))
    assert source.remaining() == data[:2]
    assert copy.remaining() == copy.written


def test_files_of_a_third_place_stay_for_the_other(
    files: FileIO, warehouse: str, purger: TablePurge, live: FakeLiveTables, allowed: AllowedLocations
) -> None:
    landing = f"{warehouse}/landing/day=1/a.parquet"
    files.write_new(landing, b"x")
    tables = [TableFiles(files, f"{warehouse}/t{number}") for number in range(2)]
    for table in tables:
        table.append(landing)
        table.commit()
    row = live.register(tables[1])
    purger.purge(target(tables[0], allowed))
    assert files.exists(landing)
    live.drop(row)
    purger.purge(target(tables[1], allowed))
    assert not files.exists(landing)


def test_a_table_cannot_name_files_of_another_as_its_own(
    table: TableFiles,
    files: FileIO,
    warehouse: str,
    purger: TablePurge,
    live: FakeLiveTables,
    allowed: AllowedLocations,
) -> None:
    live.register(table)
    before = table.remaining()
    hostile = TableFiles(files, f"{warehouse}/hostile")
    hostile.append(*before)
    hostile.commit()
    purger.purge(target(hostile, allowed))
    assert table.remaining() == before
    assert hostile.remaining() == []


def test_local_aliases_of_shared_files_count(
    files: FileIO, tmp_path: Path, warehouse: str, purger: TablePurge, live: FakeLiveTables
) -> None:
    os.symlink(tmp_path / "warehouse", tmp_path / "link")
    live.roots.append((tmp_path / "link").as_uri())
    allowed = AllowedLocations(live.roots)
    table = TableFiles(files, f"{warehouse}/t")
    shared = table.write(table.path("data/a.parquet"))
    table.append(shared)
    table.commit()
    other = TableFiles(files, f"{tmp_path.as_uri()}/link/other")
    other.append(f"{tmp_path}/link/t/data/a.parquet")
    other.commit()
    live.register(other)
    purger.purge(target(table, allowed))
    assert table.remaining() == [shared]


def test_gc_enabled_false_keeps_data(
    table: TableFiles, purger: TablePurge, allowed: AllowedLocations
) -> None:
    """As the reference does it: data and delete files stay, what describes them goes."""
    table.properties["gc.enabled"] = "FALSE"
    table.commit()
    data = [location for location in table.remaining() if "/metadata/" not in location]
    report = purger.purge(target(table, allowed))
    assert table.remaining() == data
    assert report.gc_disabled == len(data)
    assert report.note == "gc.enabled is false: data files stay"


def test_files_outside_the_allowed_locations_stay(
    files: FileIO, tmp_path: Path, warehouse: str, purger: TablePurge, allowed: AllowedLocations
) -> None:
    outside = (tmp_path / "outside.parquet").as_uri()
    files.write_new(outside, b"x")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "a.parquet").touch()
    (tmp_path / "warehouse" / "link").symlink_to(tmp_path / "linked")
    table = TableFiles(files, f"{warehouse}/t")
    table.append(outside, f"{warehouse}/link/a.parquet", "relative/path", f"{warehouse}/../outside.parquet")
    table.commit()
    report = purger.purge(target(table, allowed))
    assert files.exists(outside)
    assert (tmp_path / "linked" / "a.parquet").exists()
    assert table.remaining() == []
    assert report.outside == 4


def test_a_link_that_a_data_file_was_replaced_by_goes_alone(
    files: FileIO, tmp_path: Path, warehouse: str, purger: TablePurge, allowed: AllowedLocations
) -> None:
    (tmp_path / "outside.parquet").touch()
    table = TableFiles(files, f"{warehouse}/t")
    table.append(table.write(table.path("data/a.parquet")))
    table.commit()
    link = tmp_path / "warehouse" / "t" / "data" / "a.parquet"
    link.unlink()
    link.symlink_to(tmp_path / "outside.parquet")
    purger.purge(target(table, allowed))
    assert not link.is_symlink()
    assert (tmp_path / "outside.parquet").exists()


def test_a_root_outside_the_allowed_locations_is_not_read(
    files: FileIO, tmp_path: Path, purger: TablePurge, allowed: AllowedLocations
) -> None:
    table = TableFiles(files, f"{tmp_path.as_uri()}/elsewhere")
    table.append()
    table.commit()
    with pytest.raises(LocationNotAllowedError):
        purger.purge(target(table, allowed))
    assert table.remaining() == table.written


def test_a_root_that_is_gone_means_done(
    table: TableFiles, files: FileIO, purger: TablePurge, allowed: AllowedLocations
) -> None:
    files.delete(table.metadata_location)
    assert purger.purge(target(table, allowed)).note == "the metadata file is gone"


def test_a_lost_root_is_replaced_by_its_document(
    table: TableFiles, files: FileIO, purger: TablePurge, allowed: AllowedLocations
) -> None:
    files.delete(table.metadata_location)
    lost = msgspec.structs.replace(target(table, allowed), document=compress(table.document()))
    assert purger.purge(lost).complete
    assert table.remaining() == []
    assert purger.purge(lost).complete


def test_the_document_is_held_to_the_same_rules(
    table: TableFiles, files: FileIO, purger: TablePurge, allowed: AllowedLocations
) -> None:
    files.delete(table.metadata_location)
    before = table.remaining()
    document = compress(table.document())
    table_uuid = "00000000-0000-0000-0000-000000000000"
    with pytest.raises(InvalidMetadataError):
        purger.purge(PurgeTarget(table_uuid, table.metadata_location, storage_at(allowed), document))
    assert table.remaining() == before


def test_a_root_that_is_there_counts_more_than_the_document(
    table: TableFiles, purger: TablePurge, allowed: AllowedLocations
) -> None:
    purger.purge(PurgeTarget(table.table_uuid, table.metadata_location, storage_at(allowed), b"broken"))
    assert table.remaining() == []


def test_a_purge_without_its_root_can_be_resumed(
    files: FileIO, warehouse: str, purger: TablePurge, allowed: AllowedLocations
) -> None:
    table = TableFiles(files, f"{warehouse}/t")
    stuck = table.path("data/stuck.parquet")
    files.make_directory(stuck)
    manifest = table.manifest(stuck, table.write(table.path("data/a.parquet")))
    table.append(table.written[-1], manifest=manifest)
    table.commit()
    files.delete(table.metadata_location)
    lost = msgspec.structs.replace(target(table, allowed), document=compress(table.document()))
    progress = PurgeProgress()
    with pytest.raises(PurgeIncompleteError):
        purger.purge(lost, progress=progress)
    assert progress.deleted == 1
    Path(stuck.removeprefix("file://")).rmdir()
    purger.purge(lost)
    assert table.remaining() == []


def test_metadata_files_of_views_stay(
    files: FileIO, warehouse: str, purger: TablePurge, live: FakeLiveTables, allowed: AllowedLocations
) -> None:
    views = [f"{warehouse}/v{number}/metadata/00000.metadata.json" for number in range(3)]
    for view in views:
        files.write_new(view, b"{}")
    live.views = views[:2]
    table = TableFiles(files, f"{warehouse}/t")
    table.add_statistics()
    table.statistics[0]["statistics-path"] = views[0]
    table.metadata_log += [{"timestamp-ms": 1, "metadata-file": view} for view in views[1:]]
    table.commit()
    report = purger.purge(target(table, allowed))
    assert [files.exists(view) for view in views] == [True, True, False]
    assert report.shared == 2


class RecordingFileIO(LocalFileIO):
    """The local disk, and what was read of it."""

    def __init__(self) -> None:
        super().__init__(fsync=False)
        self.read_files: list[str] = []

    def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
        self.read_files.append(location)
        return super().read(location, max_bytes=max_bytes)


def test_nothing_is_read_outside_the_allowed_locations(
    tmp_path: Path, warehouse: str, live: FakeLiveTables, allowed: AllowedLocations
) -> None:
    """Neither for the table that goes nor for a neighbour: their metadata can name any file."""
    files = RecordingFileIO()
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "warehouse" / "link").symlink_to(tmp_path / "secret")
    outside = [
        (tmp_path / "secret").as_uri(),
        str(tmp_path / "secret"),
        f"{warehouse}/link",
        f"{warehouse}/../secret",
        "relative",
    ]
    tables = [TableFiles(files, f"{warehouse}/t{number}") for number in range(2)]
    for table in tables:
        for location in outside:
            table.append()
            table.snapshots[-1]["manifest-list"] = location
        table.append(manifest=outside[0])
        table.commit()
    live.register(tables[1], location=warehouse)
    live.files = files
    purger = new_purger(live)
    purger.purge(target(tables[0], allowed))
    assert files.read_files
    assert not set(files.read_files) & set(outside)
    assert (tmp_path / "secret").read_bytes() == b"secret"
    assert not files.exists(tables[0].metadata_location)


def test_locations_that_were_allowed_meanwhile_are_read(
    files: FileIO, tmp_path: Path, warehouse: str, live: FakeLiveTables, allowed: AllowedLocations
) -> None:
    """A table whose manifests no catalog could read keeps its files as soon as one can."""
    later = (tmp_path / "later").as_uri()
    shared = f"{warehouse}/first/data/shared.parquet"
    other = TableFiles(files, later)
    other.append(shared)
    other.commit()
    live.register(other)
    purger = new_purger(live)
    purger.purge(target(full_table(files, f"{warehouse}/zeroth"), allowed))
    live.roots.append(later)
    table = TableFiles(files, f"{warehouse}/first")
    table.append(table.write(shared))
    table.commit()
    purger.purge(target(table, allowed))
    assert table.remaining() == [shared]


def test_metadata_of_another_table_deletes_nothing(
    table: TableFiles, purger: TablePurge, allowed: AllowedLocations
) -> None:
    before = table.remaining()
    other = PurgeTarget("00000000-0000-0000-0000-000000000000", table.metadata_location, storage_at(allowed))
    with pytest.raises(InvalidMetadataError, match="belongs to another table now"):
        purger.purge(other)
    assert table.remaining() == before


def test_a_broken_root_is_an_error(
    files: FileIO, warehouse: str, purger: TablePurge, allowed: AllowedLocations
) -> None:
    files.write_new(f"{warehouse}/t/root.metadata.json", b"{")
    with pytest.raises(InvalidMetadataError):
        purger.purge(PurgeTarget("u", f"{warehouse}/t/root.metadata.json", storage_at(allowed)))


def test_missing_manifests_do_not_stop_a_purge(
    table: TableFiles, files: FileIO, purger: TablePurge, allowed: AllowedLocations
) -> None:
    manifest = next(location for location in table.written if os.path.basename(location).startswith("m"))
    lost = [location for location in table.written if "/data/1-" in location]
    files.delete(manifest)
    report = purger.purge(target(table, allowed))
    assert report.note == "1 manifests or manifest lists were missing or located outside"
    assert set(table.remaining()) <= set(lost)


def test_an_unreadable_manifest_keeps_the_way_to_it(
    files: FileIO, warehouse: str, purger: TablePurge, allowed: AllowedLocations
) -> None:
    table = TableFiles(files, f"{warehouse}/t")
    broken = table.manifest(data=b"broken")
    table.append(manifest=broken)
    unnamed = [location for location in table.written if location.endswith(".parquet")]
    table.append()
    table.commit()
    progress = PurgeProgress()
    with pytest.raises(PurgeIncompleteError, match="Cannot read manifest"):
        purger.purge(target(table, allowed), progress=progress)
    way = [broken, table.snapshots[0]["manifest-list"], table.metadata_location]
    assert sorted(table.remaining()) == sorted([*way, *unnamed])
    assert progress.waiting == 3


def test_an_unreadable_neighbour_stops_everything(
    table: TableFiles,
    files: FileIO,
    warehouse: str,
    purger: TablePurge,
    live: FakeLiveTables,
    allowed: AllowedLocations,
) -> None:
    before = table.remaining()
    neighbour = TableFiles(files, f"{warehouse}/ns/test/inner")
    neighbour.append(manifest=neighbour.manifest(data=b"broken"))
    neighbour.commit()
    live.register(neighbour, location=f"{warehouse}/ns")
    with pytest.raises(SharedFilesUnknownError):
        purger.purge(target(table, allowed))
    assert table.remaining() == before


@pytest.mark.parametrize("bounds", [Bounds(manifest_entries=8), Bounds(manifest_bytes=5000)])
def test_a_dropped_table_that_exceeds_a_bound_stays_whole(
    files: FileIO, warehouse: str, live: FakeLiveTables, allowed: AllowedLocations, bounds: Bounds
) -> None:
    table = TableFiles(files, f"{warehouse}/t")
    table.append(*(table.path(f"data/{os.urandom(16).hex()}.parquet") for _ in range(200)))
    table.commit()
    with pytest.raises(BoundExceededError, match=r"m2\.avro: .*\(floecat\.limits\.manifest-"):
        new_purger(live, bounds=bounds).purge(target(table, allowed))
    assert table.remaining() == list(dict.fromkeys(table.written))


def test_a_live_table_that_exceeds_a_bound_stops_purges_on_its_store(
    table: TableFiles, files: FileIO, warehouse: str, allowed: AllowedLocations
) -> None:
    """Clients add files from wherever they can read, so the locations of its catalog bound nothing."""
    hostile = TableFiles(files, f"{warehouse}/other/hostile")
    hostile.append(count=5)
    hostile.commit()
    before, bounds = table.remaining(), Bounds(manifest_entries=4)
    for root in (warehouse, f"{warehouse}/other"):
        live = FakeLiveTables(root, files=files)
        row = live.register(hostile)
        for _ in range(2):
            with pytest.raises(SharedFilesUnknownError, match=f"{row.entry_id} needs: .*manifest-entries"):
                new_purger(live, bounds=bounds).purge(target(table, allowed))
        assert table.remaining() == before
    assert new_purger(live).purge(target(table, allowed)).complete
    assert table.remaining() == []


def test_a_table_of_more_manifests_than_the_bound_is_unknown(
    table: TableFiles, files: FileIO, warehouse: str, live: FakeLiveTables, allowed: AllowedLocations
) -> None:
    hostile = TableFiles(files, f"{warehouse}/other/hostile")
    for _ in range(5):
        hostile.append()
    hostile.commit()
    live.register(hostile)
    with pytest.raises(SharedFilesUnknownError, match=r"manifests than 4 \(floecat.limits.table-manifests\)"):
        new_purger(live, bounds=Bounds(table_manifests=4)).purge(target(table, allowed))
    assert new_purger(live, bounds=Bounds(table_manifests=5)).purge(target(table, allowed)).complete


def test_an_unreadable_table_far_away_stops_nothing(
    table: TableFiles,
    files: FileIO,
    warehouse: str,
    purger: TablePurge,
    live: FakeLiveTables,
    allowed: AllowedLocations,
) -> None:
    other = TableFiles(files, f"{warehouse}/far/away")
    other.append(manifest=other.manifest(data=b"broken"))
    other.commit()
    live.register(other)
    live.register(other, document=b"{", table_uuid="u")
    live.register(other, document=json.dumps(json.loads(other.document()) | {"snapshots": 3}).encode())
    purger.purge(target(table, allowed))
    assert table.remaining() == []


class StoppingFileIO(LocalFileIO):
    """The local disk of a process that dies at a given bulk delete."""

    dies_at = 0

    def delete_many(self, locations: Iterable[str], allowed: AllowedLocations | None = None) -> DeleteOutcome:
        self.dies_at -= 1
        if self.dies_at == 0:
            raise KeyboardInterrupt
        return super().delete_many(locations, allowed)


@pytest.mark.parametrize("dies_at", range(1, 9))
def test_a_second_run_finishes_what_a_crash_left(
    warehouse: str, live: FakeLiveTables, allowed: AllowedLocations, dies_at: int
) -> None:
    files = StoppingFileIO(fsync=False)
    table = full_table(files, f"{warehouse}/t")
    live.files = files
    purger = new_purger(live)
    files.dies_at = dies_at
    with pytest.raises(KeyboardInterrupt):
        purger.purge(target(table, allowed))
    assert files.exists(table.metadata_location)
    purger.purge(target(table, allowed))
    assert table.remaining() == []


def test_a_parent_waits_for_its_leaves(
    files: FileIO, warehouse: str, purger: TablePurge, allowed: AllowedLocations
) -> None:
    table = TableFiles(files, f"{warehouse}/t")
    stuck = table.path("data/stuck.parquet")
    files.make_directory(stuck)
    manifest = table.manifest(stuck, table.write(table.path("data/a.parquet")))
    table.append(manifest=manifest)
    unnamed = [location for location in table.written if location.endswith("-0.parquet")]
    table.append()
    table.commit()
    progress = PurgeProgress()
    with pytest.raises(PurgeIncompleteError, match="1 files could not be deleted"):
        purger.purge(target(table, allowed), progress=progress)
    way = [manifest, table.snapshots[0]["manifest-list"], table.metadata_location]
    assert sorted(table.remaining()) == sorted([*way, *unnamed])
    assert (progress.failed, progress.waiting) == (1, 3)
    Path(stuck.removeprefix("file://")).rmdir()
    purger.purge(target(table, allowed))
    assert table.remaining() == unnamed


def test_batches_are_full(
    files: FileIO, warehouse: str, live: FakeLiveTables, allowed: AllowedLocations
) -> None:
    batches: list[int] = []

    class CountingFileIO(LocalFileIO):
        def delete_many(
            self, locations: Iterable[str], allowed: AllowedLocations | None = None
        ) -> DeleteOutcome:
            listed = list(locations)
            batches.append(len(listed))
            return super().delete_many(listed, allowed)

    counting = CountingFileIO(fsync=False)
    table = TableFiles(counting, f"{warehouse}/t")
    table.append(count=95)
    table.commit()
    live.files = counting
    purger = new_purger(live, batch_size=30)
    purger.purge(target(table, allowed))
    assert batches[:3] == [30, 30, 30]
    assert sum(batches) == 98
    assert batches[-1] == 1


def test_the_lease_is_asked_before_every_batch(
    table: TableFiles, purger: TablePurge, allowed: AllowedLocations
) -> None:
    asked = 0

    def before_batch() -> None:
        nonlocal asked
        asked += 1
        if asked == 3:
            raise PermissionError

    with pytest.raises(PermissionError):
        purger.purge(target(table, allowed), before_batch)
    assert table.metadata_location in table.remaining()


def test_a_table_that_was_made_anew_in_place_keeps_what_it_needs_now(
    table: TableFiles,
    files: FileIO,
    warehouse: str,
    live: FakeLiveTables,
    purger: TablePurge,
    allowed: AllowedLocations,
) -> None:
    """Its files have the names of those before, which an earlier purge has looked at."""
    root = f"{warehouse}/anew/metadata/v1.metadata.json"
    before = TableFiles(files, f"{warehouse}/anew")
    before.append()
    before.commit(root)
    row = live.register(before)
    earlier = full_table(files, f"{warehouse}/ns/earlier")
    purger.purge(target(earlier, allowed))
    live.drop(row)
    for file in before.written:
        files.delete(file)
    needed = table.write(table.path("data/needed.parquet"))
    table.append(needed)
    table.commit()
    anew = TableFiles(files, f"{warehouse}/anew")
    anew.append(needed)
    anew.commit(root)
    assert set(anew.written) < set(before.written)
    live.register(anew)
    purger.purge(target(table, allowed))
    assert table.remaining() == [needed]


def test_what_only_earlier_metadata_files_name_goes_too(
    table: TableFiles,
    files: FileIO,
    warehouse: str,
    live: FakeLiveTables,
    allowed: AllowedLocations,
) -> None:
    """Snapshots were expired and statistics replaced, and their files left; two files fell out of the log."""
    needed = table.write(f"{warehouse}/elsewhere/needed.parquet")
    table.append(needed)
    table.commit()
    table.replace_all()
    table.append()
    table.add_statistics()
    table.commit()
    fallen = [entry["metadata-file"] for entry in table.metadata_log[:2]]
    del table.metadata_log[:2]
    table.replace_all()
    table.commit()
    other = TableFiles(files, f"{warehouse}/other")
    other.append(needed)
    other.commit()
    live.register(other)
    progress = new_purger(live, sidecars=[lambda _: fallen]).purge(target(table, allowed))
    assert table.remaining() == [needed]
    assert (progress.complete, progress.shared, progress.note) == (True, 1, "")


def test_expired_snapshots_wait_for_their_leaves(
    table: TableFiles, files: FileIO, live: FakeLiveTables, allowed: AllowedLocations
) -> None:
    broken = table.append(manifest=table.manifest(data=b"broken"))
    named = table.commit()
    table.replace_all()
    table.commit()
    manifest = table.written[-4]
    unnamed = table.written[-5]
    with pytest.raises(PurgeIncompleteError, match="manifest"):
        new_purger(live).purge(target(table, allowed))
    assert set(table.remaining()) == {unnamed, manifest, broken, named, table.metadata_location}


def test_earlier_metadata_files_of_another_table_lead_nowhere(
    table: TableFiles, files: FileIO, warehouse: str, live: FakeLiveTables, allowed: AllowedLocations
) -> None:
    other = full_table(files, f"{warehouse}/ns/other")
    table.metadata_log += other.metadata_log
    table.commit()
    before = other.remaining()
    new_purger(live).purge(target(table, allowed))
    assert table.remaining() == []
    assert other.remaining() == [
        file for file in before if file not in {entry["metadata-file"] for entry in other.metadata_log}
    ]


def test_the_newest_of_many_earlier_metadata_files_are_read(
    table: TableFiles, live: FakeLiveTables, allowed: AllowedLocations
) -> None:
    table.replace_all()
    table.append()
    table.commit()
    lost = table.write(table.path("data/lost.parquet"))
    table.metadata_log.insert(0, {"timestamp-ms": 1, "metadata-file": table.path("metadata/0.metadata.json")})
    table.snapshots[0]["manifest-list"] = table.append(lost)
    table.write(table.path("metadata/0.metadata.json"), table.document())
    table.replace_all()
    table.commit()
    read = len(table.metadata_log) - 1
    progress = new_purger(live, bounds=Bounds(earlier_metadata_files=read)).purge(target(table, allowed))
    assert "floecat.limits.earlier-metadata-files" in progress.note
    assert lost in table.remaining()


def test_files_beside_the_metadata_go_too(
    table: TableFiles, live: FakeLiveTables, allowed: AllowedLocations
) -> None:
    """An index beside data files is named by what wrote it, and not by the metadata."""
    index = table.write(table.path("indexes/1.puffin"))
    asked: list[str] = []

    def sidecars(target: PurgeTarget) -> list[str]:
        asked.append(target.table_uuid)
        return [index]

    purge = new_purger(live, sidecars=[sidecars])
    purge.purge(target(table, allowed))
    assert set(asked) == {table.table_uuid}
    assert table.remaining() == []


def test_a_sidecar_elsewhere_that_a_live_table_needs_stays(
    files: FileIO, warehouse: str, live: FakeLiveTables, allowed: AllowedLocations
) -> None:
    table, other = TableFiles(files, f"{warehouse}/t"), TableFiles(files, f"{warehouse}/other")
    table.commit()
    needed = other.commit()
    live.register(other)
    new_purger(live, sidecars=[lambda _: [needed]]).purge(target(table, allowed))
    assert other.remaining() == [needed]
    assert table.remaining() == []


def test_data_of_a_lance_table_stays(
    files: FileIO, warehouse: str, purger: TablePurge, allowed: AllowedLocations
) -> None:
    """Its entry has a metadata file that was written here; the table at the location is Lance's own."""
    table = TableFiles(files, f"{warehouse}/lance")
    table.properties["table_type"] = "lance"
    table.commit()
    theirs = [table.write(table.path(name)) for name in ("_versions/1.manifest", "data/0.lance")]
    assert purger.purge(target(table, allowed)).deleted == 1
    assert table.remaining() == theirs


def test_progress_tells_sizes_as_metadata_has_them(
    files: FileIO, warehouse: str, purger: TablePurge, allowed: AllowedLocations
) -> None:
    table = TableFiles(files, f"{warehouse}/t")
    table.append(count=3)
    table.commit()
    lists = [files.read(each["manifest-list"]) for each in table.snapshots]
    progress = purger.purge(target(table, allowed))
    # 100 bytes for each data file, and what the list says of its manifest
    assert progress.bytes == 3 * 100 + 10 + sum(map(len, lists))
    assert (progress.found, progress.deleted) == (6, 6)
