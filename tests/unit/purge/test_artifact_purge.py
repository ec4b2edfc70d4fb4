"""Purges of Delta tables: what goes, in which order, and what stops them."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from floecat.delta.artifact_purge import ArtifactPurge
from floecat.entries.metadata_files import MetadataFiles
from floecat.errors import LocationNotAllowedError, StorageUnavailableError
from floecat.fileio.base import FileIO
from floecat.fileio.local import LocalFileIO
from floecat.fileio.locations import AllowedLocations
from floecat.purge.deletion.progress import PurgeProgress
from floecat.purge.deletion.table_purge import PurgeIncompleteError, PurgeTarget, TablePurge
from floecat.purge.sharing.live_tables import all_folders
from floecat.purge.sharing.shared_files import SharedFiles, SharedFilesUnknownError
from floecat.store.entries.documents import compress, no_metadata_location
from tests.services.faults import FaultyFileIO
from tests.storages import storage_at
from tests.unit.purge.table_files import FakeLiveTables, TableFiles

NAMES = (
    "0-compat-m0.avro",
    "1-compat-d0.avro",
    "1-compat-pd-00ff.parquet",
    "snap-0-compat.avro",
    "snap-1-compat.avro",
    "1-compat-00ff.metadata.json",
    "compat-df-0123456789abcdef0123456789abcdef.parquet",
)


class DeltaFiles:
    """A Delta table and its artifacts, as files."""

    def __init__(self, files: FileIO, location: str, folder: str | None = None) -> None:
        self.files = files
        self.location = location
        self.folder = folder or f"{location}/metadata"
        self.table_uuid = str(uuid.uuid4())
        self.metadata_location = f"{self.folder}/1-compat-00ff.metadata.json"
        self.theirs = self.write(location, "_delta_log/00000000000000000000.json", "part-0.parquet")
        self.artifacts = self.write(self.folder, *NAMES)

    def write(self, folder: str, *names: str) -> set[str]:
        for name in names:
            self.files.write_new(f"{folder}/{name}", b"x")
        return {f"{folder}/{name}" for name in names}

    def left(self) -> set[str]:
        return {file for file in self.artifacts | self.theirs if self.files.exists(file)}

    def target(self, allowed: AllowedLocations, **changes: Any) -> PurgeTarget:
        fields = {"document": compress(self.document()), "format": "delta"} | changes
        return PurgeTarget(self.table_uuid, self.metadata_location, storage_at(allowed, self.files), **fields)

    def document(self) -> bytes:
        table = TableFiles(self.files, self.location, table_uuid=self.table_uuid)
        table.snapshots = [
            {
                "snapshot-id": number,
                "sequence-number": number + 1,
                "timestamp-ms": 1,
                "manifest-list": f"{self.folder}/snap-{number}-compat.avro",
                "summary": {"operation": "append"},
                "schema-id": 0,
            }
            for number in (0, 1)
        ]
        return table.document()


@pytest.fixture
def files() -> FaultyFileIO:
    return FaultyFileIO(LocalFileIO(fsync=False))


@pytest.fixture
def purger(files: FaultyFileIO, live: FakeLiveTables) -> TablePurge:
    live.files = files
    shared = SharedFiles(live, {"delta": all_folders})
    artifacts = ArtifactPurge(shared, batch_size=2)
    metadata_files = MetadataFiles(max_bytes=1 << 20)
    return TablePurge(metadata_files, shared, batch_size=2, others={"delta": artifacts})


@pytest.fixture
def table(files: FaultyFileIO, warehouse: str) -> DeltaFiles:
    return DeltaFiles(files, f"{warehouse}/d")


def test_artifacts_go_and_delta_stays(
    table: DeltaFiles, purger: TablePurge, allowed: AllowedLocations
) -> None:
    report = purger.purge(table.target(allowed))
    assert (report.found, report.deleted, report.bytes > 0) == (len(NAMES), len(NAMES), True)
    assert table.left() == table.theirs
    assert purger.purge(table.target(allowed)).found == 0


@pytest.mark.parametrize("document", [None, compress(b"{}")])
def test_one_that_was_never_read(
    table: DeltaFiles, purger: TablePurge, allowed: AllowedLocations, document: bytes | None
) -> None:
    table.metadata_location = no_metadata_location(table.folder)
    purger.purge(table.target(allowed, document=document))
    assert table.left() == table.theirs


def test_what_names_others_goes_first(
    table: DeltaFiles, files: FaultyFileIO, purger: TablePurge, allowed: AllowedLocations
) -> None:
    left: list[set[str]] = []

    def before_batch() -> None:
        left.append({file.rpartition("/")[2] for file in table.left() - table.theirs})

    purger.purge(table.target(allowed), before_batch)
    first, second, third, *_ = left
    assert first == set(NAMES)
    assert second == set(NAMES) - {"1-compat-00ff.metadata.json"}
    assert third == second - {"snap-0-compat.avro", "snap-1-compat.avro"}


def test_a_purge_that_is_stopped_goes_on_later(
    table: DeltaFiles, purger: TablePurge, allowed: AllowedLocations
) -> None:
    class StopError(Exception):
        pass

    calls = []

    def stop_at_the_second() -> None:
        calls.append(1)
        if len(calls) == 2:
            raise StopError

    with pytest.raises(StopError):
        purger.purge(table.target(allowed), stop_at_the_second)
    assert len(table.left() - table.theirs) == len(NAMES) - 1
    purger.purge(table.target(allowed))
    assert table.left() == table.theirs


def test_what_cannot_be_deleted_is_tried_again(
    table: DeltaFiles, files: FaultyFileIO, purger: TablePurge, allowed: AllowedLocations
) -> None:
    files.refuse("-pd-")
    progress = PurgeProgress()
    with pytest.raises(PurgeIncompleteError, match="could not be deleted"):
        purger.purge(table.target(allowed), progress=progress)
    assert progress.failed == 1
    files.clear()
    purger.purge(table.target(allowed))
    assert table.left() == table.theirs


def test_nothing_goes_while_storage_cannot_be_listed(
    table: DeltaFiles, files: FaultyFileIO, purger: TablePurge, allowed: AllowedLocations
) -> None:
    files.fail("list")
    with pytest.raises(StorageUnavailableError):
        purger.purge(table.target(allowed))
    assert table.left() == table.theirs | table.artifacts


def test_nothing_outside_the_allowed_locations_is_listed(
    table: DeltaFiles, files: FaultyFileIO, purger: TablePurge
) -> None:
    with pytest.raises(LocationNotAllowedError):
        purger.purge(table.target(AllowedLocations(["file:///elsewhere"])))
    assert table.left() == table.theirs | table.artifacts


def test_a_place_of_their_own(
    files: FaultyFileIO, warehouse: str, purger: TablePurge, allowed: AllowedLocations
) -> None:
    table = DeltaFiles(files, f"{warehouse}/d", f"{warehouse}/compat/1")
    other = DeltaFiles(files, f"{warehouse}/e", f"{warehouse}/compat/2")
    purger.purge(table.target(allowed))
    assert table.left() == table.theirs
    assert other.left() == other.theirs | other.artifacts


def test_artifacts_that_were_made_elsewhere_before_go_too(
    table: DeltaFiles, files: FaultyFileIO, warehouse: str, purger: TablePurge, allowed: AllowedLocations
) -> None:
    moved = no_metadata_location(f"{warehouse}/compat/1")
    target = PurgeTarget(
        table.table_uuid, moved, storage_at(allowed, table.files), compress(table.document()), "delta"
    )
    purger.purge(target)
    assert table.left() == table.theirs


def test_a_document_that_names_folders_of_others_changes_nothing(
    table: DeltaFiles, files: FaultyFileIO, warehouse: str, purger: TablePurge, allowed: AllowedLocations
) -> None:
    iceberg = TableFiles(files, f"{warehouse}/i")
    iceberg.append()
    iceberg.commit()
    document = json.loads(table.document())
    document["snapshots"][0]["manifest-list"] = iceberg.snapshots[0]["manifest-list"]
    purger.purge(table.target(allowed, document=compress(json.dumps(document).encode())))
    assert iceberg.remaining() == iceberg.written


class TestNeighbours:
    def test_a_second_entry_of_the_table_keeps_its_artifacts(
        self,
        table: DeltaFiles,
        purger: TablePurge,
        live: FakeLiveTables,
        allowed: AllowedLocations,
        files: FileIO,
    ) -> None:
        other = TableFiles(files, table.location)
        other.metadata_location = no_metadata_location(table.folder)
        row = live.register(other, document=b"{}", format="delta")
        progress = purger.purge(table.target(allowed))
        assert (progress.found, progress.shared, progress.deleted) == (len(NAMES), len(NAMES), 0)
        assert table.left() == table.theirs | table.artifacts
        live.drop(row)
        purger.purge(table.target(allowed))
        assert table.left() == table.theirs

    def test_a_delta_table_around_it_needs_none_of_them(
        self,
        files: FaultyFileIO,
        warehouse: str,
        purger: TablePurge,
        live: FakeLiveTables,
        allowed: AllowedLocations,
    ) -> None:
        inner = DeltaFiles(files, f"{warehouse}/d/inner")
        outer = DeltaFiles(files, f"{warehouse}/d")
        around = TableFiles(files, outer.location)
        around.metadata_location = outer.metadata_location
        live.register(around, document=outer.document(), format="delta")
        purger.purge(inner.target(allowed))
        assert inner.left() == inner.theirs
        assert outer.left() == outer.theirs | outer.artifacts

    def test_an_iceberg_table_that_was_made_of_them_keeps_them(
        self,
        table: DeltaFiles,
        files: FaultyFileIO,
        purger: TablePurge,
        live: FakeLiveTables,
        allowed: AllowedLocations,
    ) -> None:
        made = TableFiles(files, table.location, table_uuid=table.table_uuid)
        made.append(f"{table.location}/part-0.parquet")
        named = f"{table.folder}/snap-7-compat.avro"
        files.write_new(named, files.read(made.snapshots[0]["manifest-list"]))
        made.snapshots[0]["manifest-list"] = named
        made.metadata_location = f"{table.folder}/7-compat-00ff.metadata.json"
        live.register(made)
        purger.purge(table.target(allowed))
        assert files.exists(named)
        assert table.left() == table.theirs

    def test_nothing_goes_while_a_neighbour_cannot_be_read(
        self,
        table: DeltaFiles,
        files: FaultyFileIO,
        purger: TablePurge,
        live: FakeLiveTables,
        allowed: AllowedLocations,
    ) -> None:
        live.register(TableFiles(files, table.location), document=b"broken")
        with pytest.raises(SharedFilesUnknownError):
            purger.purge(table.target(allowed))
        assert table.left() == table.theirs | table.artifacts

    def test_an_unread_delta_table_does_not_hold_up_others(
        self,
        files: FaultyFileIO,
        warehouse: str,
        purger: TablePurge,
        live: FakeLiveTables,
        allowed: AllowedLocations,
    ) -> None:
        dropped = TableFiles(files, f"{warehouse}/i")
        dropped.append()
        dropped.commit()
        inner = DeltaFiles(files, f"{warehouse}/i/d")
        row = TableFiles(files, inner.location)
        row.metadata_location = no_metadata_location(inner.folder)
        live.register(row, document=b"{}", format="delta")
        purger.purge(
            PurgeTarget(dropped.table_uuid, dropped.metadata_location, storage_at(allowed, dropped.files))
        )
        assert dropped.remaining() == []
        assert inner.left() == inner.theirs | inner.artifacts

    def test_files_of_a_live_delta_table_stay_whoever_names_them(
        self,
        files: FaultyFileIO,
        warehouse: str,
        purger: TablePurge,
        live: FakeLiveTables,
        allowed: AllowedLocations,
    ) -> None:
        delta = DeltaFiles(files, f"{warehouse}/d")
        row = TableFiles(files, delta.location)
        row.metadata_location = no_metadata_location(delta.folder)
        live.register(row, document=b"{}", format="delta")
        dropped = TableFiles(files, f"{warehouse}/i")
        # as after CONVERT TO DELTA, or an import of its files
        dropped.append(f"{delta.location}/part-0.parquet")
        dropped.commit()
        report = purger.purge(
            PurgeTarget(dropped.table_uuid, dropped.metadata_location, storage_at(allowed, dropped.files))
        )
        assert report.shared == 1
        assert delta.left() == delta.theirs | delta.artifacts
