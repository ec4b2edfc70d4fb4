"""The metric maps of manifest entries, encoded and decoded column by column.

A map from field id to count or bound is an Avro array of key and value pairs. Here each field id is a column
of values; a file whose value is null has no pair for it, and one without any pair has no map.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from itertools import groupby
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from floecat.iceberg.avro.columns import (
    Cells,
    constant,
    optional,
    ragged,
    varint,
    varints,
    where,
)
from floecat.iceberg.avro.cursors import DamagedRecordsError
from floecat.iceberg.avro.decoding import Column, Items, Numbers, Spans, Struct
from floecat.iceberg.avro.string_columns import Bools, Bytes, Int64s, StringColumn
from floecat.iceberg.file_metrics import ColumnMetrics, FileMetrics

__all__ = ["METRIC_IDS", "MetricMap", "MetricMaps", "metric_columns"]

_PLAIN_WIDTH = 16
"""Bytes above those of a key with its count or the length of its bound, and of what surrounds the pairs."""

_NO_MAP = constant(b"\x00")
_END_OF_ARRAY = constant(b"\x00")


class MetricMap(Protocol):
    """A map of metrics, of all files."""

    def cells(self, start: int, stop: int) -> list[Cells]:
        """The field of the map in the entries from `start` up to `stop`."""
        ...

    def width(self, start: int, stop: int) -> int:
        """Upper limit for the bytes of its longest row, known without encoding."""
        ...


class MetricMaps(NamedTuple):
    """The maps that are known of files, in the order of the specification's fields."""

    value_counts: MetricMap
    null_value_counts: MetricMap
    lower_bounds: MetricMap
    upper_bounds: MetricMap

    @classmethod
    def of(cls, metrics: FileMetrics) -> MetricMaps:
        """Prepares the metrics of files."""
        return cls(
            _Counts(metrics.columns, lambda column: column.value_counts),
            _Counts(metrics.columns, lambda column: column.null_value_counts),
            _Bounds(metrics.columns, lambda column: column.lower_bounds),
            _Bounds(metrics.columns, lambda column: column.upper_bounds),
        )


class _CountColumn(NamedTuple):
    key: bytes
    values: Int64s
    valid: Bools | None


class _Counts:
    """A map of counts. Columns whose keys are equally long are encoded together."""

    def __init__(self, columns: Sequence[ColumnMetrics], of: Callable[[ColumnMetrics], Any]) -> None:
        found = [_count_column(column.field_id, of(column)) for column in columns if of(column) is not None]
        self._columns = [column for column in found if column is not None]

    def width(self, start: int, stop: int) -> int:  # noqa: ARG002 - no count is longer than the longest
        return _PLAIN_WIDTH * (1 + len(self._columns))

    def cells(self, start: int, stop: int) -> list[Cells]:
        if not self._columns:
            return [_NO_MAP]
        pairs: list[Cells] = []
        number = np.zeros(stop - start, np.int64)
        for _, group in groupby(self._columns, lambda column: len(column.key)):
            columns = list(group)
            valid = _valid([column.valid for column in columns], start, stop)
            number += len(columns) if valid is None else np.count_nonzero(valid, axis=1)
            pairs.append(_count_pairs(columns, valid, start, stop))
        return _map(pairs, number)


def _count_column(field_id: int, array: Any) -> _CountColumn | None:
    if array.null_count == len(array):
        return None
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    filled = array.fill_null(0) if array.null_count else array
    return _CountColumn(varint(field_id), filled.to_numpy(), valid)


def _valid(masks: Sequence[Bools | None], start: int, stop: int) -> Bools | None:
    """A mask of the known counts, of shape (rows, columns); None if all are known."""
    if all(mask is None or mask[start:stop].all() for mask in masks):
        return None
    valid = np.ones((stop - start, len(masks)), np.bool_)
    for index, mask in enumerate(masks):
        if mask is not None:
            valid[:, index] = mask[start:stop]
    return valid


def _count_pairs(columns: Sequence[_CountColumn], valid: Bools | None, start: int, stop: int) -> Cells:
    rows = stop - start
    counts = np.empty((rows, len(columns)), np.int64)
    for index, column in enumerate(columns):
        counts[:, index] = column.values[start:stop]
    values = varints(counts)
    key_width = len(columns[0].key)
    data = np.empty((rows, len(columns), key_width + values.data.shape[2]), np.uint8)
    data[:, :, :key_width] = np.frombuffer(b"".join(column.key for column in columns), np.uint8).reshape(
        len(columns), key_width
    )
    data[:, :, key_width:] = values.data
    if values.keep is None and valid is None:
        return Cells(data.reshape(rows, -1))
    keep = np.ones(data.shape, np.bool_)
    if values.keep is not None:
        keep[:, :, key_width:] = values.keep
    if valid is not None:
        keep &= valid[:, :, np.newaxis]
    return Cells(data.reshape(rows, -1), keep.reshape(rows, -1))


class _BoundColumn(NamedTuple):
    """Bounds of a column.

    Attributes:
        key: the field id, encoded.
        values: the bounds.
        width: bytes of each bound, if all have the same length, and any.
    """

    key: bytes
    values: StringColumn
    width: int | None

    @classmethod
    def of(cls, field_id: int, array: pa.BinaryArray) -> _BoundColumn:
        values = StringColumn.of(array)
        lengths = values.lengths if values.valid is None else values.lengths[values.valid]
        width = int(lengths[0])
        return cls(varint(field_id), values, width if width and (lengths == width).all() else None)


