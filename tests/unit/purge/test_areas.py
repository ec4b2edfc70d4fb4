from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from floecat.fileio.base import FileIO
from floecat.fileio.locations import AllowedLocations, normalize_location
from floecat.purge.areas import Area, AreaReader, folder_area, overlaps
from floecat.storage.catalog_storage import CatalogStorage
from floecat.store.tables import EntryState
from tests.storages import storage_at
from tests.unit.iceberg.manifest_bytes import entry, manifest_bytes
from tests.unit.purge.table_files import TableFiles


def area_of(areas: AreaReader, storage: CatalogStorage, table: TableFiles) -> Area:
    entry_id = uuid.uuid5(uuid.NAMESPACE_URL, table.location)
    state = EntryState(entry_id, len(table.metadata_log), table.metadata_location)
    return areas.area(storage, table.location, table.metadata_location, table.metadata, state)


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


def test_known_areas_cost_no_reads(files: FileIO, warehouse: str, allowed: AllowedLocations) -> None:
    table = TableFiles(files, f"{warehouse}/t")
    for _ in range(3):
        table.append()
        table.commit()
    areas = AreaReader(cached_bytes=1 << 20)
    first = area_of(areas, storage_at(allowed, files), table)
    before = files.counters.counts
    assert area_of(areas, storage_at(allowed, files), table) == first
    assert (files.counters.counts - before).calls == 0
    table.append()
    table.commit()
    before = files.counters.counts
    area_of(areas, storage_at(allowed, files), table)
    # four manifest lists, and the one manifest that is new
    assert (files.counters.counts - before).reads == 5


def test_what_cannot_be_read_is_left_out(files: FileIO, warehouse: str, allowed: AllowedLocations) -> None:
    table = TableFiles(files, f"{warehouse}/t")
    table.append(manifest=table.manifest(data=b"broken"))
    table.append(f"{warehouse}/landing/a.parquet")
    table.append(manifest=f"{warehouse}/gone/m.avro")
    table.commit()
    assert area_of(AreaReader(cached_bytes=1 << 20), storage_at(allowed, files), table) == folders(
        table.location, f"{warehouse}/landing", f"{warehouse}/gone"
    )


def test_links_on_the_local_disk_are_followed(
    files: FileIO, tmp_path: Path, warehouse: str, allowed: AllowedLocations
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "warehouse")
    areas = AreaReader(cached_bytes=1 << 20)
    straight = areas.area(
        storage_at(allowed), f"{warehouse}/t", f"{warehouse}/t/metadata/1.json", lambda: None
    )
    linked = areas.area(
        storage_at(allowed), f"{tmp_path}/link/t", f"{tmp_path}/link/t/metadata/1.json", lambda: None
    )
    assert straight == linked


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
    area = area_of(AreaReader(cached_bytes=1 << 20), storage_at([warehouse], files), table)
    assert (files.counters.counts - before).reads == 1
    assert area == folders(inside, f"{outside}/metadata", "file:///etc")
    wider = area_of(AreaReader(cached_bytes=1 << 20), storage_at([warehouse, outside], files), table)
    assert wider == area | folders(f"{warehouse}/landing")


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
    first = areas.area(storage_at([]), "s3a://b/t", "s3a://b/t/metadata/1.json", lambda: None)
    second = areas.area(storage_at([]), location, f"{location}/metadata/1.json", lambda: None)
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
