from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestContent
from pyiceberg.manifest import ManifestFile as PyIcebergManifestFile
from pyiceberg.manifest import read_manifest_list as pyiceberg_read_manifest_list
from pyiceberg.manifest import write_manifest_list as pyiceberg_write_manifest_list

from floecat.errors import BoundExceededError, InvalidMetadataError
from floecat.iceberg.manifests.lists import (
    DATA_MANIFEST,
    DELETE_MANIFEST,
    ManifestFile,
    assign_row_ids,
    read_manifest_list,
    write_manifest_list,
)
from floecat.iceberg.manifests.partition_tuples import PartitionSummary
from floecat.iceberg.values.bounds import Bounds
from tests.unit.iceberg.manifest_bytes import LIST_FIELDS, manifest_list_bytes
from tests.unit.iceberg.manifest_samples import SampleFile, Table, read_entries, read_metadata

LOCATION = "s3://bucket/t/metadata/snap-1.avro"


@pytest.mark.parametrize("format_version", [1, 2])
def test_reads_what_pyiceberg_writes(tmp_path: Path, format_version: Any) -> None:
    path = str(tmp_path / "snap.avro")
    output = PyArrowFileIO().new_output(path)
    with pyiceberg_write_manifest_list(format_version, output, 7, None, 3, "deflate") as writer:
        writer.add_manifests(
            [
                PyIcebergManifestFile.from_args(
                    manifest_path=f"s3://bucket/t/metadata/m{i}.avro",
                    manifest_length=1234,
                    partition_spec_id=2,
                    content=ManifestContent.DATA,
                    sequence_number=3,
                    min_sequence_number=3,
                    added_snapshot_id=7,
                    added_files_count=i,
                    existing_files_count=0,
                    deleted_files_count=0,
                    added_rows_count=10,
                    existing_rows_count=0,
                    deleted_rows_count=0,
                    partitions=[],
                )
                for i in range(3)
            ]
        )
    manifests = list(read_manifest_list(Path(path).read_bytes(), location=LOCATION))
    assert [item.manifest_path[-7:] for item in manifests] == ["m0.avro", "m1.avro", "m2.avro"]
    assert [item.added_files_count for item in manifests] == [0, 1, 2]
    assert (manifests[0].manifest_length, manifests[0].partition_spec_id) == (1234, 2)
    assert manifests[0].added_snapshot_id == 7
    assert manifests[0].sequence_number == (0 if format_version == 1 else 3)


def test_reads_a_version_3_list() -> None:
    data = manifest_list_bytes(
        [{"manifest_path": "a", "first_row_id": 0}, {"manifest_path": "b", "content": 1}]
    )
    first, second = read_manifest_list(data, location=LOCATION)
    assert (first.content, first.first_row_id) == (DATA_MANIFEST, 0)
    assert (second.content, second.first_row_id) == (DELETE_MANIFEST, None)


def test_reads_what_partitions_span() -> None:
    summary = {"contains_null": True, "contains_nan": False, "lower_bound": b"\x01", "upper_bound": None}
    data = manifest_list_bytes(
        [
            {"manifest_path": "a", "partitions": [summary, {"contains_null": False}]},
            {"manifest_path": "b", "partitions": []},
            {"manifest_path": "c", "partitions": None},
        ]
    )
    assert [item.partitions for item in read_manifest_list(data, location=LOCATION)] == [
        (PartitionSummary(True, False, b"\x01", None), PartitionSummary(contains_null=False)),
        (),
        None,
    ]


def test_reads_version_1_lists_of_old_writers() -> None:
    kept = {"manifest_path", "manifest_length", "partition_spec_id", "added_snapshot_id", "added_files_count"}
    fields = copy.deepcopy([field for field in LIST_FIELDS if field["name"] in kept])
    fields[-1]["name"] = "added_data_files_count"
    data = manifest_list_bytes([{"manifest_path": "a", "added_data_files_count": 4}], fields=fields)
    (only,) = read_manifest_list(data, location=LOCATION)
    assert (only.added_files_count, only.existing_files_count, only.content) == (4, None, DATA_MANIFEST)


def test_an_empty_list() -> None:
    assert list(read_manifest_list(manifest_list_bytes([]), location=LOCATION)) == []


