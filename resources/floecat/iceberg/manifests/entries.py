"""Entries of a manifest as columns, and their Avro encoding (table specification, "Manifests").

Fields are in the order of `floecat.iceberg.manifests.avro_schemas.manifest_schema`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from floecat.iceberg.avro.columns import Cells, constant, lay_out, optional, strings, varint, varints
from floecat.iceberg.avro.string_columns import Bytes, Int64s, StringColumn
from floecat.iceberg.file_metrics import ColumnMetrics, FileMetrics
from floecat.iceberg.manifests.metric_maps import MetricMaps
from floecat.iceberg.manifests.partition_tuples import partition_cells
from floecat.iceberg.manifests.reader import FileContent

__all__ = ["ManifestRows", "encode_entries"]


@dataclass(frozen=True, eq=False)
class ManifestRows:
    """The entries of one manifest, column by column; every column is as long as `file_paths`.

    Attributes:
        content: of all entries. Data files and delete files never share a manifest.
        file_format: of all entries: `parquet`, `avro`, `orc` or `puffin`, in any case.
        statuses: `ManifestEntryStatus` of each, uint8.
        snapshot_ids: the snapshot that added the file, or deleted it if the status is DELETED; int64.
        sequence_numbers: data and file sequence number alike, int64.
        file_paths: locations, byte for byte as readers are to see them; Arrow strings without nulls.
        file_sizes: bytes, int64.
        metrics: record counts, negative but never null if unknown, and what is known of the columns.
        partitions: Arrow structs with one field for each field of the spec, in its order; None without
            partition fields.
        referenced_data_files: of delete files: the only data file that they apply to, null if several; Arrow
            strings.
        content_offsets: of deletion vectors: where the blob starts in its Puffin file, int64.
        content_sizes: of deletion vectors: bytes of the blob, int64.
        first_row_ids: of data files in format version 3: row id of the first row; Arrow int64, null to
            inherit it. None if all inherit.
        empty_vectors: of data files: id of a deletion vector that deletes nothing, and so has no delete file;
            Arrow strings, null if there is none. For the index only.
    """

    content: FileContent
    file_format: str
    statuses: npt.NDArray[np.uint8]
    snapshot_ids: Int64s
    sequence_numbers: Int64s
    file_paths: pa.StringArray
    file_sizes: Int64s
    metrics: FileMetrics
    partitions: pa.StructArray | None = None
    referenced_data_files: pa.StringArray | None = None
    content_offsets: Int64s | None = None
    content_sizes: Int64s | None = None
    first_row_ids: pa.Int64Array | None = None
    empty_vectors: pa.StringArray | None = None

    def __len__(self) -> int:
        return len(self.file_paths)

    def slice(self, start: int, stop: int) -> ManifestRows:
        """The entries from `start` up to `stop`, without copying; to split rows over several manifests."""
        length = stop - start

        def cut(array: Any) -> Any:
            return None if array is None else array.slice(start, length)

        metrics = FileMetrics(
            cut(self.metrics.record_counts),
            tuple(
                ColumnMetrics(
                    column.field_id,
                    cut(column.value_counts),
                    cut(column.null_value_counts),
                    cut(column.lower_bounds),
                    cut(column.upper_bounds),
                )
                for column in self.metrics.columns
            ),
        )
        return replace(
            self,
            statuses=self.statuses[start:stop],
            snapshot_ids=self.snapshot_ids[start:stop],
            sequence_numbers=self.sequence_numbers[start:stop],
            file_paths=cut(self.file_paths),
            file_sizes=self.file_sizes[start:stop],
            metrics=metrics,
            partitions=cut(self.partitions),
            referenced_data_files=cut(self.referenced_data_files),
            content_offsets=None if self.content_offsets is None else self.content_offsets[start:stop],
            content_sizes=None if self.content_sizes is None else self.content_sizes[start:stop],
            first_row_ids=cut(self.first_row_ids),
            empty_vectors=cut(self.empty_vectors),
        )


_CHUNK_ROWS = 4096
_CHUNK_BYTES = 32 * 1024 * 1024
"""Limits of what is encoded at once. A row is as wide as the longest value of each column, so a few very
long values must not share a chunk with many rows."""

_PLAIN_FIELDS_WIDTH, _PLAIN_FIELD_WIDTH = 256, 32
"""Bytes above those of all fields but strings, partition values and maps, and of one of them."""

_NULL = constant(b"\x00")


def encode_entries(
    rows: ManifestRows, record_counts: Int64s, partitions: pa.StructArray, format_version: int
) -> Iterator[tuple[Bytes, Int64s]]:
    """Yields the entries in chunks: their bytes one after the other, and the size of each.

    Args:
        rows: the entries.
        record_counts: of each.
        partitions: partition values as `partition_struct` makes them.
        format_version: 2 or 3.
    """
    encoder = _Encoder(rows, record_counts, partitions, format_version)
    for start, stop in _chunks(encoder, len(rows)):
        yield lay_out(encoder.cells(start, stop), stop - start)


def _chunks(encoder: _Encoder, rows: int) -> Iterator[tuple[int, int]]:
    narrow = encoder.width(0, rows) * _CHUNK_ROWS <= _CHUNK_BYTES
    for start in range(0, rows, _CHUNK_ROWS):
        stop = min(start + _CHUNK_ROWS, rows)
        if narrow:
            yield start, stop
        else:
            yield from _halves(encoder, start, stop)


def _halves(encoder: _Encoder, start: int, stop: int) -> Iterator[tuple[int, int]]:
    if stop - start == 1 or encoder.width(start, stop) * (stop - start) <= _CHUNK_BYTES:
        yield start, stop
    else:
        middle = (start + stop) // 2
        yield from _halves(encoder, start, middle)
        yield from _halves(encoder, middle, stop)


class _Encoder:
    """Encodes any run of the entries."""

    def __init__(
        self, rows: ManifestRows, record_counts: Int64s, partitions: pa.StructArray, format_version: int
    ) -> None:
        self._rows = rows
        self._record_counts = record_counts
        self._partitions = partitions
        self._has_v3_fields = format_version >= 3
        self._paths = StringColumn.of(rows.file_paths)
        references = rows.referenced_data_files
        self._references = None if references is None else StringColumn.of(references)
        self._maps = MetricMaps.of(rows.metrics)

    def width(self, start: int, stop: int) -> int:
        """Upper limit for the bytes of the longest entry."""
        columns = [self._paths, *_string_fields(self._partitions)]
        if self._references is not None:
            columns.append(self._references)
        width = _PLAIN_FIELDS_WIDTH + _PLAIN_FIELD_WIDTH * int(self._partitions.type.num_fields)
        width += sum(int(column.slice(start, stop).lengths.max(initial=0)) for column in columns)
        return width + sum(metric_map.width(start, stop) for metric_map in self._maps)

    def cells(self, start: int, stop: int) -> list[Cells]:
        """The fields of the entries from `start` up to `stop`."""
        rows = self._rows
        present = constant(b"\x02")
        sequence_number = _integers(rows.sequence_numbers[start:stop])
        file_format = rows.file_format.upper().encode()
        return [
            _integers(rows.statuses[start:stop]),
            *(present, _integers(rows.snapshot_ids[start:stop])),
            *(present, sequence_number),
            *(present, sequence_number),
            constant(varint(rows.content)),
            *strings(self._paths.slice(start, stop)),
            constant(varint(len(file_format)) + file_format),
            *partition_cells(self._partitions.slice(start, stop - start)),
            _integers(self._record_counts[start:stop]),
            _integers(rows.file_sizes[start:stop]),
            _NULL,  # column_sizes
            *self._maps.value_counts.cells(start, stop),
            *self._maps.null_value_counts.cells(start, stop),
            _NULL,  # nan_value_counts
            *self._maps.lower_bounds.cells(start, stop),
            *self._maps.upper_bounds.cells(start, stop),
            _NULL,  # key_metadata
            _NULL,  # split_offsets
            _NULL,  # equality_ids
            _NULL,  # sort_order_id
            *self._last_cells(start, stop),
        ]

    def _last_cells(self, start: int, stop: int) -> list[Cells]:
        rows = self._rows
        references = _optional_strings(self._references, start, stop)
        if not self._has_v3_fields:
            return references
        return [
            *_optional_integers(rows.first_row_ids, start, stop),
            *references,
            *_optional_integers(rows.content_offsets, start, stop),
            *_optional_integers(rows.content_sizes, start, stop),
        ]


def _string_fields(partitions: pa.StructArray) -> list[StringColumn]:
    return [
        StringColumn.of(array)
        for array in partitions.flatten()
        if pa.types.is_string(array.type) or pa.types.is_binary(array.type)
    ]


def _integers(values: npt.NDArray[np.integer[Any]]) -> Cells:
    if (values == values[0]).all():
        return constant(varint(int(values[0])))
    return varints(values)


def _optional_strings(column: StringColumn | None, start: int, stop: int) -> list[Cells]:
    if column is None:
        return [_NULL]
    chunk = column.slice(start, stop)
    return optional(strings(chunk), chunk.valid)


def _optional_integers(values: Any, start: int, stop: int) -> list[Cells]:
    if values is None:
        return [_NULL]
    if isinstance(values, np.ndarray):
        return optional([varints(values[start:stop])], None)
    chunk = values.slice(start, stop - start)
    valid = chunk.is_valid().to_numpy(zero_copy_only=False) if chunk.null_count else None
    filled = chunk.fill_null(0) if chunk.null_count else chunk
    return optional([varints(filled.to_numpy())], valid)
