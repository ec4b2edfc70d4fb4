"""Manifest entries as rows: turned into columns for the writers, and read back from what they wrote."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from io import BytesIO
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from floecat.iceberg.file_metrics import ColumnMetrics, FileMetrics
from floecat.iceberg.manifests.reader import FileContent
from floecat.iceberg.manifests.writer import EncodedManifest, ManifestRows, write_manifest
from floecat.iceberg.schemas.partitioning import PartitionField, PartitionSpec
from floecat.iceberg.schemas.schema import Schema, parse_schema
from floecat.iceberg.schemas.types import PrimitiveType, parse_primitive

__all__ = [
    "METRICS",
    "SampleFile",
    "Table",
    "arrow_values",
    "avro_value",
    "comparable",
    "read_entries",
    "read_metadata",
]

METRICS = ("value_counts", "null_value_counts", "lower_bounds", "upper_bounds")


@dataclass(frozen=True)
class SampleFile:
    """An entry of a manifest."""

    path: str
    status: int = 1
    snapshot_id: int = 7
    sequence_number: int = 8
    partition: tuple[Any, ...] = ()
    records: int = 10
    size: int = 1000
    metrics: Mapping[str, Mapping[int, Any]] = field(default_factory=dict)
    referenced: str | None = None
    content_range: tuple[int, int] | None = None
    first_row_id: int | None = None

    def entry(self, table: Table, content: FileContent, file_format: str) -> dict[str, Any]:
        """The entry as it should be read, logical types undone."""
        data_file = {
            "content": int(content),
            "file_path": self.path,
            "file_format": file_format.upper(),
            "partition": {
                name: avro_value(type, value)
                for name, type, value in zip(
                    table.field_names, table.partition_types, self.partition, strict=True
                )
            },
            "record_count": self.records,
            "file_size_in_bytes": self.size,
            **dict.fromkeys(("column_sizes", "nan_value_counts", "key_metadata", "split_offsets")),
            **dict.fromkeys(("equality_ids", "sort_order_id")),
            **{
                name: [{"key": key, "value": value} for key, value in sorted(known.items())] or None
                if (known := self.metrics.get(name))
                else None
                for name in METRICS
            },
            "referenced_data_file": self.referenced,
        }
        if table.format_version >= 3:
            offset, size = self.content_range or (None, None)
            data_file |= {
                "first_row_id": self.first_row_id,
                "content_offset": offset,
                "content_size_in_bytes": size,
            }
        return {
            "status": self.status,
            "snapshot_id": self.snapshot_id,
            "sequence_number": self.sequence_number,
            "file_sequence_number": self.sequence_number,
            "data_file": data_file,
        }


@dataclass(frozen=True)
class Table:
    """A table with a column, and an identity partition field, for each of some types.

    Values of partitions are Python's, but integers for dates and times, and unscaled ones for decimals.
    """

    types: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    format_version: int = 2
    spec_id: int = 0

    @property
    def schema(self) -> Schema:
        columns = [
            {"id": number + 1, "name": name, "required": False, "type": str(type)}
            for number, (name, type) in enumerate(zip(self.field_names, self.types, strict=True))
        ]
        columns.append({"id": 500, "name": "v", "required": False, "type": "long"})
        return parse_schema(json.dumps({"type": "struct", "schema-id": 4, "fields": columns}).encode())

    @property
    def field_names(self) -> tuple[str, ...]:
        return self.names or tuple(f"p{number}" for number in range(len(self.types)))

    @property
    def spec(self) -> PartitionSpec:
        fields = (
            PartitionField(name, "identity", source_id=number + 1, field_id=1000 + number)
            for number, name in enumerate(self.field_names)
        )
        return PartitionSpec(self.spec_id, tuple(fields))

    @property
    def partition_types(self) -> list[PrimitiveType]:
        return [parse_primitive(type) for type in self.types]

    def rows(
        self,
        files: Sequence[SampleFile],
        content: FileContent = FileContent.DATA,
        file_format: str = "parquet",
    ) -> ManifestRows:
        """The entries by columns."""
        partitions = None
        if self.types:
            partitions = pa.StructArray.from_arrays(
                [
                    arrow_values(type, [file.partition[index] for file in files])
                    for index, type in enumerate(self.partition_types)
                ],
                names=list(self.field_names),
            )
        ranges = [file.content_range for file in files]
        has_ranges = any(ranges)
        return ManifestRows(
            content=content,
            file_format=file_format,
            statuses=np.array([file.status for file in files], np.uint8),
            snapshot_ids=np.array([file.snapshot_id for file in files], np.int64),
            sequence_numbers=np.array([file.sequence_number for file in files], np.int64),
            file_paths=pa.array([file.path for file in files], pa.string()),
            file_sizes=np.array([file.size for file in files], np.int64),
            metrics=_metrics(files),
            partitions=partitions,
            referenced_data_files=None
            if content is FileContent.DATA
            else pa.array([file.referenced for file in files], pa.string()),
            content_offsets=np.array([range[0] for range in ranges if range], np.int64)
            if has_ranges
            else None,
            content_sizes=np.array([range[1] for range in ranges if range], np.int64) if has_ranges else None,
            first_row_ids=pa.array([file.first_row_id for file in files], pa.int64())
            if self.format_version >= 3
            else None,
        )

    def write(
        self,
        files: Sequence[SampleFile],
        content: FileContent = FileContent.DATA,
        file_format: str = "parquet",
    ) -> EncodedManifest:
        """A manifest of these entries."""
        return self.write_rows(self.rows(files, content, file_format))

    def write_rows(self, rows: ManifestRows) -> EncodedManifest:
        """A manifest of this table."""
        return write_manifest(
            rows,
            schema=self.schema,
            spec=self.spec,
            partition_types=self.partition_types,
            format_version=self.format_version,
        )

    def entries(
        self,
        files: Sequence[SampleFile],
        content: FileContent = FileContent.DATA,
        file_format: str = "parquet",
    ) -> list[dict[str, Any]]:
        """What should be read back."""
        return [file.entry(self, content, file_format) for file in files]


_ARROW_TYPES: dict[str, tuple[Any, Any]] = {
    "boolean": (pa.bool_(), pa.bool_()),
    "int": (pa.int32(), pa.int32()),
    "long": (pa.int64(), pa.int64()),
    "float": (pa.float32(), pa.float32()),
    "double": (pa.float64(), pa.float64()),
    "date": (pa.int32(), pa.date32()),
    "time": (pa.int64(), pa.time64("us")),
    "timestamp": (pa.int64(), pa.timestamp("us")),
    "timestamptz": (pa.int64(), pa.timestamp("us", "UTC")),
    "timestamp_ns": (pa.int64(), pa.timestamp("ns")),
    "timestamptz_ns": (pa.int64(), pa.timestamp("ns", "UTC")),
    "string": (pa.string(), pa.string()),
    "binary": (pa.binary(), pa.binary()),
    "uuid": (pa.binary(16), pa.binary(16)),
}


def arrow_values(type: PrimitiveType, values: Sequence[Any]) -> Any:
    """Partition values of an Iceberg type as Arrow has them."""
    if type.name == "decimal":
        precision, scale = (int(parameter) for parameter in type.parameters)
        exact = Context(prec=40)
        decimals = [None if value is None else Decimal(value).scaleb(-scale, exact) for value in values]
        return pa.array(decimals, pa.decimal128(precision, scale))
    if type.name == "fixed":
        return pa.array(values, pa.binary(int(type.parameters[0])))
    plain, logical = _ARROW_TYPES[type.name]
    return pa.array(values, plain).cast(logical)


def avro_value(type: PrimitiveType, value: Any) -> Any:
    """A partition value as Avro has it."""
    if type.name == "decimal" and value is not None:
        digits = int(type.parameters[0])
        return value.to_bytes(
            next(size for size in range(1, 17) if 2 ** (8 * size - 1) >= 10**digits), signed=True
        )
    return value


def _metrics(files: Sequence[SampleFile]) -> FileMetrics:
    ids = sorted({key for file in files for known in file.metrics.values() for key in known})
    types = dict(zip(METRICS, (pa.int64(), pa.int64(), pa.binary(), pa.binary()), strict=True))

    def column(name: str, field_id: int) -> Any:
        values = [file.metrics.get(name, {}).get(field_id) for file in files]
        return None if all(value is None for value in values) else pa.array(values, types[name])

    return FileMetrics(
        pa.array([file.records for file in files], pa.int64()),
        tuple(ColumnMetrics(field_id, *(column(name, field_id) for name in METRICS)) for field_id in ids),
    )


def read_metadata(data: bytes) -> dict[str, str]:
    """The metadata of an Avro file."""
    metadata: dict[str, str] = fastavro.reader(BytesIO(data)).metadata
    return metadata


def read_entries(data: bytes) -> list[dict[str, Any]]:
    """The records of an Avro file as fastavro reads them, logical types undone."""
    schema = fastavro.parse_schema(_without_logical_types(json.loads(read_metadata(data)["avro.schema"])))
    records = []
    for block in fastavro.block_reader(BytesIO(data)):
        content = block.bytes_
        for _ in range(block.num_records):
            records.append(fastavro.schemaless_reader(content, schema, None))
        assert not content.read()
    return records


def comparable(value: Any) -> Any:
    """The same with floats as text: NaN is not equal to itself, and zero equal to minus zero."""
    if isinstance(value, dict):
        return {key: comparable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [comparable(item) for item in value]
    return repr(value) if isinstance(value, float) else value


def _without_logical_types(schema: Any) -> Any:
    schema = copy.deepcopy(schema)
    if isinstance(schema, list):
        return [_without_logical_types(branch) for branch in schema]
    if isinstance(schema, dict):
        return {key: _without_logical_types(value) for key, value in schema.items() if key != "logicalType"}
    return schema
