from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest

from floecat.entries.areas import (
    EVERYWHERE,
    Area,
    AreaReader,
    FoundArea,
    file_area,
    folder_area,
    folder_text,
    overlaps,
)
from floecat.errors import ForbiddenError
from floecat.fileio.base import FileIO
from floecat.fileio.local import LocalFileIO
from floecat.fileio.locations import AllowedLocations, normalize_location
from floecat.iceberg.metadata.snapshots import SnapshotSummary
from floecat.storage.catalog_storage import CatalogStorage
from tests.storages import storage_at
from tests.unit.iceberg.manifest_bytes import entry, manifest_bytes, manifest_list_bytes
from tests.unit.purge.table_files import TableFiles


@pytest.fixture
def files() -> FileIO:
    return LocalFileIO(fsync=False)


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    (tmp_path / "warehouse").mkdir()
    return (tmp_path / "warehouse").as_uri()


@pytest.fixture
def allowed(warehouse: str) -> AllowedLocations:
    return AllowedLocations([warehouse])


def found_area(areas: AreaReader, storage: CatalogStorage, table: TableFiles) -> FoundArea:
    entry_id = uuid.uuid5(uuid.NAMESPACE_URL, table.location)
    return areas.area(storage, table.location, table.metadata_location, table.metadata(), entry_id)


def area_of(areas: AreaReader, storage: CatalogStorage, table: TableFiles) -> Area:
    return found_area(areas, storage, table).folders


def folders(*locations: str) -> Area:
    return Area(normalize_location(location) for location in locations)


def test_a_table_in_one_place_is_one_folder(files: FileIO, warehouse: str, allowed: AllowedLocations) -> None:
    table = TableFiles(files, f"{warehouse}/t")
    table.append(count=3)
    table.add_statistics()
    table.commit()
    assert area_of(AreaReader(cached_bytes=1 << 20), storage_at(allowed, files), table) == folders(
        table.location
    )


def test_folders_with_question_marks_and_hashes() -> None:
    """On the local disk they are names; of an object, the folder in which clients find it after a cut."""
    assert file_area(["/w/a?b/f", "/w/a#b/f?x"]) == folders("/w/a?b", "/w/a#b")
    assert file_area(["s3://b/t/a?b/f", "s3://b/t/u/f#x"]) == folders("s3://b/t", "s3://b/t/u")


def test_every_place_outside_is_named(files: FileIO, warehouse: str, allowed: AllowedLocations) -> None:
    table = TableFiles(files, f"{warehouse}/t")
    table.append(f"{warehouse}/landing/day=1/a.parquet", "relative/a.parquet")
    table.commit(f"{warehouse}/meta/1.metadata.json")
    table.commit()
    assert area_of(AreaReader(cached_bytes=1 << 20), storage_at(allowed, files), table) == folders(
        table.location, f"{warehouse}/meta", f"{warehouse}/landing/day=1"
    )


def test_many_folders_become_fewer_larger_ones(
    files: FileIO, warehouse: str, allowed: AllowedLocations
) -> None:
    table = TableFiles(files, f"{warehouse}/t")
    table.append(*(f"{warehouse}/landing/day={day}/hour={hour}/a" for day in range(9) for hour in range(24)))
    table.commit()
    area = area_of(AreaReader(cached_bytes=1 << 20), storage_at(allowed, files), table)
    assert len(area) <= 32
    assert overlaps(area, folders(f"{warehouse}/landing/day=3"))
    assert not overlaps(area, folders(f"{warehouse}/other"))


def test_known_manifests_are_not_read_again(files: FileIO, warehouse: str, allowed: AllowedLocations) -> None:
    table = TableFiles(files, f"{warehouse}/t")
    for _ in range(3):
        table.append()
        table.commit()
    areas = AreaReader(cached_bytes=1 << 20)
    first = area_of(areas, storage_at(allowed, files), table)
    table.append()
    table.commit()
    before = files.counters.counts
    assert area_of(areas, storage_at(allowed, files), table) == first
    # four manifest lists, and the one manifest that is new
    assert (files.counters.counts - before).reads == 5


