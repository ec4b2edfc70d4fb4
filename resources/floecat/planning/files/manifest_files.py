"""The live files of a manifest in columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floecat.errors import FileMissingError, InvalidMetadataError, PayloadTooLargeError
from floecat.iceberg.avro.string_columns import Bools, Int64s
from floecat.iceberg.file_metrics import ColumnMetrics
from floecat.iceberg.manifests.lists import ManifestFile
from floecat.iceberg.manifests.metric_maps import METRIC_IDS
from floecat.iceberg.manifests.reader import ManifestEntries, ManifestEntryStatus, read_manifest
from floecat.iceberg.schemas.partitioning import PartitionSpec
from floecat.iceberg.schemas.types import PrimitiveType
from floecat.iceberg.values.bounds import Bounds, exceeded
from floecat.planning.files.scans import FILE_FIELDS, ContentFiles
from floecat.storage.catalog_storage import CatalogStorage

__all__ = [
    "COLUMN_SIZES",
    "METRICS",
    "ManifestColumns",
    "SpecTypes",
    "decode_manifest",
    "read_bounded",
    "with_metrics",
]

_ENTRY_FIELDS: Final = (*FILE_FIELDS, "status", "snapshot_id")
METRICS: Final = tuple(METRIC_IDS)

COLUMN_SIZES: Final = -1
"""Stands among ids of columns for the sizes of these: they are large, and no filter needs them."""

_OVERHEAD_BYTES: Final = 2048
_COMPACTED: Final = {"status": pa.int8(), "content": pa.int8()}

_Column: TypeAlias = "pa.Array | pa.Scalar"


@dataclass(frozen=True)
class SpecTypes:
    """A partition spec with the types of its fields; None where only files know it."""

    spec: PartitionSpec
    types: tuple[PrimitiveType | None, ...]

    @property
    def is_unpartitioned(self) -> bool:
        """Whether all rows have the same partition: no fields, or only void ones."""
        return all(field.transform == "void" for field in self.spec.fields)


@dataclass(frozen=True, eq=False)
class ManifestColumns:
    """Live files of a manifest.

    Attributes:
        spec_id: of the manifest.
        size: number of files.
        columns: of `FILE_FIELDS`, and `status` and `snapshot_id`, as far as they are not all null; a scalar
            where all files have the same value.
        partitions: in the order of the spec; of the null type where the manifest has no values of a field.
        metrics: by column, as far as they were asked for.
        metric_ids: the columns that were asked for.
    """

    spec_id: int
    size: int
    columns: Mapping[str, _Column]
    partitions: pa.StructArray
    metrics: Mapping[int, ColumnMetrics]
    metric_ids: frozenset[int]

    def __len__(self) -> int:
        return self.size

    @property
    def size_bytes(self) -> int:
        """Memory that it takes."""
        arrays = [*self.columns.values(), self.partitions]
        for metrics in self.metrics.values():
            arrays += [array for name in METRICS if (array := getattr(metrics, name)) is not None]
        return _OVERHEAD_BYTES + sum(int(array.nbytes) for array in arrays if isinstance(array, pa.Array))

    def column(self, name: str, rows: Int64s | None = None) -> pa.Array:
        """A column, of some of the files or of all."""
        column = self.columns.get(name)
        size = self.size if rows is None else len(rows)
        kind = _TYPES[name]
        if column is None:
            return pa.nulls(size, kind)
        if isinstance(column, pa.Scalar):
            return pa.repeat(column.cast(kind), size)
        found = column if rows is None else column.take(pa.array(rows))
        return found.cast(kind)

    def numbers(self, name: str) -> Any:
        """A column of whole numbers as a NumPy array; null is 0."""
        return self.column(name).fill_null(0).to_numpy(zero_copy_only=False)

    def content_files(self, rows: Int64s | None, stats_ids: Set[int]) -> ContentFiles:
        """Some of the files for a plan, or all, with the metrics of some columns."""
        table = pa.table({name: self.column(name, rows) for name in FILE_FIELDS})
        partitions = self.partitions if rows is None else self.partitions.take(pa.array(rows))
        found = [self.metrics[id] for id in sorted(stats_ids) if id in self.metrics]
        metrics = tuple(each if rows is None else _take(each, rows) for each in found)
        return ContentFiles(self.spec_id, table, partitions, metrics)


_TYPES: Final[Mapping[str, pa.DataType]] = {
    **dict.fromkeys(("status", "content", "sort_order_id"), pa.int32()),
    **dict.fromkeys(
        (
            "snapshot_id",
            "sequence_number",
            "record_count",
            "file_size_in_bytes",
            "first_row_id",
            "content_offset",
            "content_size_in_bytes",
        ),
        pa.int64(),
    ),
    **dict.fromkeys(("file_path", "file_format", "referenced_data_file"), pa.string()),
    "key_metadata": pa.binary(),
    "split_offsets": pa.list_(pa.int64()),
    "equality_ids": pa.list_(pa.int32()),
}


def read_bounded(storage: CatalogStorage, location: str, what: str, bounds: Bounds) -> bytes:
    """The bytes of a manifest or a manifest list.

    Raises:
        FileMissingError: it is gone.
        BoundExceededError: it is larger than manifests may be.
        LocationNotAllowedError: it is outside the allowed locations.
    """
    storage.allowed.check(location)
    try:
        return storage.files(location).read(location, max_bytes=bounds.manifest_bytes)
    except FileMissingError:
        raise FileMissingError(f"Cannot plan the scan: {what} {location} is missing") from None
    except PayloadTooLargeError:
        raise exceeded(bounds, "manifest_bytes", f"{what} {location}", "it has more bytes than") from None


def decode_manifest(
    data: bytes, listed: ManifestFile, spec: SpecTypes, column_ids: frozenset[int], bounds: Bounds
) -> ManifestColumns:
    """The live files of a manifest, with metrics of some columns; see `ManifestCache.load`.

    Raises:
        InvalidMetadataError: it is damaged, or exceeds a bound.
    """
    fields = {*_ENTRY_FIELDS, "partition", *_metrics(column_ids)}
    types = {
        field.field_id: type
        for field, type in zip(spec.spec.fields, spec.types, strict=True)
        if type is not None and field.field_id is not None
    }
    parts = [
        _live(entries)
        for entries in read_manifest(
            data,
            location=listed.manifest_path,
            fields=fields,
            column_ids=column_ids,
            listed=listed,
            partition_types=types,
            bounds=bounds,
            is_metered=True,
        )
    ]
    size = sum(len(entries) for entries in parts)
    columns: dict[str, _Column] = {}
    for name in _ENTRY_FIELDS:
        column = _compacted(name, [entries.column(name) for entries in parts])
        if column is not None:
            columns[name] = column
    structs = [_in_order(entries.column("partition"), spec) for entries in parts]
    partitions = pa.concat_arrays(structs) if structs else _no_partitions(spec)
    metrics = _joined([entries.metrics for entries in parts], [len(entries) for entries in parts])
    return ManifestColumns(listed.partition_spec_id, size, columns, partitions, metrics, column_ids)


def with_metrics(
    held: ManifestColumns, data: bytes, listed: ManifestFile, column_ids: frozenset[int], bounds: Bounds
) -> ManifestColumns:
    """The same files with metrics of further columns.

    Raises:
        InvalidMetadataError: the manifest is damaged, or has other files than before.
    """
    parts = [
        _live(entries)
        for entries in read_manifest(
            data,
            location=listed.manifest_path,
            fields={"status", *_metrics(column_ids | held.metric_ids)},
            column_ids=column_ids,
            bounds=bounds,
            is_metered=True,
        )
    ]
    if sum(len(entries) for entries in parts) != held.size:
        raise InvalidMetadataError(f"Cannot read manifest {listed.manifest_path}: it was replaced")
    metrics = _joined([entries.metrics for entries in parts], [len(entries) for entries in parts])
    return replace(held, metrics={**held.metrics, **metrics}, metric_ids=held.metric_ids | column_ids)


def _metrics(column_ids: frozenset[int]) -> tuple[str, ...]:
    """Names of the metrics that are read."""
    if COLUMN_SIZES in column_ids:
        return METRICS
    return tuple(name for name in METRICS if name != "column_sizes") if column_ids else ()


def _live(entries: ManifestEntries) -> ManifestEntries:
    statuses = entries.column("status").to_numpy()
    live: Bools = statuses != ManifestEntryStatus.DELETED
    if live.all():
        return entries
    rows = np.flatnonzero(live)
    metrics = tuple(_take(column, rows) for column in entries.metrics)
    return ManifestEntries(entries.table.take(pa.array(rows)), metrics)


def _take(column: ColumnMetrics, rows: Int64s) -> ColumnMetrics:
    places = pa.array(rows)
    found = {name: getattr(column, name) for name in METRICS}
    taken = {name: None if array is None else array.take(places) for name, array in found.items()}
    return ColumnMetrics(column.field_id, **taken)


def _compacted(name: str, arrays: Sequence[pa.Array]) -> _Column | None:
    """A column as it is kept; None if all of it is null."""
    if all(array.null_count == len(array) for array in arrays):
        return None
    joined = pa.concat_arrays(arrays)
    if pa.types.is_list(joined.type):
        return joined
    if name != "file_path" and not joined.null_count and pc.all(pc.equal(joined, joined[0])).as_py():
        return joined[0]
    return joined.cast(_COMPACTED.get(name, joined.type))


def _in_order(found: pa.StructArray, spec: SpecTypes) -> pa.StructArray:
    """Partition values with a field for each of the spec; of the null type where the file has no values."""
    by_id: dict[str, pa.Array] = {}
    by_name: dict[str, pa.Array] = {}
    for field, array in zip(found.type, found.flatten(), strict=True):
        by_id[(field.metadata or {}).get(b"PARQUET:field_id", b"").decode()] = array
        by_name[field.name] = array
    arrays = []
    for field in spec.spec.fields:
        array = by_id.get(str(field.field_id), by_name.get(field.name))
        arrays.append(pa.nulls(len(found)) if array is None else array)
    if not arrays:
        return pa.StructArray.from_buffers(pa.struct([]), len(found), [None])
    names = [field.name for field in spec.spec.fields]
    return pa.StructArray.from_arrays(arrays, names=names)


def _no_partitions(spec: SpecTypes) -> pa.StructArray:
    return _in_order(pa.StructArray.from_buffers(pa.struct([]), 0, [None]), spec)


def _joined(parts: Sequence[tuple[ColumnMetrics, ...]], sizes: Sequence[int]) -> dict[int, ColumnMetrics]:
    ids = {column.field_id for columns in parts for column in columns}
    if len(parts) == 1:
        return {column.field_id: column for column in parts[0]}
    found: dict[int, ColumnMetrics] = {}
    by_id = [{column.field_id: column for column in columns} for columns in parts]
    for id in ids:
        pieces = [columns.get(id, ColumnMetrics(id)) for columns in by_id]
        joined = {}
        for name in METRICS:
            arrays = [getattr(piece, name) for piece in pieces]
            kind = next((array.type for array in arrays if array is not None), None)
            if kind is not None:
                joined[name] = pa.concat_arrays(
                    pa.nulls(size, kind) if array is None else array
                    for array, size in zip(arrays, sizes, strict=True)
                )
        found[id] = ColumnMetrics(id, **joined)
    return found
