from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from floecat.iceberg.schemas.single_values import encode_one
from floecat.iceberg.schemas.types import PrimitiveType, parse_primitive
from floecat.statistics.files.merging import merge_columns
from floecat.statistics.files.summaries import ColumnSummary
from floecat.statistics.files.theta import ThetaSketch
from tests.unit.statistics.files.table_files import column, read, schema_of, with_ids, write_parquet

_LONG = PrimitiveType("long")


@pytest.mark.parametrize(
    ("type", "arrow"),
    [
        ("long", pa.int64()),
        ("double", pa.float64()),
        ("decimal(30, 3)", pa.decimal128(30, 3)),
        ("string", pa.string()),
        ("timestamp", pa.timestamp("us")),
        ("binary", pa.binary()),
    ],
)
def test_merged_files_have_the_numbers_of_one_file(type: str, arrow: pa.DataType, tmp_path: Path) -> None:
    numbers = np.random.default_rng(1).integers(-(10**6), 10**6, 12_000)
    values = pa.array(numbers)
    values = (
        values.cast(pa.string()).cast(arrow) if arrow in (pa.string(), pa.binary()) else values.cast(arrow)
    )
    values = pa.concat_arrays([values, pa.nulls(50, arrow)])
    schema = schema_of((1, "c", type))

    def summary(start: int, end: int) -> ColumnSummary:
        table = with_ids({1: ("c", values[start:end])})
        return column(read(schema, write_parquet(tmp_path, "f.parquet", table, use_dictionary=False)), 1)

    whole = summary(0, len(values))
    parts = [summary(0, 10), summary(10, 7000), summary(7000, 12_000), summary(12_000, len(values))]
    primitive = parse_primitive(type)
    merged = merge_columns(parts, primitive)
    again = merge_columns(
        [merge_columns(parts[2:], primitive), merge_columns(parts[1::-1], primitive)], primitive
    )
    for found in (merged, again):
        assert (found.value_count, found.null_count) == (whole.value_count, 50)
        assert (found.lower, found.upper, found.sketch) == (whole.lower, whole.upper, whole.sketch)
        assert found.size_bytes == whole.size_bytes


def _part(lower: int | None, upper: int | None, **more: int | None) -> ColumnSummary:
    low, high = (None if each is None else encode_one(each, _LONG) for each in (lower, upper))
    values = {"value_count": 5, "null_count": 0, "nan_count": 0, "size_bytes": 40} | more
    return ColumnSummary(field_id=1, lower=low, upper=high, sketch=None, **values)


def test_what_is_not_known_of_a_part_is_not_known_of_all() -> None:
    known = _part(-3, 9)
    only_nulls = _part(None, None, null_count=5)
    unbounded = _part(-5, None)
    assert merge_columns([known, only_nulls], _LONG).upper == known.upper
    assert merge_columns([known, unbounded], _LONG).upper is None
    assert merge_columns([known, unbounded], _LONG).lower == unbounded.lower
    assert merge_columns([only_nulls, only_nulls], _LONG).lower is None


@pytest.mark.parametrize("zeros", [(0.0, -0.0), (-0.0, 0.0)])
def test_zeros_of_both_signs_are_ordered(zeros: tuple[float, float]) -> None:
    double = PrimitiveType("double")
    parts = [
        ColumnSummary(1, 1, 0, 0, encode_one(zero, double), encode_one(zero, double), 8, None)
        for zero in zeros
    ]
    merged = merge_columns(parts, double)
    assert (merged.lower, merged.upper) == (encode_one(-0.0, double), encode_one(0.0, double))


def test_parts_without_values_have_no_sketch_of_their_own() -> None:
    empty = ColumnSummary(1, 5, 5, 0, None, None, 0, None)
    sketch = ThetaSketch(np.array([1, 2], np.uint64)).to_bytes()
    full = ColumnSummary(1, 2, 0, 0, encode_one(1, _LONG), encode_one(2, _LONG), 16, sketch)
    assert merge_columns([empty, full], _LONG).sketch == sketch
    assert merge_columns([empty, empty], _LONG).sketch is None
