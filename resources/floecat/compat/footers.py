"""Footers of data files whose rows the log does not count."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from floecat.iceberg.file_metrics import FileMetrics

__all__ = ["read_footers"]


def read_footers(metrics, locations, files, translated, storage, artifacts, allowed):
    def one(item):
        n, l = item
        if n is not None:
            return n
        allowed.check(l)
        return pq.read_metadata(pa.BufferReader(storage.read(l))).num_rows

    n = artifacts.each(one, list(zip(metrics.record_counts.to_pylist(), locations.to_pylist())))
    return FileMetrics(pa.array(n, pa.int64()), metrics.columns)
