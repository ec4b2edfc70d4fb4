"""Metadata files: what they take is bounded before it is read, and before it is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from floecat.entries.metadata_files import MetadataFiles
from floecat.errors import LocationNotAllowedError, PayloadTooLargeError
from floecat.fileio.locations import AllowedLocations
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.settings import Settings
from floecat.storage.catalog_storage import CatalogStorage
from floecat.working_memory import WorkingMemory, WorkingMemoryError
from tests.unit.iceberg.table_documents import document, encode
from tests.unit.storage.test_catalog_storage import access

MIB = 1 << 20
BOUND = r"larger than {} bytes \(floecat\.gateway\.max-metadata-file-bytes\)"


@pytest.fixture
def storage(tmp_path: Path) -> CatalogStorage:
    return CatalogStorage(AllowedLocations([tmp_path.as_uri()]), access("http://none"))


def test_files_up_to_the_default_bound_are_read(storage: CatalogStorage, tmp_path: Path) -> None:
    most = Settings().gateway.max_metadata_file_bytes
    assert most == 512 * MIB
    files, location = MetadataFiles(max_bytes=most), tmp_path / "large.metadata.json"
    with location.open("wb") as file:
        file.truncate(most + 1)  # takes no space
    with pytest.raises(PayloadTooLargeError, match=BOUND.format(most)):
        files.read(storage, location.as_uri())


@pytest.mark.parametrize("size_bytes", [1000, 3 * MIB])
def test_a_file_of_the_size_of_the_bound_is_read(
    storage: CatalogStorage, tmp_path: Path, size_bytes: int
) -> None:
    location = tmp_path / "a.metadata.json"
    location.write_bytes(bytes(size_bytes))
    assert MetadataFiles(max_bytes=size_bytes).read(storage, location.as_uri()) == bytes(size_bytes)
    with pytest.raises(PayloadTooLargeError, match=BOUND.format(size_bytes - 1)):
        MetadataFiles(max_bytes=size_bytes - 1).read(storage, location.as_uri())


def test_memory_is_reserved_before_a_large_file_is_read(storage: CatalogStorage, tmp_path: Path) -> None:
    location = tmp_path / "a.metadata.json"
    location.write_bytes(bytes(3 * MIB))
    before = storage.files(location.as_uri()).counters.counts
    memory = WorkingMemory(4 * MIB, wait_ms=0)
    with memory.work() as other:
        other.take(2 * MIB)
        with memory.work(), pytest.raises(WorkingMemoryError):
            MetadataFiles(max_bytes=10 * MIB).read(storage, location.as_uri())
    assert (storage.files(location.as_uri()).counters.counts - before).bytes_read == 0


def test_no_larger_document_is_written_than_is_read(storage: CatalogStorage, tmp_path: Path) -> None:
    metadata = TableMetadata.parse(encode(document()))
    location = tmp_path / "b.metadata.json"
    with pytest.raises(PayloadTooLargeError, match=BOUND.format(metadata.size_bytes - 1)):
        MetadataFiles(max_bytes=metadata.size_bytes - 1).write(storage, location.as_uri(), metadata)
    assert not location.exists()
    MetadataFiles(max_bytes=metadata.size_bytes).write(storage, location.as_uri(), metadata)
    assert location.exists()


def test_a_link_that_has_the_name_of_a_file_is_not_read_elsewhere(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere.metadata.json"
    root.mkdir()
    storage = CatalogStorage(AllowedLocations([root.as_uri()]), access("http://none"))
    metadata = TableMetadata.parse(encode(document()))
    elsewhere.write_bytes(b"".join(metadata.pieces()))
    location = root / "a.metadata.json"
    location.symlink_to(elsewhere)
    with pytest.raises(LocationNotAllowedError):
        MetadataFiles(max_bytes=MIB).write_once(storage, location.as_uri(), metadata)
