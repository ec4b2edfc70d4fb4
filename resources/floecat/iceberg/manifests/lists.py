"""Manifest lists (Iceberg table specification, "Manifest Lists"; format versions 1 to 3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa

from floecat.iceberg.avro.cursors import DamagedRecordsError
from floecat.iceberg.avro.decoding import Column, Items, Numbers, Spans, Struct
from floecat.iceberg.avro.records import RecordReader, Wanted
from floecat.iceberg.avro.writer_schema import Encoding, SchemaNode
from floecat.iceberg.values.bounds import DEFAULT_BOUNDS, Bounds

__all__ = ["DATA_MANIFEST", "DELETE_MANIFEST", "ManifestFile", "PartitionSummary", "read_manifest_list"]

DATA_MANIFEST = 0
"""`content` of a manifest of data files."""

DELETE_MANIFEST = 1
"""`content` of a manifest of delete files and deletion vectors."""


class PartitionSummary(msgspec.Struct, frozen=True):
    """What the values of one partition field span, over all entries of a manifest.

    Attributes:
        contains_null: whether a file has null.
        contains_nan: whether a file has NaN; None if unknown.
        lower_bound: least value but null and NaN, as a single value (appendix D); None if there is none.
        upper_bound: greatest such value.
    """

    contains_null: bool
    contains_nan: bool | None = None
    lower_bound: bytes | None = None
    upper_bound: bytes | None = None


class ManifestFile(msgspec.Struct, frozen=True):
    """An entry of a manifest list: a manifest and what is known of it without reading it.

    Counts are `None` where a format version 1 writer left them out.
    """

    manifest_path: str
    manifest_length: int
    partition_spec_id: int
    content: int = DATA_MANIFEST
    sequence_number: int = 0
    min_sequence_number: int = 0
    added_snapshot_id: int | None = None
    added_files_count: int | None = None
    existing_files_count: int | None = None
    deleted_files_count: int | None = None
    added_rows_count: int | None = None
    existing_rows_count: int | None = None
    deleted_rows_count: int | None = None
    partitions: tuple[PartitionSummary, ...] | None = None
    """A summary for each field of the partition spec; None where the writer made none."""
    first_row_id: int | None = None
    """Of data manifests since format version 3: row id of the first row whose file does not say its own."""


_FIELDS = {
    "manifest_path": 500,
    "manifest_length": 501,
    "partition_spec_id": 502,
    "content": 517,
    "sequence_number": 515,
    "min_sequence_number": 516,
    "added_snapshot_id": 503,
    "added_files_count": 504,
    "existing_files_count": 505,
    "deleted_files_count": 506,
    "added_rows_count": 512,
    "existing_rows_count": 513,
    "deleted_rows_count": 514,
    "first_row_id": 520,
}
_PARTITIONS, _PARTITIONS_ID = "partitions", 507
_SUMMARY_FIELDS = {"contains_null": 509, "contains_nan": 518, "lower_bound": 510, "upper_bound": 511}

_REQUIRED = ("manifest_path", "manifest_length", "partition_spec_id")
_DEFAULTED = ("content", "sequence_number", "min_sequence_number")
"""Fields that version 1 does not have, and that are 0 then."""


def read_manifest_list(
    data: bytes, *, location: str, bounds: Bounds = DEFAULT_BOUNDS
) -> Iterator[ManifestFile]:
    """Yields the entries of a manifest list in the order of the file.

    Args:
        data: the whole file.
        location: where it is, for messages.
        bounds: limits for the file.

    Raises:
        InvalidMetadataError: it is no manifest list, is damaged, or exceeds a bound. Entries before the
            damage may have been yielded.
    """
    reader = RecordReader(data, location=location, what="manifest list", bounds=bounds)
    places = {name: place for name, id in _FIELDS.items() if (place := reader.place(id, name)) is not None}
    missing = [name for name in _REQUIRED if name not in places]
    if missing:
        raise reader.invalid(f"entries have no field {missing[0]}")
    summaries = reader.place(_PARTITIONS_ID, _PARTITIONS)
    wanted: Wanted = dict.fromkeys([*places.values(), *([] if summaries is None else [summaries])])
    for records in reader.read(wanted):
        try:
            columns = {name: _values(name, records.columns[place]) for name, place in places.items()}
            if summaries is not None:
                columns[_PARTITIONS] = _summaries(records.columns[summaries], reader.fields[summaries].node)
        except (pa.ArrowException, msgspec.ValidationError, DamagedRecordsError):
            raise reader.invalid("a field has values that do not fit its type") from None
        for name in _REQUIRED:
            if any(value is None for value in columns[name]):
                raise reader.invalid(f"an entry has no {name}")
        for values in zip(*columns.values(), strict=True):
            yield ManifestFile(**dict(zip(columns, values, strict=True)))


def _values(name: str, column: Column) -> list[Any]:
    if not isinstance(column, Numbers | Spans):
        raise DamagedRecordsError
    array = column.to_arrow().cast(pa.string() if name == "manifest_path" else pa.int64())
    values: list[Any] = array.to_pylist()
    return [value or 0 for value in values] if name in _DEFAULTED else values


def _summaries(column: Column, node: SchemaNode) -> list[tuple[PartitionSummary, ...] | None]:
    if isinstance(column, Numbers) and column.valid is not None and not column.valid.any():
        return [None] * len(column.values)
    item = _item(node)
    if not isinstance(column, Items) or item is None:
        raise DamagedRecordsError
    found: list[list[PartitionSummary]] = [[] for _ in range(column.size)]
    names = {id: name for name, id in _SUMMARY_FIELDS.items()}
    for rows, items in zip(column.rows, column.items, strict=True):
        if not isinstance(items, Struct):
            raise DamagedRecordsError
        columns = {
            name: _to_list(part)
            for field, part in zip(item.fields, items.columns, strict=True)
            if (name := names.get(field.id) if field.id is not None else field.name) in _SUMMARY_FIELDS
        }
        for row, *values in zip(rows.tolist(), *columns.values(), strict=True):
            summary = dict(zip(columns, values, strict=True))
            found[row].append(msgspec.convert(summary, PartitionSummary))
    valid = [True] * column.size if column.valid is None else column.valid.tolist()
    return [tuple(each) if is_valid else None for each, is_valid in zip(found, valid, strict=True)]


def _item(node: SchemaNode) -> SchemaNode | None:
    """The type of the items of an array, which may be one branch of a union."""
    arrays = [part for part in (node, *node.parts) if part.encoding is Encoding.ARRAY]
    return arrays[0].parts[0] if arrays else None


def _to_list(column: Column) -> list[Any]:
    if not isinstance(column, Numbers | Spans):
        raise DamagedRecordsError
    values: list[Any] = column.to_arrow().to_pylist()
    return values
