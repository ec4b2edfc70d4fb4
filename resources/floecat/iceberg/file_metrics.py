"""Metrics of data files, column by column: what a manifest says about the rows of its files.

The row-oriented form is the `data_file` struct of a manifest entry (table specification, "Manifests"), where
counts and bounds are maps from field id to value. Here each field id holds one Arrow array with a slot per
file, so that the metrics of many files never become Python objects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["ColumnMetrics", "FileMetrics", "MetricsPart", "join_metrics"]


@dataclass(frozen=True)
class ColumnMetrics:
    """The metrics of one column, one slot per file. A null slot, or None for the array, means unknown.

    Attributes:
        field_id: id of the column in the Iceberg schema.
        value_counts: number of values, nulls and NaNs included.
        null_value_counts: number of nulls.
        lower_bounds: a value that no value of the column is below, as an Iceberg single value (table
            specification, Appendix D). Not necessarily a value of the column.
        upper_bounds: a value that no value of the column is above, in the same form.
        nan_value_counts: number of NaNs.
        column_sizes: bytes that the column takes in the file.
    """

    field_id: int
    value_counts: pa.Int64Array | None = None
    null_value_counts: pa.Int64Array | None = None
    lower_bounds: pa.BinaryArray | None = None
    upper_bounds: pa.BinaryArray | None = None
    nan_value_counts: pa.Int64Array | None = None
    column_sizes: pa.Int64Array | None = None

    def slice(self, begin: int, size: int) -> ColumnMetrics:
        """The metrics of some files, one after the other."""
        found = {name: getattr(self, name) for name in _ARRAYS}
        return replace(
            self,
            **{name: array.slice(begin, size) for name, array in found.items() if array is not None},
        )


_ARRAYS: Final = tuple(each.name for each in fields(ColumnMetrics) if each.name != "field_id")


@dataclass(frozen=True)
class FileMetrics:
    """The metrics of some files, in the order of the files.

    Attributes:
        record_counts: rows that the file holds physically, deleted ones included; null when unknown.
        columns: by field id, ascending; columns of which nothing is known are left out.
    """

    record_counts: pa.Int64Array
    columns: tuple[ColumnMetrics, ...] = ()


MetricsPart: TypeAlias = tuple[npt.NDArray[np.int64], FileMetrics]
"""Some files, as their places among all files, and their metrics."""


def join_metrics(parts: Sequence[MetricsPart], count: int) -> FileMetrics:
    """Joins metrics.

    Args:
        parts: metrics of some files each. No file is in two of them.
        count: how many files there are in all.

    Returns:
        Metrics of all files; those of files in no part are unknown.
    """
    if not parts:
        return FileMetrics(pa.nulls(count, pa.int64()))
    order = _order(parts, count)
    if len(parts) == 1 and order is None:
        columns = sorted(parts[0][1].columns, key=lambda column: column.field_id)
        return replace(parts[0][1], columns=tuple(columns))
    record_counts = _join(parts, order, [metrics.record_counts for _, metrics in parts], pa.int64())
    by_id = [{column.field_id: column for column in metrics.columns} for _, metrics in parts]
    joined = []
    for field_id in sorted(set().union(*by_id)):
        found = [columns.get(field_id, ColumnMetrics(field_id)) for columns in by_id]
        joined.append(_join_column(parts, order, found, record_counts))
    return FileMetrics(record_counts, tuple(joined))


def _order(parts: Sequence[MetricsPart], count: int) -> pa.Int64Array | None:
    """The place of each file in the parts, null for nowhere; None if they are in order and complete."""
    rows = np.concatenate([rows for rows, _ in parts])
    if np.array_equal(rows, np.arange(count)):
        return None
    places = np.full(count, -1, dtype=np.int64)
    places[rows] = np.arange(len(rows))
    return pa.array(places, mask=places < 0)


def _join(
    parts: Sequence[MetricsPart],
    order: pa.Int64Array | None,
    arrays: Sequence[pa.Array | None],
    type: pa.DataType,
) -> pa.Array | None:
    if all(array is None for array in arrays):
        return None
    filled = [
        pa.nulls(len(rows), type) if array is None else array
        for (rows, _), array in zip(parts, arrays, strict=True)
    ]
    joined = pa.concat_arrays(filled)
    return joined if order is None else joined.take(order)


def _join_column(
    parts: Sequence[MetricsPart],
    order: pa.Int64Array | None,
    found: Sequence[ColumnMetrics],
    record_counts: pa.Int64Array | None,
) -> ColumnMetrics:
    def join(of: Callable[[ColumnMetrics], pa.Array | None], type: pa.DataType) -> pa.Array | None:
        return _join(parts, order, [of(column) for column in found], type)

    # Most columns have a value for each row, and then share the array of the row counts.
    is_shared = all(
        column.value_counts is part.record_counts for column, (_, part) in zip(found, parts, strict=True)
    )
    return ColumnMetrics(
        found[0].field_id,
        record_counts if is_shared else join(lambda column: column.value_counts, pa.int64()),
        join(lambda column: column.null_value_counts, pa.int64()),
        join(lambda column: column.lower_bounds, pa.binary()),
        join(lambda column: column.upper_bounds, pa.binary()),
    )
