"""Metrics of data files out of the statistics in a Delta log.

Statistics are hints, which a reader of Delta may ignore. What cannot be read is unknown here and no error: a text
that is no JSON leaves its file without metrics, a value of another type its column without bound. Rows are
counted in the files then, see `floecat.iceberg.parquet_footers`.

Metrics of Iceberg are about all rows that a data file holds. So are `numRecords` and, for readers that apply the
deletion vector, minima and maxima: they hold the remaining rows at least. Null counts are only about the
remaining rows if `tightBounds` is true; readers take from them whether there are nulls, or nothing else, and for
that both are as good. If it is false, a null count other than zero or all says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from floecat.delta.translation.schema import LeafColumn, TranslatedSchema
from floecat.delta.translation.statistics_bounds import (
    Bounds,
    bounds_from_tokens,
    bounds_from_values,
    bounds_of_longs,
    has_bounds,
    is_long,
)
from floecat.delta.translation.statistics_text import DocumentReader
from floecat.iceberg.file_metrics import ColumnMetrics, FileMetrics
from floecat.iceberg.single_values import encode

__all__ = ["file_metrics"]

_Longs: TypeAlias = npt.NDArray[np.int64]
_Bools: TypeAlias = npt.NDArray[np.bool_]

_CHUNK_ROWS = 1 << 14
"""Files that are read at a time, which bounds the memory for texts."""