class _Bounds:
    """A map of bounds."""

    def __init__(self, columns: Sequence[ColumnMetrics], of: Callable[[ColumnMetrics], Any]) -> None:
        self._columns = [
            _BoundColumn.of(column.field_id, of(column))
            for column in columns
            if of(column) is not None and of(column).null_count < len(of(column))
        ]

    def width(self, start: int, stop: int) -> int:
        longest = (int(column.values.slice(start, stop).lengths.max(initial=0)) for column in self._columns)
        return _PLAIN_WIDTH * (1 + len(self._columns)) + sum(longest)

    def cells(self, start: int, stop: int) -> list[Cells]:
        if not self._columns:
            return [_NO_MAP]
        pairs: list[Cells] = []
        number = np.zeros(stop - start, np.int64)
        complete = 0
        for column in self._columns:
            values = column.values.slice(start, stop)
            valid = None if values.valid is None or values.valid.all() else values.valid
            if valid is None:
                complete += 1
            else:
                number += valid
            pairs += _bound_pair(column, values, valid)
        return _map(pairs, number + complete)


def _bound_pair(column: _BoundColumn, values: StringColumn, valid: Bools | None) -> list[Cells]:
    data = values.data[values.offsets[0] : values.offsets[-1]]
    if column.width is None:
        lengths = values.lengths
        pair = [constant(column.key), varints(lengths), ragged(data, lengths)]
    else:
        bounds = data.reshape(-1, column.width)
        head = constant(column.key + varint(column.width))
        pair = [head, Cells(bounds if valid is None else _spread(bounds, valid))]
    return pair if valid is None else where(pair, valid)


def _spread(bounds: Bytes, valid: Bools) -> Bytes:
    """Bounds, each in its row; rows without one have whatever bytes."""
    spread = np.zeros((len(valid), bounds.shape[1]), np.uint8)
    row = np.dtype((np.void, bounds.shape[1]))
    spread.view(row)[valid] = bounds.view(row)
    return spread


def _map(pairs: Sequence[Cells], number: Int64s) -> list[Cells]:
    # Most files have values for all columns: then the frame of the map is the same for all rows.
    first = int(number[0])
    if first and (number == first).all():
        return [constant(b"\x02" + varint(first)), *pairs, _END_OF_ARRAY]
    return optional([varints(number), *pairs, _END_OF_ARRAY], number > 0)


METRIC_IDS = {
    "column_sizes": 108,
    "value_counts": 109,
    "null_value_counts": 110,
    "nan_value_counts": 137,
    "lower_bounds": 125,
    "upper_bounds": 128,
}
"""Field ids of the maps, by their names in the specification."""


def metric_columns(
    maps: Mapping[str, Column], column_ids: Set[int] | None, rows: int
) -> tuple[ColumnMetrics, ...]:
    """Metrics by column.

    Args:
        maps: decoded maps by name.
        column_ids: columns that are wanted; None for all.
        rows: number of files.

    Raises:
        DamagedRecordsError: they are not maps from numbers.
    """
    found: dict[int, dict[str, pa.Array]] = {}
    for name, column in maps.items():
        # bounds are bytes and counts are numbers
        kind = Spans if name.endswith("bounds") else Numbers
        for column_id, array in _by_key(column, column_ids, rows, kind):
            found.setdefault(column_id, {})[name] = array
    return tuple(ColumnMetrics(column_id, **found[column_id]) for column_id in sorted(found))


def _by_key(
    column: Column, wanted: Set[int] | None, rows: int, kind: type[Spans] | type[Numbers]
) -> Iterator[tuple[int, pa.Array]]:
    if isinstance(column, Numbers) and column.valid is not None and not column.valid.any():
        return
    if not isinstance(column, Items):
        raise DamagedRecordsError
    pieces: dict[int, list[tuple[Int64s, Any, Any]]] = {}
    for files, pairs in zip(column.rows, column.items, strict=True):
        keys, values = _pair(pairs, kind)
        first = int(keys[0])
        if (keys == first).all():
            if wanted is None or first in wanted:
                pieces.setdefault(first, []).append((files, values, slice(None)))
            continue
        for key in np.unique(keys).tolist():
            if wanted is None or key in wanted:
                chosen = keys == key
                pieces.setdefault(key, []).append((files[chosen], values, chosen))
    for key, parts in pieces.items():
        yield key, _full(parts, rows)


def _pair(pairs: Column, kind: type[Spans] | type[Numbers]) -> tuple[Int64s, Spans | Numbers]:
    if not isinstance(pairs, Struct) or len(pairs.columns) != 2:
        raise DamagedRecordsError
    keys, values = pairs.columns
    if not isinstance(keys, Numbers) or keys.valid is not None or not isinstance(values, kind):
        raise DamagedRecordsError
    return keys.values, values


def _full(parts: list[tuple[Int64s, Any, Any]], rows: int) -> pa.Array:
    valid = np.zeros(rows, np.bool_)
    first = parts[0][1]
    if isinstance(first, Spans):
        starts, lengths = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
        for files, values, chosen in parts:
            starts[files], lengths[files] = values.starts[chosen], values.lengths[chosen]
            valid[files] = True if values.valid is None else values.valid[chosen]
        return Spans(first.chunk, starts, lengths, None if valid.all() else valid).to_arrow()
    numbers = np.zeros(rows, np.int64)
    for files, values, chosen in parts:
        numbers[files] = values.values[chosen]
        valid[files] = True if values.valid is None else values.valid[chosen]
    return Numbers(numbers, None if valid.all() else valid).to_arrow()
