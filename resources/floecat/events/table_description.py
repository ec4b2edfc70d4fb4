"""Short descriptions of tables from their metadata, for followers of commits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.schemas.schema import Schema
from floecat.iceberg.schemas.types import ListType, MapType, StructType, Type
from floecat.iceberg.values.bounds import process_bounds

__all__ = [
    "ChangeCounts",
    "Column",
    "SnapshotTotals",
    "TableDescription",
    "describe",
    "snapshot_totals",
    "type_text",
]


_COLUMN_BYTES: Final = 100
"""Bytes of a column beside its texts."""


class Column(msgspec.Struct, frozen=True, rename="kebab"):
    """A top-level field of the current schema."""

    field_id: int
    name: str
    type: str
    """Type as `type_text` writes it."""
    required: bool
    doc: str | None = None
    identifier: bool = False
    """Part of the identifier fields, which together tell rows apart."""


class ChangeCounts(NamedTuple):
    """Counters of a snapshot's summary; `None` where its writer did not say."""

    added_records: int | None
    deleted_records: int | None
    added_data_files: int | None
    deleted_data_files: int | None
    added_delete_files: int | None


class TableDescription(msgspec.Struct, frozen=True, rename="kebab"):
    """A table as one of its metadata documents shows it."""

    location: str
    format_version: int
    sequence_number: int
    """Number of the current snapshot; 0 without one and in format version 1."""
    columns: tuple[Column, ...]
    """Columns of the current schema, in its order: the first, within `floecat.limits.event-schema-bytes`."""
    snapshot_id: int | None = None
    """Current snapshot."""
    snapshot_operation: str | None = None
    """Operation of the current snapshot: `append`, `replace`, `overwrite` or `delete`."""
    row_count: int | None = None
    """`total-records` of the current snapshot; 0 without a snapshot, `None` where its writer did not say."""
    size_bytes: int | None = None
    """`total-files-size` of the current snapshot, likewise."""
    data_files: int | None = None
    """`total-data-files` of the current snapshot, likewise."""
    delete_files: int | None = None
    """`total-delete-files` of the current snapshot, likewise."""
    changes: ChangeCounts | None = None
    """Changes of the current snapshot; `None` without one, and if the table went back to it."""
    columns_left_out: int = 0
    """Number of further columns behind `columns`."""


class SnapshotTotals(NamedTuple):
    """Counters of a snapshot's summary; `None` where its writer did not say."""

    records: int | None
    """`total-records`: rows of all data files, deleted ones included."""
    files_size: int | None
    """`total-files-size`, in bytes."""
    data_files: int | None
    delete_files: int | None


def snapshot_totals(metadata: TableMetadata, snapshot_id: int) -> SnapshotTotals:
    """The counters of a snapshot that the table has."""
    names = ("total-records", "total-files-size", "total-data-files", "total-delete-files")
    return SnapshotTotals(*_counts(metadata, snapshot_id, names))


def describe(metadata: TableMetadata) -> TableDescription:
    """Describes the table that a document is of."""
    current = metadata.current_snapshot_id
    snapshot = None if current is None else metadata.snapshot(current)
    totals = snapshot_totals(metadata, snapshot.snapshot_id) if snapshot else SnapshotTotals(0, 0, 0, 0)
    changes = None
    if snapshot is not None and snapshot.sequence_number == metadata.last_sequence_number:
        names = [name.replace("_", "-") for name in ChangeCounts._fields]
        changes = ChangeCounts(*_counts(metadata, snapshot.snapshot_id, names))
    columns = tuple(_columns(metadata.current_schema))
    return TableDescription(
        location=metadata.location,
        format_version=metadata.format_version,
        sequence_number=snapshot.sequence_number if snapshot else 0,
        columns=columns,
        columns_left_out=len(metadata.current_schema.struct.fields) - len(columns),
        snapshot_id=current,
        snapshot_operation=snapshot.operation if snapshot else None,
        row_count=totals.records,
        size_bytes=totals.files_size,
        data_files=totals.data_files,
        delete_files=totals.delete_files,
        changes=changes,
    )


def type_text(type: Type) -> str:
    """A type in one line, nested types included: `map<string, struct<x: double, tags: list<string>>>`."""
    match type:
        case StructType(fields):
            return f"struct<{', '.join(f'{field.name}: {type_text(field.type)}' for field in fields)}>"
        case ListType():
            return f"list<{type_text(type.element)}>"
        case MapType():
            return f"map<{type_text(type.key)}, {type_text(type.value)}>"
        case _:
            return str(type)


def _columns(schema: Schema) -> Iterator[Column]:
    left_bytes = process_bounds.limits.event_schema_bytes
    for field in schema.struct.fields:
        column = Column(
            field_id=field.id,
            name=field.name,
            type=type_text(field.type),
            required=field.required,
            doc=field.doc,
            identifier=field.id in schema.identifier_field_ids,
        )
        left_bytes -= _COLUMN_BYTES + len(column.name) + len(column.type) + len(column.doc or "")
        if left_bytes < 0:
            return
        yield column


class _Snapshot(msgspec.Struct):
    summary: dict[str, object] | None = None


def _counts(metadata: TableMetadata, snapshot_id: int, names: Sequence[str]) -> list[int | None]:
    summary = msgspec.json.decode(metadata.snapshot_bytes(snapshot_id), type=_Snapshot).summary or {}
    return [_count(summary.get(name)) for name in names]


def _count(total: object) -> int | None:
    text = str(total)
    # engines write the counters, as text; the catalog does not check them
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None
