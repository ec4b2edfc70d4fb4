"""Decoded manifests on local disk: the same plans after a restart, without reading manifests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from floecat.errors import FileMissingError, LocationNotAllowedError
from floecat.fileio.local import LocalFileIO
from floecat.fileio.options import ObjectStoreOptions
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.planning.files.disk_cache import DiskCache
from floecat.planning.files.planner import open_planner
from floecat.planning.files.scan_planning import local_planner
from floecat.planning.files.scans import ScanPlan, ScanRequest
from floecat.planning.files.targets import resolve
from floecat.planning.filters.expression_json import parse_filter
from floecat.storage.access import StorageAccess
from floecat.storage.catalog_storage import CatalogStorage
from tests.services.faults import FaultyFileIO
from tests.storages import storage_at
from tests.unit.planning.planned_files import PlannedFile, new_planner, plan_table, planned_files
from tests.unit.planning.random_filters import random_filter
from tests.unit.planning.random_tables import random_table
from tests.unit.planning.small_tables import SmallTable, data_file


class Restarts:
    """Planners that begin with nothing in memory, over one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = FaultyFileIO(LocalFileIO(fsync=False))
        self.storage = storage_at(["file:///"], self.files)

    def plan(
        self, metadata: bytes, json: object = None, storage: CatalogStorage | None = None
    ) -> list[PlannedFile]:
        """The plan of a new planner."""
        planner = local_planner(64 << 20, 1, disk=DiskCache(self.folder, 64 << 20))
        target = resolve(TableMetadata.parse(metadata), ScanRequest(filter=parse_filter(json)))
        return list(planned_files(planner.plan(storage or self.storage, target)))

    def reads(self) -> list[str]:
        """Names of what was read of storage since the last time."""
        found = [location.rpartition("/")[2] for _, location in self.files.calls]
        self.files.calls.clear()
        return found

    @property
    def kept(self) -> list[Path]:
        return sorted(self.folder.glob("*.manifest*"))


@pytest.fixture
def restarts(tmp_path: Path) -> Restarts:
    return Restarts(tmp_path / "cache")


@pytest.fixture
def plain(tmp_path: Path) -> SmallTable:
    """Appends of one file each, in manifests m1 to m3."""
    table = SmallTable(tmp_path, [{1: ("id", "long"), 2: ("Name", "string")}])
    for number in range(3):
        table.add(data_file(f"f{number}", lower_bounds={1: number.to_bytes(8, "little")}))
    return table


@pytest.mark.parametrize("seed", range(5))
def test_a_restart_gives_the_same_plan_and_reads_no_manifest(
    restarts: Restarts, tmp_path: Path, seed: int
) -> None:
    source = Random(seed)
    table = random_table(source, tmp_path)
    jsons = [random_filter(source, table.columns).json for _ in range(3)]
    for json_ in jsons:
        restarts.plan(table.metadata, json_)
    restarts.reads()
    for json_ in (*jsons, None):
        assert restarts.plan(table.metadata, json_) == plan_table(new_planner(), table.metadata, json_)
        assert len(restarts.reads()) <= 1, "more than the manifest list was read"


def test_metrics_that_are_missing_are_added(restarts: Restarts, plain: SmallTable) -> None:
    metadata, by_id = plain.metadata(), {"type": "lt", "term": "id", "value": 2}
    restarts.plan(metadata)
    assert len(restarts.reads()) == 4
    restarts.plan(metadata, by_id)
    assert len(restarts.reads()) == 4
    for json_ in (None, by_id):
        restarts.plan(metadata, json_)
        assert len(restarts.reads()) == 1
    assert len(restarts.kept) == 3


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def replace_by_another(path: Path) -> None:
    path.write_bytes(next(each for each in path.parent.glob("*.manifest") if each != path).read_bytes())


@pytest.mark.parametrize("damage", [cut, empty, flip, replace_by_another])
def test_a_file_that_is_not_right_is_read_from_storage(
    restarts: Restarts, plain: SmallTable, damage: Callable[[Path], None]
) -> None:
    expected = restarts.plan(plain.metadata())
    restarts.reads()
    good = restarts.kept[0].read_bytes()
    damage(restarts.kept[0])
    assert restarts.plan(plain.metadata()) == expected
    assert len(restarts.reads()) == 2
    assert restarts.kept[0].read_bytes() == good


def test_a_damaged_file_is_deleted(restarts: Restarts, tmp_path: Path) -> None:
    table = SmallTable(tmp_path, [{1: ("id", "long")}])
    table.add(data_file("f"))
    restarts.plan(table.metadata())
    cut(restarts.kept[0])
    (tmp_path / "m1.avro").unlink()
    with pytest.raises(FileMissingError):
        restarts.plan(table.metadata())
    assert restarts.kept == []


def test_tables_do_not_share(restarts: Restarts, plain: SmallTable) -> None:
    """A table that is made at the place of another may have manifests of the same names."""
    restarts.plan(plain.metadata())
    restarts.reads()
    other = json.loads(plain.metadata()) | {"table-uuid": "7f0c4a0e-1f9b-4b5d-9f57-6b5ad0a3c111"}
    restarts.plan(json.dumps(other).encode())
    assert len(restarts.reads()) == 4


def test_who_reaches_storage_otherwise_reads_for_himself(restarts: Restarts, plain: SmallTable) -> None:
    restarts.plan(plain.metadata())
    restarts.reads()
    for options in (
        ObjectStoreOptions(access_key_id="other", secret_access_key="secret"),
        ObjectStoreOptions(endpoint="http://localhost:1"),
    ):
        access = StorageAccess.of(options, files=restarts.files)
        restarts.plan(plain.metadata(), storage=CatalogStorage(restarts.storage.allowed, access))
        assert len(restarts.reads()) == 4
    assert not any(b"secret" in path.read_bytes() for path in restarts.kept)


def test_nothing_outside_the_allowed_locations_is_taken(restarts: Restarts, plain: SmallTable) -> None:
    expected = restarts.plan(plain.metadata())
    assert expected
    narrow = storage_at([plain.folder.as_uri() + "/elsewhere"], restarts.files)
    with pytest.raises(LocationNotAllowedError):
        restarts.plan(plain.metadata(), storage=narrow)


def files_of(plan: ScanPlan) -> Iterator[PlannedFile]:
    yield from planned_files(plan)


def test_a_planning_process_uses_the_folder(restarts: Restarts, plain: SmallTable) -> None:
    expected = restarts.plan(plain.metadata())
    for path in plain.folder.glob("m*.avro"):
        path.unlink()
    planner = open_planner(
        local_bytes=1 << 20,
        processes=1,
        memory_bytes=64 << 20,
        in_process_bytes=0,
        disk_folder=str(restarts.folder),
        disk_bytes=64 << 20,
    )
    metadata = TableMetadata.parse(plain.metadata())
    assert list(planner.run(storage_at(["file:///"]), metadata, ScanRequest(), files_of)) == expected
    planner.close()