def test_a_path_beyond_the_default() -> None:
    longest = "s" * Bounds().location_bytes
    assert (
        len(list(read_manifest_list(manifest_list_bytes([{"manifest_path": longest}]), location=LOCATION)))
        == 1
    )
    data = manifest_list_bytes([{"manifest_path": f"{longest}s"}])
    with pytest.raises(BoundExceededError, match=r"8,192 \(floecat\.limits\.location-bytes\)"):
        list(read_manifest_list(data, location=LOCATION))


def test_a_missing_path_is_named() -> None:
    fields = [field for field in LIST_FIELDS if field["name"] != "manifest_path"]
    with pytest.raises(InvalidMetadataError, match="manifest_path"):
        list(read_manifest_list(manifest_list_bytes([{}], fields=fields), location=LOCATION))


def test_a_negative_length_is_damage() -> None:
    data = manifest_list_bytes([{"manifest_path": "SECRET", "manifest_length": -1}])
    with pytest.raises(InvalidMetadataError, match="damaged: manifest_length of an entry is negative"):
        list(read_manifest_list(data, location=LOCATION))


@pytest.mark.parametrize("data", [b"", b"not avro", b"Obj\x01\x00"])
def test_refuses_other_files(data: bytes) -> None:
    with pytest.raises(InvalidMetadataError, match=f"^Cannot read manifest list {re.escape(LOCATION)}: "):
        list(read_manifest_list(data, location=LOCATION))


DATA = ManifestFile(
    manifest_path="s3://b/t/metadata/m0.avro",
    manifest_length=1234,
    partition_spec_id=2,
    sequence_number=4,
    min_sequence_number=1,
    added_snapshot_id=3,
    added_files_count=1,
    existing_files_count=2,
    deleted_files_count=3,
    added_rows_count=10,
    existing_rows_count=200,
    deleted_rows_count=3000,
    partitions=(
        PartitionSummary(contains_null=True, contains_nan=None, lower_bound=b"a", upper_bound=b"\xff"),
        PartitionSummary(contains_null=False, contains_nan=False),
    ),
)
DELETES = msgspec.structs.replace(
    DATA, manifest_path="s3://b/t/metadata/d0.avro", content=DELETE_MANIFEST, partitions=()
)
COUNT = st.integers(0, 2**31 - 1)
LONG = st.integers(0, 2**63 - 1)
BOUND = st.one_of(st.none(), st.binary(max_size=9))
SUMMARY = st.builds(
    PartitionSummary, st.booleans(), st.one_of(st.none(), st.booleans()), lower_bound=BOUND, upper_bound=BOUND
)


def manifest_files(format_version: int) -> st.SearchStrategy[ManifestFile]:
    made = st.builds(
        ManifestFile,
        manifest_path=st.text(max_size=30),
        manifest_length=LONG,
        partition_spec_id=COUNT,
        content=st.sampled_from([DATA_MANIFEST, DELETE_MANIFEST]),
        sequence_number=LONG,
        min_sequence_number=LONG,
        added_snapshot_id=LONG,
        added_files_count=COUNT,
        existing_files_count=COUNT,
        deleted_files_count=COUNT,
        added_rows_count=LONG,
        existing_rows_count=LONG,
        deleted_rows_count=LONG,
        partitions=st.one_of(st.none(), st.lists(SUMMARY, max_size=3).map(tuple)),
    )
    if format_version == 2:
        return made
    return st.tuples(made, LONG).map(
        lambda drawn: msgspec.structs.replace(
            drawn[0], first_row_id=drawn[1] if drawn[0].content == DATA_MANIFEST else None
        )
    )


def write(manifests: list[ManifestFile], format_version: int = 2, **arguments: Any) -> bytes:
    defaults = {"snapshot_id": 3, "parent_snapshot_id": 2, "sequence_number": 4}
    if format_version == 3:
        defaults["first_row_id"] = 1000
    return write_manifest_list(manifests, format_version=format_version, **defaults | arguments)


@given(
    st.sampled_from([2, 3]).flatmap(
        lambda version: st.tuples(st.just(version), st.lists(manifest_files(version)))
    )
)
def test_any_list_is_read_back(drawn: tuple[int, list[ManifestFile]]) -> None:
    format_version, manifests = drawn
    data = write(manifests, format_version)
    assert list(read_manifest_list(data, location=LOCATION)) == manifests
    assert data == write(manifests, format_version)


