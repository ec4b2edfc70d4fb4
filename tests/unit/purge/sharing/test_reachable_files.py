from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from floecat.errors import InvalidMetadataError
from floecat.fileio.base import FileIO
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.purge.sharing.location_set import LocationSet
from floecat.purge.sharing.manifest_files import FileKind, ManifestReader, ReachableFile
from floecat.purge.sharing.reachable_files import ReachableFiles
from floecat.storage.catalog_storage import CatalogStorage
from tests.storages import storage_at
from tests.unit.iceberg.manifest_bytes import entry
from tests.unit.purge.table_files import TableFiles


def everywhere(files: FileIO) -> CatalogStorage:
    return storage_at(["file:///"], files)


def walk(table: TableFiles) -> list[ReachableFile]:
    return list(ReachableFiles(everywhere(table.files), table.metadata_location, table.metadata()))


@pytest.fixture
def table(files: FileIO, warehouse: str) -> TableFiles:
    table = TableFiles(files, f"{warehouse}/ns/t")
    table.commit()
    table.append(count=3)
    table.commit()
    delete = table.write(table.path("data/deletes.parquet"))
    vectors = table.write(table.path("data/dv.puffin"))
    table.append(
        manifest=table.manifest(
            entry(delete, content=1),
            entry(vectors, content=1, file_format="PUFFIN"),
            entry(vectors, content=1, file_format="PUFFIN"),
        )
    )
    table.add_statistics()
    table.commit()
    return table


def test_every_file_comes_once(table: TableFiles) -> None:
    # the third append wrote a data file that its own manifest does not name
    orphan = [location for location in table.written if location.endswith("4-0.parquet")]
    found = [file.location for file in walk(table)]
    assert len(found) == len(set(found))
    assert set(found) == set(table.written) - set(orphan)


def test_leaves_come_first_and_the_root_last(table: TableFiles) -> None:
    found = walk(table)
    position = {file.location: index for index, file in enumerate(found)}
    for file in found[:-1]:
        assert file.parent is not None
        assert position[file.location] < position[file.parent]
    assert found[-1] == ReachableFile(table.metadata_location, FileKind.ROOT_METADATA, None)
    assert all(file.complete for file in found)


def test_kinds(table: TableFiles) -> None:
    kinds = [file.kind for file in walk(table)]
    assert {kind: kinds.count(kind) for kind in FileKind} == {
        FileKind.DATA: 5,
        FileKind.MANIFEST: 2,
        FileKind.MANIFEST_LIST: 2,
        FileKind.STATISTICS: 2,
        FileKind.OLD_METADATA: 2,
        FileKind.ROOT_METADATA: 1,
    }


def test_a_manifest_of_several_snapshots_is_read_once(files: FileIO, warehouse: str) -> None:
    table = TableFiles(files, f"{warehouse}/t")
    for _ in range(10):
        table.append()
    table.commit()
    before = files.counters.counts
    found = walk(table)
    assert (files.counters.counts - before).reads == 20
    assert len(found) == 31


def test_version_1_snapshots_name_their_manifests(files: FileIO, warehouse: str) -> None:
    table = TableFiles(files, f"{warehouse}/t")
    data = table.write(table.path("data/a.parquet"))
    manifest = table.manifest(data)
    document = json.loads(table.document())
    document["snapshots"] = [
        {"snapshot-id": 1, "timestamp-ms": 1, "manifests": [manifest], "summary": {"operation": "append"}}
    ]
    metadata = TableMetadata.parse(json.dumps(document).encode())
    found = list(ReachableFiles(everywhere(files), table.path("metadata/v1.json"), metadata))
    assert [(file.location, file.kind) for file in found[:2]] == [
        (data, FileKind.DATA),
        (manifest, FileKind.MANIFEST),
    ]
    assert found[1].parent == table.path("metadata/v1.json")


