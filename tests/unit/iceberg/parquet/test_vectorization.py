from __future__ import annotations

import io
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from floecat.iceberg.parquet.footers import footer_metrics
from floecat.iceberg.schemas.types import PrimitiveType, parse_primitive

LOCATION = "s3://bucket/t/part-1.parquet"
ZONED, LOCAL = pa.timestamp("us", "UTC"), pa.timestamp("us")


@dataclass(frozen=True)
class Column:
    physical_path: tuple[str, ...]
    type: PrimitiveType
    field_id: int = 1


def reads(values: pa.Array, type: str, *, path: tuple[str, ...] = ("c",), **options: Any) -> bool:
    """Of a file with the column `c`, and one beside it that no table reads."""
    file = io.BytesIO()
    other = pa.array([0] * len(values), pa.timestamp("ms"))
    pq.write_table(pa.table({"other": other, "c": values}), file, **options)
    return footer_metrics(file.getvalue(), [Column(path, parse_primitive(type))], LOCATION).vectorized


def encoded(encoding: str) -> dict[str, Any]:
    return {"use_dictionary": False, "column_encoding": {"c": encoding}}


INTS, LONGS = pa.array([1, None, 3], pa.int32()), pa.array([1, None, 3], pa.int64())
TEXTS, BYTES = pa.array(["a", None, "ab"]), pa.array([b"a", None, b"ab"])
FLAGS, FLOATS = pa.array([True, None, False]), pa.array([1.0, None, 2.5], pa.float32())
MOMENTS = pa.array([1_000_000, None, 2_000_000], ZONED)
DECIMALS = pa.array([Decimal("1.50"), None], pa.decimal128(20, 2))


@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize(
    ("values", "type"),
    [
        (INTS, "int"),
        (INTS, "long"),
        (INTS.cast(pa.int8()), "int"),
        (INTS.cast(pa.int16()), "int"),
        (LONGS, "long"),
        (FLOATS, "float"),
        (FLOATS, "double"),
        (TEXTS, "string"),
        (BYTES, "binary"),
        (DECIMALS, "decimal(20,2)"),
        (MOMENTS, "timestamptz"),
        (MOMENTS.cast(LOCAL), "timestamp"),
        (INTS.cast(pa.date32()), "date"),
    ],
)
def test_what_writers_write(values, type, version, dictionary):
    assert reads(values, type, data_page_version=version, use_dictionary=dictionary)


@pytest.mark.parametrize("options", [{"use_deprecated_int96_timestamps": True}, {"coerce_timestamps": "us"}])
def test_timestamps_of_other_forms(options):
    assert reads(MOMENTS, "timestamptz", **options)


@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize(("values", "type"), [(MOMENTS, "timestamptz"), (MOMENTS.cast(LOCAL), "timestamp")])
def test_milliseconds(values, type, dictionary):
    assert not reads(values, type, coerce_timestamps="ms", use_dictionary=dictionary)


@pytest.mark.parametrize("of_file", [pa.int8(), pa.int16()])
def test_annotated_integers_of_a_widened_column(of_file):
    assert reads(INTS.cast(of_file), "int")
    assert not reads(INTS.cast(of_file), "long")


def test_byte_arrays_of_a_fixed_length():
    assert not reads(pa.array([b"ab", None], pa.binary(2)), "binary")
    assert reads(DECIMALS, "decimal(20,2)")


def test_decimals_in_byte_arrays_of_any_length():
    assert not reads(BYTES, "decimal(20,2)")


@pytest.mark.parametrize(
    ("values", "type", "encoding", "is_read"),
    [
        (INTS, "int", "DELTA_BINARY_PACKED", True),
        (LONGS, "long", "DELTA_BINARY_PACKED", True),
        (TEXTS, "string", "DELTA_BYTE_ARRAY", False),
        (BYTES, "binary", "DELTA_BYTE_ARRAY", False),
        (DECIMALS, "decimal(20,2)", "DELTA_BYTE_ARRAY", False),
        (TEXTS, "string", "DELTA_LENGTH_BYTE_ARRAY", False),
        (FLOATS, "float", "BYTE_STREAM_SPLIT", False),
        (LONGS, "long", "BYTE_STREAM_SPLIT", False),
        (FLAGS, "boolean", "PLAIN", True),
        (FLAGS, "boolean", "RLE", False),
    ],
)
def test_encodings(values, type, encoding, is_read):
    assert reads(values, type, **encoded(encoding)) is is_read


def test_booleans_of_pages_of_the_second_version():
    """Their encoding is told of levels too."""
    assert reads(FLAGS, "boolean", data_page_version="1.0")
    assert not reads(FLAGS, "boolean", data_page_version="2.0")


def test_only_columns_that_are_read_by_vectors_count():
    milliseconds = pa.array([1, None], pa.timestamp("ms", "UTC"))
    assert not reads(milliseconds, "timestamptz")
    assert reads(milliseconds, "timestamptz", path=("another",))
    nested = pa.array([{"t": 1}], pa.struct([("t", pa.timestamp("ms", "UTC"))]))
    assert reads(nested, "timestamptz", path=("c", "t"))
