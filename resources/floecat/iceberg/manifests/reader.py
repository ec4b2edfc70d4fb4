"""Manifests of any writer, column by column (Iceberg table specification, "Manifests"; versions 1 to 3)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floecat.iceberg.avro.cursors import DamagedRecordsError
from floecat.iceberg.avro.decoding import Column, Items, Numbers, Spans, as_arrow
from floecat.iceberg.avro.records import RecordReader, Records, Wanted
from floecat.iceberg.avro.writer_schema import SchemaField
from floecat.iceberg.file_metrics import ColumnMetrics
from floecat.iceberg.manifests.lists import ManifestFile
from floecat.iceberg.manifests.metric_maps import METRIC_IDS, metric_columns
from floecat.iceberg.manifests.partition_tuples import partition_column, partition_names
from floecat.iceberg.schemas.types import PrimitiveType
from floecat.iceberg.values.bounds import DEFAULT_BOUNDS, Bounds

__all__ = [
    "ENTRY_FIELDS",
    "FileContent",
    "ManifestEntries",
    "ManifestEntryStatus",
    "read_file_paths",
    "read_manifest",
]


class ManifestEntryStatus(IntEnum):
    """The status of a file in a snapshot."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


class FileContent(IntEnum):
    """The content of a file. A deletion vector is position deletes in a Puffin file."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


_INT, _LONG = pa.int32(), pa.int64()

_FIELDS: dict[str, tuple[int, pa.DataType]] = {
    "status": (0, _INT),
    "snapshot_id": (1, _LONG),
    "sequence_number": (3, _LONG),
    "file_sequence_number": (4, _LONG),
    "content": (134, _INT),
    "file_path": (100, pa.string()),
    "file_format": (101, pa.string()),
    "record_count": (103, _LONG),
    "file_size_in_bytes": (104, _LONG),
    "key_metadata": (131, pa.binary()),
    "split_offsets": (132, pa.list_(_LONG)),
    "equality_ids": (135, pa.list_(_INT)),
    "sort_order_id": (140, _INT),
    "first_row_id": (142, _LONG),
    "referenced_data_file": (143, pa.string()),
    "content_offset": (144, _LONG),
    "content_size_in_bytes": (145, _LONG),
}
"""Fields of an entry and of its data file: their ids, and the type of their column."""

_REQUIRED = ("status", "file_path", "file_format", "record_count", "file_size_in_bytes")
_LOCATIONS = frozenset({"file_path", "referenced_data_file"})
_SIZES = frozenset({"file_size_in_bytes", "content_offset", "content_size_in_bytes"})
_PARTITION, _PARTITION_ID = "partition", 102

ENTRY_FIELDS = frozenset({*_FIELDS, _PARTITION, *METRIC_IDS})
"""Names of all fields that can be read, as in the specification."""

_NEEDED = {
    "snapshot_id": ("status",),
    "sequence_number": ("status",),
    "file_sequence_number": ("status",),
    "first_row_id": ("status", "content", "record_count"),
}
"""Fields that inheritance needs."""


@dataclass(frozen=True, eq=False)
class ManifestEntries:
    """Entries of a manifest, in the order of the file.

    Attributes:
        table: a column for each field that was asked for, named as in the specification; `partition` is a
            struct, whose fields have their ids as metadata `PARQUET:field_id`. A field that the file does not
            have is null, `content` 0.
        metrics: of the columns that were asked for and that any of the entries has a value of, by id.
    """

    table: pa.Table
    metrics: tuple[ColumnMetrics, ...] = ()

    def __len__(self) -> int:
        return len(self.table)

    def column(self, name: str) -> pa.Array:
        """A column of the table."""
        return self.table[name].combine_chunks()


def read_manifest(
    data: bytes,
    *,
    location: str,
    fields: Collection[str] = ENTRY_FIELDS,
    column_ids: Collection[int] | None = None,
    listed: ManifestFile | None = None,
    partition_types: Mapping[int, PrimitiveType] | None = None,
    bounds: Bounds = DEFAULT_BOUNDS,
    is_metered: bool = False,
) -> Iterator[ManifestEntries]:
    """Yields the entries of a manifest in pieces, those of deleted files included.

    Fields are found by id, in files without ids by name. Only the fields that are asked for are decoded.

    Args:
        location: where it is, for messages.
        fields: of `ENTRY_FIELDS`; those of metrics are in `ManifestEntries.metrics`.
        column_ids: columns whose metrics are read; None for all.
        listed: the manifest's entry in the manifest list, from which entries inherit snapshot id, sequence
            numbers and first row id. None leaves these as they are in the file.
        partition_types: types of partition fields by their id. Without one the type is that of the file.
        is_metered: see `RecordReader`.

    Raises:
        InvalidMetadataError: it is not a manifest, is damaged, or exceeds a bound. Entries before the damage
            may have been yielded.
    """
    reader = RecordReader(data, location=location, what="manifest", bounds=bounds, is_metered=is_metered)
    asked = frozenset(fields)
    needed = asked.union(*(_NEEDED.get(name, ()) for name in asked if listed is not None))
    layout = _Layout(reader, needed, asked, None if column_ids is None else frozenset(column_ids))
    next_row_id = None if listed is None else listed.first_row_id
    for records in reader.read(layout.wanted):
        columns = layout.columns(records)
        if listed is not None:
            next_row_id = _inherit(columns, listed, next_row_id)
        table = {name: column for name, column in columns.items() if name in asked}
        if _PARTITION in asked:
            table[_PARTITION] = layout.partitions(records, partition_types or {})
        if not table:
            table["status"] = pa.nulls(records.rows, _INT)
        yield ManifestEntries(pa.table(table), layout.metrics(records))


def read_file_paths(data: bytes, *, location: str, bounds: Bounds = DEFAULT_BOUNDS) -> Iterator[str]:
    """Yields the path of every entry of a manifest, whatever its status and content.

    Paths repeat: several deletion vectors share one Puffin file.

    Args:
        location: where it is, for messages.

    Raises:
        InvalidMetadataError: it is not a manifest, is damaged, or exceeds a bound. Paths before the damage
            may have been yielded.
    """
    for entries in read_manifest(data, location=location, fields=("file_path",), bounds=bounds):
        yield from entries.column("file_path").to_pylist()


class _Layout:
    """The places of the needed fields in the records of a file."""

    def __init__(
        self,
        reader: RecordReader,
        needed: Collection[str],
        asked: Collection[str],
        column_ids: frozenset[int] | None,
    ) -> None:
        self._reader = reader
        self._column_ids = column_ids
        self._places = {
            name: place
            for name, (id, _) in _FIELDS.items()
            if name in needed and (place := reader.place(id, name)) is not None
        }
        self._needed = [name for name in _FIELDS if name in needed]
        self._metrics = {
            name: place
            for name, id in METRIC_IDS.items()
            if name in asked and (place := reader.place(id, name)) is not None
        }
        self._partition: list[tuple[int, SchemaField]] = []
        if _PARTITION in asked:
            self._partition = reader.parts(_PARTITION_ID, _PARTITION)
            self._partition_names = partition_names(reader.header, [field for _, field in self._partition])
        missing = [name for name in _REQUIRED if name in self._needed and name not in self._places]
        if missing:
            raise reader.invalid(f"entries have no field {missing[0]}")

    @property
    def wanted(self) -> Wanted:
        """The fields to decode."""
        plain = [*self._places.values(), *(place for place, _ in self._partition)]
        return {**dict.fromkeys(plain), **dict.fromkeys(self._metrics.values(), self._column_ids)}

    def columns(self, records: Records) -> dict[str, pa.Array]:
        """Columns of plain fields."""
        columns = {}
        for name in self._needed:
            place = self._places.get(name)
            type = _FIELDS[name][1]
            if place is not None:
                if name in _LOCATIONS:
                    self._reader.check_location(records.columns[place])
                columns[name] = self._plain(name, records.columns[place], type)
            elif name == "content":
                columns[name] = as_arrow(np.zeros(records.rows, np.int32))
            else:
                columns[name] = pa.nulls(records.rows, type)
        return columns

    def partitions(self, records: Records, types: Mapping[int, PrimitiveType]) -> pa.StructArray:
        """The partition column."""
        arrays = []
        for place, field in self._partition:
            try:
                column = records.columns[place]
                arrays.append(partition_column(column, field, types.get(field.id or -1)))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, DamagedRecordsError):
                raise self._reader.invalid("a partition value does not fit its type") from None
        if not arrays:
            return pa.StructArray.from_buffers(pa.struct([]), records.rows, [None])
        fields = [
            pa.field(name, array.type, metadata={"PARQUET:field_id": str(field.id)})
            for name, array, (_, field) in zip(self._partition_names, arrays, self._partition, strict=True)
        ]
        return pa.StructArray.from_arrays(arrays, fields=fields)

    def metrics(self, records: Records) -> tuple[ColumnMetrics, ...]:
        """Metrics of columns."""
        found = {name: records.columns[place] for name, place in self._metrics.items()}
        try:
            return metric_columns(found, self._column_ids, records.rows)
        except (pa.ArrowInvalid, DamagedRecordsError):
            raise self._reader.invalid("its metrics are no maps from column ids") from None

    def _plain(self, name: str, column: Column, type: pa.DataType) -> pa.Array:
        try:
            array = _to_arrow(column, type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, DamagedRecordsError):
            raise self._reader.invalid(f"field {name} has values that do not fit its type") from None
        if array.null_count:
            if name == "content":
                array = array.fill_null(FileContent.DATA.value)
            elif name in _REQUIRED:
                raise self._reader.invalid(f"an entry has no {name}")
        if len(array) and name in ("status", "content"):
            values = array.to_numpy()
            if values.min() < 0 or values.max() > 2:
                raise self._reader.invalid(f"an entry has an unknown {name}")
        if name in _SIZES and pc.any(pc.less(array, 0)).as_py():
            raise self._reader.invalid(f"damaged: {name} of an entry is negative")
        return array


def _to_arrow(column: Column, type: pa.DataType) -> pa.Array:
    if column.valid is not None and not column.valid.any():
        return pa.nulls(len(column.valid), type)
    match column:
        case Numbers() | Spans():
            return column.to_arrow().cast(type)
        case Items():
            return column.to_lists(type)
        case _:
            raise DamagedRecordsError


def _inherit(columns: dict[str, pa.Array], listed: ManifestFile, next_row_id: int | None) -> int | None:
    """Fills in what entries leave out.

    Args:
        columns: of the entries, by the names of the specification; changed in place.
        listed: the manifest's entry in the manifest list.
        next_row_id: first row id of the next data file without one; None if the manifest assigns none.

    Returns:
        The same after these entries.
    """
    if "snapshot_id" in columns and listed.added_snapshot_id is not None:
        columns["snapshot_id"] = columns["snapshot_id"].fill_null(listed.added_snapshot_id)
    for name in ("sequence_number", "file_sequence_number"):
        if name in columns and columns[name].null_count:
            # files of version 1 have none, and number 0 is right for all of them
            inherited = pa.scalar(listed.sequence_number, pa.int64())
            if listed.sequence_number:
                inherited = pc.if_else(
                    pc.equal(columns["status"], ManifestEntryStatus.ADDED.value),
                    inherited,
                    pa.scalar(None, pa.int64()),
                )
            columns[name] = pc.coalesce(columns[name], inherited)
    if "first_row_id" in columns:
        columns["first_row_id"], next_row_id = _first_row_ids(columns, next_row_id)
    return next_row_id


def _first_row_ids(columns: dict[str, pa.Array], next_row_id: int | None) -> tuple[pa.Array, int | None]:
    found = columns["first_row_id"]
    if next_row_id is None:
        # ids of rows count within a table only after it has assigned them
        return pa.nulls(len(found), pa.int64()), None
    inherits = found.is_null().to_numpy(zero_copy_only=False)
    inherits &= columns["status"].to_numpy() != ManifestEntryStatus.DELETED
    inherits &= columns["content"].to_numpy() == FileContent.DATA
    rows = np.where(inherits, columns["record_count"].to_numpy(), 0)
    ends = np.cumsum(rows) + next_row_id
    assigned = as_arrow(ends - rows, inherits)
    return pc.coalesce(found, assigned), int(ends[-1]) if len(ends) else next_row_id
