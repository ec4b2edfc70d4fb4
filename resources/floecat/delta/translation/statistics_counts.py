"""Counts in Delta's statistics, and what they say of the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from floecat.delta.translation.statistics_longs import longs_array
from floecat.iceberg.file_metrics import ColumnMetrics
from floecat.iceberg.schemas.single_values import encode

if TYPE_CHECKING:
    from floecat.delta.translation.schema import LeafColumn
    from floecat.delta.translation.statistics_bounds import Bounds

__all__ = ["FileCounts"]

_Longs: TypeAlias = npt.NDArray[np.int64]
_Bools: TypeAlias = npt.NDArray[np.bool_]


class FileCounts:
    """Counts of some files, by which it is judged what their statistics are worth."""

    def __init__(self, records: _Longs, is_counted: _Bools, is_wide: _Bools) -> None:
        """Takes them.

        Args:
            records: number of rows, shape (n,).
            is_counted: where it is known, likewise.
            is_wide: where `tightBounds` is false, likewise.
        """
        self._records = records
        self._is_counted = is_counted & (records >= 0)
        self._is_wide = is_wide
        self.record_counts = longs_array(records, self._is_counted)

    def column(
        self, leaf: LeafColumn, nulls: _Longs, is_counted: _Bools, bounds: Bounds | None
    ) -> ColumnMetrics | None:
        """Metrics of a column, None if nothing is known.

        Args:
            leaf: the column.
            nulls: its null counts, shape (n,).
            is_counted: where they are known, likewise.
            bounds: its bounds.
        """
        is_all = self._is_counted & (nulls == self._records)
        is_kept = is_counted & (nulls >= 0) & (~self._is_counted | (nulls <= self._records))
        is_kept &= ~self._is_wide | is_all | (nulls == 0)
        is_valued = is_kept & self._is_counted
        value_counts = self.record_counts
        if not np.array_equal(is_valued, self._is_counted):
            value_counts = longs_array(self._records, is_valued)
        null_counts = longs_array(nulls, is_kept)
        lower = upper = None
        if bounds is not None:
            # Without any value there is nothing to bound, and Delta says that these carry no information.
            is_empty = is_kept & is_all
            lower, upper = (_without(side, is_empty) for side in (bounds.lower, bounds.upper))
        column = ColumnMetrics(
            leaf.field_id,
            _known(value_counts) if is_kept.any() else None,
            _known(null_counts),
            None if lower is None or not _known(lower) else encode(lower, leaf.type),
            None if upper is None or not _known(upper) else encode(upper, leaf.type),
        )
        is_known = (column.null_value_counts, column.lower_bounds, column.upper_bounds) != (None, None, None)
        return column if is_known else None


def _known(values: pa.Array) -> pa.Array | None:
    return values if values.null_count < len(values) else None


def _without(values: pa.Array, is_left_out: _Bools) -> pa.Array:
    if not is_left_out.any():
        return values
    return pc.if_else(pa.array(is_left_out), pa.scalar(None, values.type), values)
