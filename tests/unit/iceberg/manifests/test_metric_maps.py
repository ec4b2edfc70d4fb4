from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from floecat.iceberg.avro.columns import lay_out
from floecat.iceberg.file_metrics import ColumnMetrics, FileMetrics
from floecat.iceberg.manifests.metric_maps import MetricMap, MetricMaps

PAIRS = {"type": "record", "name": "p", "fields": [{"name": "key", "type": "int"}, {"name": "value"}]}


def read(metric_map: MetricMap, start: int, stop: int, value_type: str) -> list[dict[int, Any] | None]:
    pair = {**PAIRS, "fields": [PAIRS["fields"][0], {"name": "value", "type": value_type}]}  # type: ignore[index]
    schema = fastavro.parse_schema(["null", {"type": "array", "items": pair}])
    data, sizes = lay_out(metric_map.cells(start, stop), stop - start)
    assert sizes.max() <= metric_map.width(start, stop)
    maps = []
    for end, size in zip(np.cumsum(sizes), sizes, strict=True):
        record = BytesIO(data[end - size : end].tobytes())
        pairs: Any = fastavro.schemaless_reader(record, schema, None)
        assert not record.read()
        maps.append(None if pairs is None else {pair["key"]: pair["value"] for pair in pairs})
    return maps


def wanted(columns: dict[int, Sequence[Any]], start: int, stop: int) -> list[dict[int, Any] | None]:
    return [
        {key: values[row] for key, values in columns.items() if values[row] is not None} or None
        for row in range(start, stop)
    ]


COUNTS: dict[int, list[int | None]] = {
    1: [1, None, None, 4],
    63: [300, 300, None, 300],
    64: [0, 2**40, None, 0],
    9000: [None, 5, None, 6],
    9001: [7, 7, 7, 7],
}
BOUNDS: dict[int, list[bytes | None]] = {
    1: [b"12345678", b"abcdefgh", None, b"ABCDEFGH"],
    2: [b"1234", b"5678", b"9012", b"3456"],
    64: [b"a", b"", None, b"long" * 40],
    65: [b"", b"", b"", b""],
    9000: [None, None, b"x", b"yy"],
}


@pytest.mark.parametrize(("start", "stop"), [(0, 4), (0, 1), (1, 3), (2, 3), (3, 4)])
def test_counts(start: int, stop: int) -> None:
    for known in (COUNTS, {1: COUNTS[1]}, {9001: COUNTS[9001]}):
        columns = tuple(
            ColumnMetrics(key, value_counts=pa.array(values, pa.int64())) for key, values in known.items()
        )
        maps = MetricMaps.of(FileMetrics(pa.array([1] * 4), columns))
        assert read(maps.value_counts, start, stop, "long") == wanted(known, start, stop)
        assert read(maps.null_value_counts, start, stop, "long") == [None] * (stop - start)


@pytest.mark.parametrize(("start", "stop"), [(0, 4), (0, 1), (1, 3), (2, 3), (3, 4)])
def test_bounds(start: int, stop: int) -> None:
    for known in (BOUNDS, {1: BOUNDS[1]}, {2: BOUNDS[2]}, {65: BOUNDS[65]}):
        columns = tuple(
            ColumnMetrics(key, upper_bounds=pa.array(values, pa.binary())) for key, values in known.items()
        )
        maps = MetricMaps.of(FileMetrics(pa.array([1] * 4), columns))
        assert read(maps.upper_bounds, start, stop, "bytes") == wanted(known, start, stop)
        assert read(maps.lower_bounds, start, stop, "bytes") == [None] * (stop - start)


def test_columns_of_which_nothing_is_known() -> None:
    nothing = ColumnMetrics(1, value_counts=pa.nulls(2, pa.int64()), lower_bounds=pa.nulls(2, pa.binary()))
    maps = MetricMaps.of(FileMetrics(pa.array([1, 1]), (nothing,)))
    assert read(maps.value_counts, 0, 2, "long") == [None, None]
    assert read(maps.lower_bounds, 0, 2, "bytes") == [None, None]