@pytest.mark.parametrize(
    ("format_version", "parent", "wanted"),
    [(2, 0, {"parent-snapshot-id": "0"}), (3, None, {"parent-snapshot-id": "null", "first-row-id": "1000"})],
)
def test_the_header(format_version: int, parent: int | None, wanted: dict[str, str]) -> None:
    metadata = read_metadata(write([], format_version, parent_snapshot_id=parent, snapshot_id=0))
    assert json.loads(metadata.pop("avro.schema"))["name"] == "manifest_file"
    assert metadata == wanted | {
        "avro.codec": "deflate",
        "snapshot-id": "0",
        "sequence-number": "4",
        "format-version": str(format_version),
    }


def test_ids_of_the_specification() -> None:
    wanted = [500, 501, 502, 517, 515, 516, 503, 504, 505, 506, 512, 513, 514, 507, 519]
    for format_version in (2, 3):
        fields = json.loads(read_metadata(write([], format_version))["avro.schema"])["fields"]
        assert [field["field-id"] for field in fields] == wanted + ([520] if format_version == 3 else [])
        summary = next(field["type"][1] for field in fields if field["name"] == "partitions")
        assert summary["element-id"] == 508
        assert [field["field-id"] for field in summary["items"]["fields"]] == [509, 518, 510, 511]


def test_row_ids() -> None:
    assigned = msgspec.structs.replace(DATA, first_row_id=7)
    manifests, next_row_id = assign_row_ids([DATA, DELETES, assigned, DATA], 1000)
    assert [manifest.first_row_id for manifest in manifests] == [1000, None, 7, 1210]
    assert next_row_id == 1420
    (first, *_) = read_entries(write(list(manifests), 3))
    assert first["first_row_id"] == 1000


@pytest.mark.parametrize("format_version", [2, 3])
def test_pyiceberg_reads_lists_and_manifests(tmp_path: Path, format_version: int) -> None:
    table = Table(("int", "string"), format_version=format_version, spec_id=2)
    path = tmp_path / "m.avro"
    files = [SampleFile(f"s3://b/{number}.parquet", partition=(number, "x")) for number in range(3)]
    manifest = table.write(files)
    path.write_bytes(manifest.data)
    listed = [manifest.manifest_file(str(path), snapshot_id=0, sequence_number=1)]
    if format_version == 3:
        listed = list(assign_row_ids(listed, 0).manifests)
    data = write(listed, format_version, snapshot_id=0, parent_snapshot_id=None, sequence_number=1)
    list_path = tmp_path / "snap.avro"
    list_path.write_bytes(data)
    io = PyArrowFileIO()
    (read,) = pyiceberg_read_manifest_list(io.new_input(str(list_path)))
    assert (read.manifest_path, read.manifest_length) == (str(path), len(manifest.data))
    assert (read.content, read.partition_spec_id) == (ManifestContent.DATA, 2)
    assert (read.sequence_number, read.min_sequence_number, read.added_snapshot_id) == (1, 1, 0)
    assert (read.added_files_count, read.existing_files_count, read.deleted_files_count) == (3, 0, 0)
    assert (read.added_rows_count, read.existing_rows_count, read.deleted_rows_count) == (30, 0, 0)
    first, second = read.partitions
    assert (first.contains_null, first.contains_nan) == (False, False)
    assert (first.lower_bound, first.upper_bound) == (bytes(4), b"\x02\x00\x00\x00")
    assert (second.lower_bound, second.upper_bound) == (b"x", b"x")
    entries = read.fetch_manifest_entry(io)
    assert [entry.data_file.file_path for entry in entries] == [file.path for file in files]


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match=r"counts of manifest .*m0.avro are unknown"):
        write([msgspec.structs.replace(DATA, existing_rows_count=None)])
    with pytest.raises(ValueError, match=r"row counts of manifest .*m0.avro are unknown"):
        assign_row_ids([msgspec.structs.replace(DATA, existing_rows_count=None)], 0)
    with pytest.raises(ValueError, match="have no ids"):
        write([DATA], 3)
    with pytest.raises(ValueError, match="format version 1"):
        write([DATA], 1)
    with pytest.raises(ValueError, match="such row ids"):
        write([], 2, first_row_id=0)
    with pytest.raises(ValueError, match="such row ids"):
        write([], 3, first_row_id=None)
