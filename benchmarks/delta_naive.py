"""A Delta table as an Iceberg snapshot by libraries alone: deltalake reads, PyIceberg writes.

Every file of the log becomes a `DataFile` of PyIceberg and an entry of its manifest writer.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry, ManifestEntryStatus
from pyiceberg.manifest import write_manifest as write_iceberg_manifest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

__all__ = ["NaiveCost", "naive_adds", "naive_vectors"]


@dataclass(frozen=True)
class NaiveCost:
    """What the naive way costs, on one core.

    Attributes:
        read_s: reading the log, for all files.
        write_s: writing the entries of some files.
        written: how many those were.
        files: how many there are.
    """

    read_s: float
    write_s: float
    written: int
    files: int

    @property
    def files_per_s(self) -> float:
        """Files per second if the others cost as much as those that were written."""
        return self.files / (self.read_s + self.write_s * self.files / self.written)


def naive_adds(table: Path, most: int) -> NaiveCost:
    """Reads a log, and writes the entries of some of its files.

    Args:
        table: a table with whole numbers in columns `col_<n>` and one partition column.
        most: how many entries are written.
    """
    begin = time.process_time()
    delta = deltalake.DeltaTable(str(table))
    adds = pa.table(delta.get_add_actions(flatten=True))
    read_s = time.process_time() - begin
    schema = Schema(
        NestedField(1, "partition_col", StringType(), required=False),
        *(NestedField(number + 2, f"col_{number}", LongType(), required=False) for number in range(100)),
    )
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "partition_col"))
    begin = time.process_time()
    chosen = adds.slice(0, most)
    files = [_data_file(table, row, schema) for row in chosen.to_pylist()]
    _write_manifest(table.parent / "naive.avro", schema, spec, files)
    return NaiveCost(read_s, time.process_time() - begin, len(files), len(adds))


def _data_file(table: Path, row: dict[str, Any], schema: Schema) -> DataFile:
    counts, nulls, lower, upper = {}, {}, {}, {}
    rows = row.get("num_records")
    for field in schema.fields:
        if row.get(f"null_count.{field.name}") is not None:
            nulls[field.field_id] = row[f"null_count.{field.name}"]
            counts[field.field_id] = rows
        if row.get(f"min.{field.name}") is not None:
            lower[field.field_id] = _bytes(row[f"min.{field.name}"])
            upper[field.field_id] = _bytes(row[f"max.{field.name}"])
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file://{table}/{row['path']}",
        file_format=FileFormat.PARQUET,
        partition=Record(row.get("partition.partition_col")),
        record_count=-1 if rows is None else rows,
        file_size_in_bytes=row["size_bytes"],
        column_sizes={},
        value_counts=counts,
        null_value_counts=nulls,
        nan_value_counts={},
        lower_bounds=lower,
        upper_bounds=upper,
    )


def _bytes(value: int) -> bytes:
    return value.to_bytes(8, "little", signed=True)


def _write_manifest(target: Path, schema: Schema, spec: PartitionSpec, files: list[DataFile]) -> None:
    output = PyArrowFileIO().new_output(str(target))
    with write_iceberg_manifest(2, spec, schema, output, 1, "deflate") as writer:
        for file in files:
            entry = ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED, snapshot_id=1, sequence_number=1, data_file=file
            )
            writer.add_entry(entry)


def naive_vectors(table: Path) -> NaiveCost:
    """Decodes deletion vectors with deltalake and writes them as position deletes, one file each.

    Args:
        table: not of many files: deltalake 1.6.6 blocks for ever on a thousand vectors.
    """
    import pyarrow.parquet as pq

    begin = time.process_time()
    delta = deltalake.DeltaTable(str(table))
    vectors = pa.table(delta.deletion_vectors())
    read_s = time.process_time() - begin
    folder = table.parent / "naive-deletes"
    folder.mkdir(exist_ok=True)
    schema = Schema(
        NestedField(1, "id", LongType(), required=False),
        NestedField(2, "value", DoubleType(), required=False),
    )
    begin = time.process_time()
    files = []
    for number, row in enumerate(vectors.to_pylist()):
        positions = [position for position, kept in enumerate(row["selection_vector"]) if not kept]
        deletes = pa.table({"file_path": [row["filepath"]] * len(positions), "pos": positions})
        target = folder / f"{number}.parquet"
        pq.write_table(deletes, target)
        files.append(_delete_file(target, len(positions)))
    _write_manifest(table.parent / "naive-deletes.avro", schema, PartitionSpec(), files)
    return NaiveCost(read_s, time.process_time() - begin, len(files), len(files))


def _delete_file(target: Path, rows: int) -> DataFile:
    return DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=f"file://{target}",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=rows,
        file_size_in_bytes=target.stat().st_size,
        column_sizes={},
        value_counts={},
        null_value_counts={},
        nan_value_counts={},
        lower_bounds={},
        upper_bounds={},
    )