def test_what_cannot_be_read_is_left_out(files: FileIO, warehouse: str, allowed: AllowedLocations) -> None:
    table = TableFiles(files, f"{warehouse}/t")
    table.append(manifest=table.manifest(data=b"broken"))
    table.append(f"{warehouse}/landing/a.parquet")
    table.commit()
    found = found_area(AreaReader(cached_bytes=1 << 20), storage_at(allowed, files), table)
    assert found == FoundArea(folders(table.location, f"{warehouse}/landing"))
    table.append(manifest=f"{warehouse}/gone/m.avro")
    table.commit()
    found = found_area(AreaReader(cached_bytes=1 << 20), storage_at(allowed, files), table)
    # it may come back
    assert found == FoundArea(found.folders, is_settled=False)
    assert found.folders == folders(table.location, f"{warehouse}/landing", f"{warehouse}/gone")


def test_what_storage_refuses_makes_the_area_unknown(warehouse: str, allowed: AllowedLocations) -> None:
    """Unlike a location outside the allowed ones: the keys of the catalog may be others tomorrow."""

    class RefusingFileIO(LocalFileIO):
        def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
            if "/snap-" in location:
                raise ForbiddenError("access denied")
            return super().read(location, max_bytes=max_bytes)

    files = RefusingFileIO(fsync=False)
    table = TableFiles(files, f"{warehouse}/t")
    table.append()
    table.commit()
    with pytest.raises(ForbiddenError, match="access denied"):
        area_of(AreaReader(cached_bytes=1 << 20), storage_at(allowed, files), table)


def test_links_on_the_local_disk_are_followed(tmp_path: Path, warehouse: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "warehouse")
    assert overlaps(folder_area([f"{warehouse}/t"]), folder_area([f"{tmp_path}/link/t"]))
    assert not overlaps(folder_area([f"{warehouse}/t"]), folder_area([f"{tmp_path}/link/u"]))


def test_a_folder_is_the_same_when_it_has_become_a_link(tmp_path: Path, warehouse: str) -> None:
    """As after a move to a larger disk."""
    before = folder_area([f"{warehouse}/t"])
    (tmp_path / "warehouse").rename(tmp_path / "moved")
    (tmp_path / "warehouse").symlink_to(tmp_path / "moved")
    # another name of a folder is kept in memory for a while; this one was not looked up yet
    after = folder_area([f"{warehouse}/t/inner"])
    assert overlaps(before, after)
    assert overlaps(folder_area([f"{tmp_path}/moved/t"]), after)


def test_a_folder_whose_name_is_not_text_is_stored(tmp_path: Path, warehouse: str) -> None:
    odd = os.fsencode(tmp_path) + b"/odd-\xff"
    os.mkdir(odd)
    os.symlink(odd, tmp_path / "warehouse" / "t")
    area = folder_area([f"{warehouse}/t"])
    assert all(folder_text(folder).encode() for folder in area)
    assert overlaps(area, folder_area([f"{warehouse}/t/inner"]))


def test_what_is_not_allowed_is_not_read(files: FileIO, tmp_path: Path, warehouse: str) -> None:
    inside, outside = f"{warehouse}/t", (tmp_path / "outside").as_uri()
    table = TableFiles(files, outside)
    manifest = table.manifest(f"{warehouse}/landing/a.parquet")
    table.location = inside
    table.append(manifest=manifest)
    for manifest_list in ("file:///etc/hostname", "relative"):
        table.append()
        table.snapshots[-1]["manifest-list"] = manifest_list
    table.commit()
    before = files.counters.counts
    area = found_area(AreaReader(cached_bytes=1 << 20), storage_at([warehouse], files), table)
    assert (files.counters.counts - before).reads == 1
    assert area == FoundArea(folders(inside, f"{outside}/metadata", "file:///etc"), depends_on_roots=True)
    wider = area_of(AreaReader(cached_bytes=1 << 20), storage_at([warehouse, outside], files), table)
    assert wider == area.folders | folders(f"{warehouse}/landing")


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("s3://b/t", True),
        ("s3n://b/t/inner", True),
        ("s3://b", True),
        ("s3://b/t2", False),
        ("s3://b2/t", False),
        ("gs://b/t", False),
    ],
)
def test_aliases_of_object_storage_overlap(location: str, expected: bool) -> None:
    areas = AreaReader(cached_bytes=1 << 20)
    first = areas.area(storage_at([]), "s3a://b/t", "s3a://b/t/metadata/1.json", None).folders
    second = areas.area(storage_at([]), location, f"{location}/metadata/1.json", None).folders
    assert overlaps(first, second) is expected
    assert overlaps(second, first) is expected


