from __future__ import annotations

import copy
import random
import re
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile as PyIcebergDataFile
from pyiceberg.manifest import DataFileContent, FileFormat, write_manifest
from pyiceberg.manifest import ManifestEntry as PyIcebergEntry
from pyiceberg.manifest import ManifestEntryStatus as PyIcebergStatus
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import IntegerType, NestedField

from floecat.errors import InvalidMetadataError
from floecat.iceberg.manifests.reader import (
    FileContent,
    ManifestEntryStatus,
    read_file_paths,
    read_manifest,
)
from tests.unit.iceberg.manifest_bytes import ENTRY_FIELDS, entry, manifest_bytes

LOCATION = "s3://bucket/t/metadata/m0.avro"


@pytest.mark.parametrize("format_version", [1, 2])
@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_reads_what_pyiceberg_writes(tmp_path: Path, format_version: Any, codec: Any) -> None:
    path = str(tmp_path / "m.avro")
    output = PyArrowFileIO().new_output(path)
    schema = Schema(NestedField(1, "n", IntegerType(), required=False))
    with write_manifest(format_version, PartitionSpec(), schema, output, 77, codec) as writer:
        for name, content in (("a", DataFileContent.DATA), ("b", DataFileContent.DATA)):
            writer.add_entry(
                PyIcebergEntry.from_args(
                    status=PyIcebergStatus.ADDED,
                    snapshot_id=77,
                    sequence_number=None,
                    file_sequence_number=None,
                    data_file=PyIcebergDataFile.from_args(
                        content=content,
                        file_path=f"s3://bucket/t/data/{name}.parquet",
                        file_format=FileFormat.PARQUET,
                        partition=Record(),
                        record_count=3,
                        file_size_in_bytes=400,
                        column_sizes={1: 10},
                        value_counts={1: 3},
                        null_value_counts={1: 0},
                        nan_value_counts={},
                        lower_bounds={1: b"\x01"},
                        upper_bounds={1: b"\x02"},
                    ),
                )
            )
    data = Path(path).read_bytes()
    entries = list(read_manifest(data, location=LOCATION))
    assert [item.data_file.file_path[-9:] for item in entries] == ["a.parquet", "b.parquet"]
    first = entries[0]
    assert first.status is ManifestEntryStatus.ADDED
    assert first.snapshot_id == 77
    assert first.data_file.content is FileContent.DATA
    assert (first.data_file.file_format, first.data_file.record_count) == ("PARQUET", 3)
    assert first.data_file.file_size_in_bytes == 400
    assert list(read_file_paths(data, location=LOCATION)) == [item.data_file.file_path for item in entries]


def test_reads_deletes_and_deletion_vectors() -> None:
    data = manifest_bytes(
        [
            entry("s3://b/d.parquet", status=0, first_row_id=12),
            entry("s3://b/p.parquet", content=1),
            entry("s3://b/e.parquet", content=2, status=2),
            entry(
                "s3://b/dv.puffin",
                content=1,
                file_format="PUFFIN",
                referenced_data_file="s3://b/d.parquet",
                content_offset=4,
                content_size_in_bytes=40,
            ),
        ]
    )
    entries = list(read_manifest(data, location=LOCATION))
    assert [item.status for item in entries] == [0, 1, 2, 1]
    assert [item.data_file.content for item in entries] == [0, 1, 2, 1]
    assert entries[0].data_file.first_row_id == 12
    vector = entries[3].data_file
    assert (vector.file_path, vector.file_format) == ("s3://b/dv.puffin", "PUFFIN")
    assert (vector.referenced_data_file, vector.content_offset, vector.content_size_in_bytes) == (
        "s3://b/d.parquet",
        4,
        40,
    )


def test_paths_of_deleted_files_are_paths_too() -> None:
    data = manifest_bytes([entry("a", status=0), entry("b", status=1), entry("c", status=2)])
    assert list(read_file_paths(data, location=LOCATION)) == ["a", "b", "c"]


