"""Manifest lists (Iceberg table specification, "Manifest Lists"; format versions 1 to 3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from floecat.iceberg.avro.container import BlockWriter, encode_container
from floecat.iceberg.avro.cursors import DamagedRecordsError
from floecat.iceberg.avro.decoding import Column, Items, Numbers, Spans, Struct
from floecat.iceberg.avro.records import RecordReader, Wanted
from floecat.iceberg.avro.writer_schema import Encoding, WriterNode
from floecat.iceberg.manifests.avro_schemas import manifest_list_schema
from floecat.iceberg.manifests.partition_tuples import PartitionSummary
from floecat.iceberg.values.bounds import DEFAULT_BOUNDS, Bounds
from floecat.iceberg.values.encoded_json import encode_json

__all__ = [
    "DATA_MANIFEST",
    "DELETE_MANIFEST",
    "ManifestFile",
    "RowIds",
    "assign_row_ids",
    "read_manifest_list",
    "write_manifest_list",
]

DATA_MANIFEST = 0
"""`content` of a manifest of data files."""

DELETE_MANIFEST = 1
"""`content` of a manifest of delete files and deletion vectors."""


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
    """Row id of the first row whose file does not say its own, of data manifests since format version 3."""

    @property
    def live_files_count(self) -> int | None:
        """Added and existing files."""
        counts = (self.added_files_count, self.existing_files_count)
        return None if None in counts else sum(count or 0 for count in counts)


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
    data: bytes, *, location: str, bounds: Bounds = DEFAULT_BOUNDS, is_metered: bool = False
) -> Iterator[ManifestFile]:
    """Yields the entries of a manifest list in the order of the file.

    Args:
        location: where it is, for messages.
        is_metered: see `RecordReader`.

    Raises:
        InvalidMetadataError: it is not a manifest list, is damaged, or exceeds a bound. Entries before the
            damage may have been yielded.
    """
    reader = RecordReader(data, location=location, what="manifest list", bounds=bounds, is_metered=is_metered)
    places = {name: place for name, id in _FIELDS.items() if (place := reader.place(id, name)) is not None}
    missing = [name for name in _REQUIRED if name not in places]
    if missing:
        raise reader.invalid(f"entries have no field {missing[0]}")
    summaries = reader.place(_PARTITIONS_ID, _PARTITIONS)
    wanted: Wanted = dict.fromkeys([*places.values(), *([] if summaries is None else [summaries])])
    for records in reader.read(wanted):
        reader.check_location(records.columns[places["manifest_path"]])
        try:
            columns = {name: _values(name, records.columns[place]) for name, place in places.items()}
            if summaries is not None:
                columns[_PARTITIONS] = _summaries(records.columns[summaries], reader.fields[summaries].node)
        except (pa.ArrowException, msgspec.ValidationError, DamagedRecordsError):
            raise reader.invalid("a field has values that do not fit its type") from None
        for name in _REQUIRED:
            if any(value is None for value in columns[name]):
                raise reader.invalid(f"an entry has no {name}")
        if min(columns["manifest_length"], default=0) < 0:
            raise reader.invalid("damaged: manifest_length of an entry is negative")
        for values in zip(*columns.values(), strict=True):
            yield ManifestFile(**dict(zip(columns, values, strict=True)))


def _values(name: str, column: Column) -> list[Any]:
    if not isinstance(column, Numbers | Spans):
        raise DamagedRecordsError
    array = column.to_arrow().cast(pa.string() if name == "manifest_path" else pa.int64())
    values: list[Any] = array.to_pylist()
    return [value or 0 for value in values] if name in _DEFAULTED else values


def _summaries(column: Column, node: WriterNode) -> list[tuple[PartitionSummary, ...] | None]:
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


def _item(node: WriterNode) -> WriterNode | None:
    """The type of the items of an array, which may be one branch of a union."""
    arrays = [part for part in (node, *node.parts) if part.encoding is Encoding.ARRAY]
    return arrays[0].parts[0] if arrays else None


def _to_list(column: Column) -> list[Any]:
    if not isinstance(column, Numbers | Spans):
        raise DamagedRecordsError
    values: list[Any] = column.to_arrow().to_pylist()
    return values


class RowIds(NamedTuple):
    """Manifests whose rows have ids, and the next free one (`next-row-id` of the table)."""

    manifests: tuple[ManifestFile, ...]
    next_row_id: int


def assign_row_ids(manifests: Sequence[ManifestFile], first_row_id: int) -> RowIds:
    """Gives a first row id to each data manifest that has none (format version 3).

    Args:
        manifests: in the order of the list.
        first_row_id: the table's `next-row-id` before the snapshot.

    Raises:
        ValueError: the counts of a manifest are unknown.
    """
    next_row_id = first_row_id
    assigned = []
    for manifest in manifests:
        if manifest.content == DATA_MANIFEST and manifest.first_row_id is None:
            if manifest.existing_rows_count is None or manifest.added_rows_count is None:
                raise ValueError(f"The row counts of manifest {manifest.manifest_path} are unknown")
            # existing rows too: a file that is older than row ids gets its first ones here
            rows = manifest.existing_rows_count + manifest.added_rows_count
            assigned.append(msgspec.structs.replace(manifest, first_row_id=next_row_id))
            next_row_id += rows
        else:
            assigned.append(manifest)
    return RowIds(tuple(assigned), next_row_id)


def write_manifest_list(
    manifests: Sequence[ManifestFile],
    *,
    snapshot_id: int,
    parent_snapshot_id: int | None,
    sequence_number: int,
    format_version: int,
    first_row_id: int | None = None,
) -> bytes:
    """Encodes a manifest list. The same arguments always give the same bytes.

    Args:
        manifests: in the order of the file; in format version 3 with their first row ids (`assign_row_ids`).
        snapshot_id: the snapshot whose list it is.
        parent_snapshot_id: None for the first one.
        sequence_number: of the snapshot.
        format_version: 2 or 3.
        first_row_id: of the snapshot; format version 3 only, and required there.

    Raises:
        ValueError: counts are unknown, or row ids are missing.
    """
    import fastavro

    has_row_ids = format_version >= 3
    if format_version not in (2, 3) or has_row_ids != (first_row_id is not None):
        raise ValueError(f"No manifest list of format version {format_version}, or none with such row ids")
    json_schema = manifest_list_schema(format_version)
    schema = fastavro.parse_schema(json_schema, _write_hint=False)
    records = []
    for manifest in manifests:
        _check(manifest, has_row_ids=has_row_ids)
        record = BytesIO()
        fields = msgspec.to_builtins(manifest, builtin_types=(bytes,))
        if manifest.partitions is not None:
            fields["partitions"] = list(
                fields["partitions"]
            )  # fastavro takes a tuple for a branch of the union
        fastavro.schemaless_writer(record, schema, fields)
        records.append(record.getvalue())
    metadata = {
        "avro.schema": encode_json(json_schema),
        "snapshot-id": str(snapshot_id).encode(),
        # what the reference implementation writes for a missing parent
        "parent-snapshot-id": b"null" if parent_snapshot_id is None else str(parent_snapshot_id).encode(),
        "sequence-number": str(sequence_number).encode(),
        "format-version": str(format_version).encode(),
    }
    if has_row_ids:
        metadata["first-row-id"] = str(first_row_id).encode()
    sizes = np.array([len(record) for record in records], np.int64)
    blocks = BlockWriter()
    blocks.write(np.frombuffer(b"".join(records), np.uint8), sizes)
    return encode_container(metadata, blocks.finish())


def _check(manifest: ManifestFile, *, has_row_ids: bool) -> None:
    required = (
        manifest.added_snapshot_id,
        manifest.added_files_count,
        manifest.existing_files_count,
        manifest.deleted_files_count,
        manifest.added_rows_count,
        manifest.existing_rows_count,
        manifest.deleted_rows_count,
    )
    if any(value is None for value in required):
        raise ValueError(f"The counts of manifest {manifest.manifest_path} are unknown")
    if has_row_ids and manifest.content == DATA_MANIFEST and manifest.first_row_id is None:
        raise ValueError(f"The rows of manifest {manifest.manifest_path} have no ids")
