"""Metrics of data files, column by column: what a manifest says about the rows of its files.

The row-oriented form is the `data_file` struct of a manifest entry (table specification, "Manifests"), where
counts and bounds are maps from field id to value. Here each field id holds one Arrow array with a slot per
file, so that the metrics of many files never become Python objects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ColumnMetrics", "FileMetrics"]


@dataclass(frozen=True)
class ColumnMetrics:
    """What is known of one column, one slot per file. A null slot, or None for the array, means unknown.

    Attributes:
        field_id: id of the column in the Iceberg schema.
        value_counts: number of values, nulls and NaNs included.
        null_value_counts: number of nulls.
        lower_bounds: a value that no value of the column is below, as an Iceberg single value (table
            specification, Appendix D). Not necessarily a value of the column.
        upper_bounds: a value that no value of the column is above, likewise.
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


@dataclass(frozen=True)
class FileMetrics:
    """The metrics of some files, in the order of the files.

    Attributes:
        record_counts: rows that the file holds physically, deleted ones included; null when unknown.
        columns: by field id, ascending; columns of which nothing is known are left out.
    """

    record_counts: pa.Int64Array
    columns: tuple[ColumnMetrics, ...] = ()