def without(fields: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    return [field for field in fields if field["name"] not in names]


def test_fields_are_found_by_id_whatever_their_name() -> None:
    fields = copy.deepcopy(ENTRY_FIELDS)
    data_file = fields[-1]
    data_file["name"] = "file"
    data_file["type"]["fields"][1]["name"] = "path"
    written = entry("s3://b/a.parquet")
    written["file"] = written.pop("data_file")
    written["file"]["path"] = written["file"].pop("file_path")
    data = manifest_bytes([written], fields=fields)
    assert [item.data_file.file_path for item in read_manifest(data, location=LOCATION)] == [
        "s3://b/a.parquet"
    ]
    assert list(read_file_paths(data, location=LOCATION)) == ["s3://b/a.parquet"]


def test_fields_without_ids_are_found_by_name() -> None:
    fields = copy.deepcopy(ENTRY_FIELDS)
    for field in [*fields, *fields[-1]["type"]["fields"]]:
        del field["field-id"]
    data = manifest_bytes([entry("s3://b/a.parquet", status=2)], fields=fields)
    (only,) = read_manifest(data, location=LOCATION)
    assert (only.status, only.data_file.file_path) == (2, "s3://b/a.parquet")


def test_version_1_leaves_content_and_sequence_numbers_out() -> None:
    fields = without(copy.deepcopy(ENTRY_FIELDS), "sequence_number", "file_sequence_number")
    fields[-1]["type"]["fields"] = without(fields[-1]["type"]["fields"], "content", "referenced_data_file")
    (only,) = read_manifest(manifest_bytes([entry("a")], fields=fields), location=LOCATION)
    assert only.data_file.content is FileContent.DATA
    assert only.sequence_number is None


def test_a_missing_required_field_is_named() -> None:
    fields = copy.deepcopy(ENTRY_FIELDS)
    fields[-1]["type"]["fields"] = without(fields[-1]["type"]["fields"], "file_path")
    data = manifest_bytes([entry("SECRET")], fields=fields)
    with pytest.raises(InvalidMetadataError, match="file_path") as caught:
        list(read_manifest(data, location=LOCATION))
    assert LOCATION in caught.value.message
    with pytest.raises(InvalidMetadataError, match="no file path"):
        list(read_file_paths(data, location=LOCATION))


def test_an_unknown_status_is_refused() -> None:
    with pytest.raises(InvalidMetadataError, match="status"):
        list(read_manifest(manifest_bytes([entry("a", status=7)]), location=LOCATION))


@pytest.mark.parametrize("data", [b"", b"Obj\x01", b"PAR1 is parquet", b"{}", b"Obj\x01" + b"\xff" * 200])
def test_refuses_other_files(data: bytes) -> None:
    for read in (read_manifest, read_file_paths):
        with pytest.raises(InvalidMetadataError, match=f"^Cannot read manifest {re.escape(LOCATION)}: "):
            list(read(data, location=LOCATION))  # type: ignore[operator]


def test_refuses_an_avro_file_of_something_else() -> None:
    fields = [{"name": "x", "type": "int", "field-id": 9}]
    with pytest.raises(InvalidMetadataError):
        list(read_file_paths(manifest_bytes([{"x": 1}], fields=fields), location=LOCATION))


def test_damage_is_reported_without_contents() -> None:
    """Every kind of damage ends in the one error that callers handle, or goes unnoticed; nothing else."""
    data = manifest_bytes([entry(f"s3://SECRET/{i}.parquet") for i in range(50)], codec="null")
    source = random.Random(5)
    errors: list[InvalidMetadataError] = []
    for _ in range(400):
        damaged = bytearray(data)
        if source.random() < 0.3:
            damaged = damaged[: source.randrange(len(damaged))]
        else:
            for _ in range(source.randrange(1, 8)):
                damaged[source.randrange(len(damaged))] = source.randrange(256)
        try:
            list(read_manifest(bytes(damaged), location=LOCATION))
        except InvalidMetadataError as error:
            errors.append(error)
    assert len(errors) > 100
    assert all("SECRET" not in error.message and error.__cause__ is None for error in errors)


def test_a_reader_that_stops_early_costs_nothing() -> None:
    entries = read_manifest(manifest_bytes(entry(str(i)) for i in range(1000)), location=LOCATION)
    assert next(entries).data_file.file_path == "0"
    entries.close()  # type: ignore[attr-defined]


def test_memory_is_bounded_by_the_block_not_the_file() -> None:
    data = manifest_bytes(entry(f"s3://bucket/table/data/{i:08}.parquet") for i in range(25_000))
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_file_paths(data, location=LOCATION)) == 25_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # the paths alone are 25,000 times 84 bytes
    assert peak - len(data) * 2 < 1_500_000
