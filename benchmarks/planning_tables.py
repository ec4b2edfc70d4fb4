"""Large tables for benchmarks of scan plans: metadata, a manifest list and manifests, without data files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from floecat.iceberg.file_metrics import ColumnMetrics, FileMetrics
from floecat.iceberg.manifests.lists import ManifestFile, write_manifest_list
from floecat.iceberg.manifests.reader import FileContent
from floecat.iceberg.manifests.writer import ManifestRows, write_manifest
from floecat.iceberg.schemas.partitioning import PartitionField, PartitionSpec
from floecat.iceberg.schemas.schema import Schema, parse_schema
from floecat.iceberg.schemas.single_values import encode
from floecat.iceberg.schemas.types import PrimitiveType

__all__ = ["DAYS", "FILE_ROWS", "write_table"]

DAYS = 28
FILE_ROWS = 1000
_FIRST_DAY = 19723
_DOUBLES = range(4, 12)
_SPEC = PartitionSpec(0, (PartitionField("day", "identity", 2, 1000),))
_TYPES = {1: "long", 2: "date", 3: "string"} | dict.fromkeys(_DOUBLES, "double")


def write_table(folder: Path, *, files: int, manifests: int, is_clustered: bool) -> str:
    """Writes a table, and returns the location of its metadata file.

    `id` is sorted over all files, `c0` to `c7` are not; a partition is a day.

    Args:
        folder: where it will be.
        files: how many data files it names.
        manifests: how many manifests name them.
        is_clustered: whether a manifest has files of one day or two, rather than of all days.
    """
    folder.mkdir(parents=True)
    schema = _schema()
    per_manifest = files // manifests
    listed = [
        _manifest(folder, schema, number, per_manifest, number * DAYS // manifests if is_clustered else None)
        for number in range(manifests)
    ]
    data = write_manifest_list(
        listed, snapshot_id=1, parent_snapshot_id=None, sequence_number=1, format_version=2
    )
    manifest_list = _write(folder / "list.avro", data)
    return _write(folder / "00000.metadata.json", _metadata(folder, schema, manifest_list))


def _schema() -> Schema:
    fields = [{"id": id, "name": _name(id), "required": False, "type": type} for id, type in _TYPES.items()]
    return parse_schema(json.dumps({"type": "struct", "schema-id": 0, "fields": fields}).encode())


def _name(id: int) -> str:
    return {1: "id", 2: "day", 3: "cat"}.get(id, f"c{id - 4}")


def _manifest(folder: Path, schema: Schema, number: int, size: int, day: int | None) -> ManifestFile:
    files = np.arange(number * size, (number + 1) * size)
    days = _FIRST_DAY + (np.arange(size) % DAYS if day is None else np.full(size, day))
    partitions = pa.StructArray.from_arrays([pa.array(days, pa.int32()).cast(pa.date32())], ["day"])
    ones = np.ones(size, np.int64)
    paths = [
        f"file://{folder}/data/day={day}/part-{file:08}.parquet"
        for file, day in zip(files, days, strict=True)
    ]
    rows = ManifestRows(
        FileContent.DATA, "parquet", np.ones(size, np.uint8), ones, ones, pa.array(paths),
        1_000_000 + files, _metrics(files, days), partitions,
    )  # fmt: skip
    made = write_manifest(
        rows, schema=schema, spec=_SPEC, partition_types=[PrimitiveType("date")], format_version=2
    )
    path = _write(folder / f"m{number}.avro", made.data)
    return made.manifest_file(path, snapshot_id=1, sequence_number=1)


def _metrics(files: npt.NDArray[np.int64], days: npt.NDArray[np.int64]) -> FileMetrics:
    counts = pa.array(np.full(len(files), FILE_ROWS))
    nulls = pa.array(np.zeros(len(files), np.int64))
    unsorted = (files * 7919 % 1_000_003).astype(np.float64)
    names = pa.array([f"c{file % 97}" for file in files.tolist()])
    bounds = {
        1: (pa.array(files * FILE_ROWS), pa.array(files * FILE_ROWS + FILE_ROWS - 1)),
        2: (pa.array(days, pa.int32()), pa.array(days, pa.int32())),
        3: (names, names),
        **dict.fromkeys(_DOUBLES, (pa.array(unsorted), pa.array(unsorted + 1000))),
    }
    columns = [
        ColumnMetrics(id, counts, nulls, *(encode(each, PrimitiveType(_TYPES[id])) for each in bounds[id]))
        for id in _TYPES
    ]
    return FileMetrics(counts, tuple(columns))


def _metadata(folder: Path, schema: Schema, manifest_list: str) -> bytes:
    document = {
        "format-version": 2,
        "table-uuid": "c9b1f1c3-25a1-4a5c-8f6b-3f1d5d3b2a10",
        "location": f"file://{folder}",
        "last-sequence-number": 1,
        "last-updated-ms": 1,
        "last-column-id": 11,
        "schemas": [json.loads(schema.raw)],
        "current-schema-id": 0,
        "partition-specs": [
            {
                "spec-id": 0,
                "fields": [{"name": "day", "transform": "identity", "source-id": 2, "field-id": 1000}],
            }
        ],
        "default-spec-id": 0,
        "last-partition-id": 1000,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": {},
        "current-snapshot-id": 1,
        "snapshots": [
            {
                "snapshot-id": 1,
                "sequence-number": 1,
                "timestamp-ms": 1,
                "manifest-list": manifest_list,
                "schema-id": 0,
                "summary": {"operation": "append"},
            }
        ],
        "refs": {"main": {"snapshot-id": 1, "type": "branch"}},
    }
    return json.dumps(document).encode()


def _write(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return f"file://{path}"
