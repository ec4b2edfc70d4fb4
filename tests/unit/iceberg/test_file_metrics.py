from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from floecat.iceberg.file_metrics import ColumnMetrics, FileMetrics, join_metrics


def metrics(counts: Sequence[int | None], *columns: ColumnMetrics) -> FileMetrics:
    return FileMetrics(pa.array(counts, pa.int64()), columns)


def test_no_part_means_that_nothing_is_known() -> None:
    joined = join_metrics([], 3)
    assert joined.record_counts.to_pylist() == [None, None, None]
    assert joined.columns == ()


def test_one_part_of_all_files_is_kept_and_sorted_by_id() -> None:
    part = metrics([1, 2], ColumnMetrics(2), ColumnMetrics(1))
    joined = join_metrics([(np.arange(2), part)], 2)
    assert joined.record_counts is part.record_counts
    assert [column.field_id for column in joined.columns] == [1, 2]


def test_files_keep_their_places() -> None:
    first = metrics([10, 30], ColumnMetrics(1, lower_bounds=pa.array([b"a", b"c"])))
    second = metrics([20], ColumnMetrics(2, null_value_counts=pa.array([5], pa.int64())))
    joined = join_metrics([(np.array([0, 2]), first), (np.array([1]), second)], 4)
    assert joined.record_counts.to_pylist() == [10, 20, 30, None]
    lower, nulls = joined.columns
    assert lower.lower_bounds.to_pylist() == [b"a", None, b"c", None]
    assert lower.upper_bounds is None
    assert nulls.null_value_counts.to_pylist() == [None, 5, None, None]


def test_value_counts_that_are_the_row_counts_stay_shared() -> None:
    parts = []
    for start in (0, 2):
        counts = pa.array([start, start + 1], pa.int64())
        columns = (ColumnMetrics(1, counts), ColumnMetrics(2, pa.array([7, 8], pa.int64())))
        parts.append((np.arange(start, start + 2), FileMetrics(counts, columns)))
    joined = join_metrics(parts, 4)
    assert joined.columns[0].value_counts is joined.record_counts
    assert joined.columns[1].value_counts.to_pylist() == [7, 8, 7, 8]