def test_missing_manifests_and_lists_are_reported(table: TableFiles) -> None:
    manifest = next(location for location in table.written if "/m" in location[-9:])
    manifest_list = table.snapshots[0]["manifest-list"]
    table.files.delete(manifest)
    table.files.delete(manifest_list)
    reachable = ReachableFiles(everywhere(table.files), table.metadata_location, table.metadata())
    found = [file.location for file in reachable]
    assert sorted(reachable.missing) == sorted([manifest, manifest_list])
    assert manifest not in found
    assert table.metadata_location in found
    assert not reachable.unreadable


def test_what_leads_to_an_unreadable_file_is_incomplete(files: FileIO, warehouse: str) -> None:
    table = TableFiles(files, f"{warehouse}/t")
    broken = table.manifest(data=b"broken")
    table.append(manifest=broken)
    table.append()
    table.commit()
    reachable = ReachableFiles(everywhere(files), table.metadata_location, table.metadata())
    incomplete = {file.location for file in reachable if not file.complete}
    # the second list names the broken manifest too, but the first one already leads to it
    assert incomplete == {broken, table.snapshots[0]["manifest-list"], table.metadata_location}
    assert [item.location for item in reachable.unreadable] == [broken]


def test_a_root_that_calls_itself_a_data_file_comes_last(files: FileIO, warehouse: str) -> None:
    table = TableFiles(files, f"{warehouse}/t")
    root = table.path("metadata/root.metadata.json")
    table.append(root)
    table.commit(root)
    found = walk(table)
    assert [file.location for file in found].count(root) == 1
    assert found[-1].location == root


def test_aliases_are_one_file(files: FileIO, warehouse: str) -> None:
    table = TableFiles(files, f"{warehouse}/t")
    data = table.write(table.path("data/a.parquet"))
    table.append(data, data.removeprefix("file://"), data.replace("/data/", "//data/"))
    table.commit()
    assert [file.location for file in walk(table) if file.kind == FileKind.DATA] == [data]


def test_nothing_outside_the_allowed_locations_is_read(files: FileIO, tmp_path: Path, warehouse: str) -> None:
    outside = TableFiles(files, f"{tmp_path.as_uri()}/elsewhere")
    inside = TableFiles(files, f"{warehouse}/t")
    foreign = outside.manifest(inside.write(inside.path("data/a.parquet")))
    inside.append(manifest=foreign)
    inside.commit()
    reachable = ReachableFiles(storage_at([warehouse], files), inside.metadata_location, inside.metadata())
    assert inside.path("data/a.parquet") not in [file.location for file in reachable]
    assert reachable.unreachable == [foreign]


def test_a_broken_document_raises(files: FileIO, warehouse: str) -> None:
    table = TableFiles(files, f"{warehouse}/t")
    document = json.loads(table.document()) | {"snapshots": [{"snapshot-id": "one"}]}
    metadata = TableMetadata.parse(json.dumps(document).encode())
    with pytest.raises(InvalidMetadataError):
        list(ReachableFiles(everywhere(files), table.path("m.json"), metadata))


def test_one_large_manifest_is_in_memory_at_a_time(files: FileIO, warehouse: str) -> None:
    held: list[str] = []

    @contextmanager
    def large_file() -> Iterator[None]:
        held.append("begin")
        yield
        held.append("end")

    table = TableFiles(files, f"{warehouse}/t")
    table.append(count=1)
    # hexadecimal digits shrink to half of their size
    digits = random.Random(1).randbytes(9 << 20).hex()
    table.append(*(f"{warehouse}/t/data/{digits[i : i + 8_000]}" for i in range(0, len(digits), 8_000)))
    reader = ManifestReader(everywhere(files), large_file=large_file())
    with LocationSet() as seen:
        small, large = (list(reader.files_of(each, None, seen)) for each in table.manifests)
    assert [file.kind for file in small] == [FileKind.DATA, FileKind.MANIFEST]
    *data, manifest = large
    assert {file.kind for file in data} == {FileKind.DATA}
    assert manifest.size_bytes > 8 << 20
    assert held == ["begin", "end"]
