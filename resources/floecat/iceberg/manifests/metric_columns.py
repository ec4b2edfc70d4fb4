"""The metric maps of manifest entries as columns: of each column of the table, a value for each file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any

import numpy as np
import pyarrow as pa

from floecat.iceberg.avro.cursors import DamagedRecordsError
from floecat.iceberg.avro.decoding import Column, Items, Numbers, Spans, Struct
from floecat.iceberg.avro.string_columns import Int64s
from floecat.iceberg.file_metrics import ColumnMetrics

__all__ = ["METRIC_IDS", "metric_columns"]

METRIC_IDS = {
    "column_sizes": 108,
    "value_counts": 109,
    "null_value_counts": 110,
    "nan_value_counts": 137,
    "lower_bounds": 125,
    "upper_bounds": 128,
}
"""The maps, by the name that the specification has for them."""


def metric_columns(
    maps: Mapping[str, Column], column_ids: Set[int] | None, rows: int
) -> tuple[ColumnMetrics, ...]:
    """Metrics by column.

    Args:
        maps: decoded maps by name.
        column_ids: columns that are wanted; None for all.
        rows: number of files.

    Raises:
        DamagedRecordsError: they are no maps from numbers.
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
