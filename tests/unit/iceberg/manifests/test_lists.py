from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestContent, write_manifest_list
from pyiceberg.manifest import ManifestFile as PyIcebergManifestFile

from floecat.errors import InvalidMetadataError
from floecat.iceberg.manifests.lists import (
    DATA_MANIFEST,
    DELETE_MANIFEST,
    PartitionSummary,
    read_manifest_list,
)
from tests.unit.iceberg.manifest_bytes import LIST_FIELDS, manifest_list_bytes

LOCATION = "s3://bucket/t/metadata/snap-1.avro"


@pytest.mark.parametrize("format_version", [1, 2])
def test_reads_what_pyiceberg_writes(tmp_path: Path, format_version: Any) -> None:
    path = str(tmp_path / "snap.avro")
    output = PyArrowFileIO().new_output(path)
    with write_manifest_list(format_version, output, 7, None, 3, "deflate") as writer:
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


def test_a_missing_path_is_named() -> None:
    fields = [field for field in LIST_FIELDS if field["name"] != "manifest_path"]
    with pytest.raises(InvalidMetadataError, match="manifest_path"):
        list(read_manifest_list(manifest_list_bytes([{}], fields=fields), location=LOCATION))


@pytest.mark.parametrize("data", [b"", b"not avro", b"Obj\x01\x00"])
def test_refuses_other_files(data: bytes) -> None:
    with pytest.raises(InvalidMetadataError, match=f"^Cannot read manifest list {re.escape(LOCATION)}: "):
        list(read_manifest_list(data, location=LOCATION))