def test_more_folders_than_are_held_and_a_large_manifest(files: FileIO, warehouse: str) -> None:
    table = TableFiles(files, f"{warehouse}/t")
    paths = [f"{warehouse}/elsewhere/{number}/{number:0200}/a.parquet" for number in range(12_000)]
    padding = bytes(600)
    manifest = manifest_bytes((entry(path, key_metadata=padding) for path in paths), codec="null")
    assert len(manifest) > 8 << 20
    table.append(manifest=table.manifest(data=manifest))
    table.commit()
    area = area_of(AreaReader(cached_bytes=0), storage_at([warehouse], files), table)
    assert len(area) <= 32
    for number in (0, 6_000, 11_999):
        assert overlaps(area, folder_area([f"{warehouse}/elsewhere/{number}"]))
    assert not overlaps(area, folder_area([f"{warehouse}/another"]))


def test_more_buckets_than_folders_are_everywhere() -> None:
    area = file_area(f"s3://bucket-{number}/t/a" for number in range(20_000))
    assert EVERYWHERE in area
    assert overlaps(area, folders("gs://b/t"))
    assert overlaps(folders("gs://b/t"), area)


def summaries(table: TableFiles) -> list[SnapshotSummary]:
    return list(table.metadata().snapshots)


def test_of_a_new_snapshot_only_what_it_adds_is_read(
    files: FileIO, warehouse: str, allowed: AllowedLocations
) -> None:
    table = TableFiles(files, f"{warehouse}/t")
    for number in range(3):
        table.append(f"{warehouse}/landing/{number}/a.parquet")
    reader, storage = AreaReader(cached_bytes=0), storage_at(allowed, files)
    before = files.counters.counts
    area = reader.added_area(storage, summaries(table)[-1:], all_manifests=False)
    assert (files.counters.counts - before).reads == 2
    assert area == folders(f"{warehouse}/t/metadata", f"{warehouse}/landing/2")
    area = reader.added_area(storage, summaries(table)[-1:], all_manifests=True)
    assert area == folders(
        f"{warehouse}/t/metadata", *(f"{warehouse}/landing/{number}" for number in range(3))
    )
    assert reader.added_area(storage, [], all_manifests=True) == Area()


def test_older_manifests_of_another_table_are_seen_where_they_lie(
    files: FileIO, warehouse: str, allowed: AllowedLocations
) -> None:
    copied = TableFiles(files, f"{warehouse}/t")
    copied.append()
    copy = TableFiles(files, f"{warehouse}/copy", first_number=7)
    listed = [{"manifest_path": path, "added_snapshot_id": 1} for path in copied.manifests]
    copy.append(f"{warehouse}/copy/data/a.parquet")
    files.delete(summaries(copy)[0].manifest_list or "")
    files.write_new(summaries(copy)[0].manifest_list or "", manifest_list_bytes(listed))
    area = AreaReader(cached_bytes=0).added_area(
        storage_at(allowed, files), summaries(copy), all_manifests=False
    )
    assert overlaps(area, folders(copied.path("metadata")))


def test_what_takes_long_or_cannot_be_read_may_be_everywhere(
    files: FileIO, warehouse: str, allowed: AllowedLocations
) -> None:
    reader, storage = AreaReader(cached_bytes=0), storage_at(allowed, files)
    large = TableFiles(files, f"{warehouse}/large")
    for _ in range(65):
        large.append()
    assert reader.added_area(storage, summaries(large)[-1:], all_manifests=True) == {EVERYWHERE}
    assert reader.added_area(storage, summaries(large), all_manifests=False) == {EVERYWHERE}
    damaged = TableFiles(files, f"{warehouse}/damaged")
    files.delete(damaged.append())
    files.write_new(summaries(damaged)[0].manifest_list or "", b"broken")
    assert reader.added_area(storage, summaries(damaged), all_manifests=False) == {EVERYWHERE}
