from __future__ import annotations

import io
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floecat.iceberg.parquet.column_statistics import ColumnFooter, column_footer, successor, successors
from floecat.iceberg.parquet.footers import footer_metrics
from floecat.iceberg.parquet.parquet_schema import ParquetColumn
from floecat.iceberg.schemas.types import PrimitiveType, parse_primitive

INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)


@dataclass(frozen=True)
class Column:
    type: PrimitiveType
    field_id: int = 1
    physical_path: tuple[str, ...] = ("c",)


def footer(values: Sequence[Any], arrow_type: pa.DataType, type: str, **options: Any) -> ColumnFooter:
    file = io.BytesIO()
    pq.write_table(pa.table({"c": pa.array(values, arrow_type)}), file, **options)
    return footer_metrics(file.getvalue(), [Column(parse_primitive(type))], "f.parquet").columns[1]


def int_of(width: int) -> Callable[[int], bytes]:
    return lambda value: value.to_bytes(width, "little", signed=True)


def float_of(code: str) -> Callable[[float], bytes]:
    return lambda value: struct.pack(code, value)


@pytest.mark.parametrize(
    ("arrow_type", "type", "values", "encode"),
    [
        (pa.int8(), "int", st.integers(-128, 127), int_of(4)),
        (pa.int16(), "int", st.integers(-(2**15), 2**15 - 1), int_of(4)),
        (pa.int32(), "int", INT32, int_of(4)),
        (pa.int32(), "long", INT32, int_of(8)),
        (pa.int64(), "long", INT64, int_of(8)),
        (pa.bool_(), "boolean", st.booleans(), int_of(1)),
        (pa.timestamp("us"), "timestamp", INT64, int_of(8)),
        (pa.timestamp("us", "UTC"), "timestamptz", INT64, int_of(8)),
        (pa.string(), "string", st.text(max_size=20), str.encode),
        (
            pa.float32(),
            "double",
            st.floats(width=32, allow_nan=False).filter(lambda value: value != 0),
            float_of("<d"),
        ),
        (pa.float64(), "double", st.floats(allow_nan=False).filter(lambda value: value != 0), float_of("<d")),
    ],
)
@settings(max_examples=50)
@given(data=st.data(), group=st.integers(1, 4))
def test_bounds_are_least_and_greatest_value(
    arrow_type: pa.DataType,
    type: str,
    values: st.SearchStrategy[Any],
    encode: Callable[[Any], bytes],
    data: st.DataObject,
    group: int,
) -> None:
    column = data.draw(st.lists(st.none() | values, max_size=10))
    known = [value for value in column if value is not None]
    found = footer(column, arrow_type, type, row_group_size=group)
    assert (found.value_count, found.null_count) == (len(column), len(column) - len(known))
    if known:
        assert (found.lower, found.upper) == (encode(min(known)), encode(max(known)))
    else:
        assert found.lower is found.upper is None


@pytest.mark.parametrize(
    ("arrow_type", "type"),
    [
        (pa.int64(), "int"),
        (pa.uint32(), "long"),
        (pa.uint8(), "int"),
        (pa.float64(), "float"),
        (pa.int64(), "double"),
        (pa.int32(), "date"),
        (pa.date32(), "int"),
        (pa.binary(), "string"),
        (pa.string(), "binary"),
        (pa.int64(), "timestamp"),
        (pa.timestamp("us", "UTC"), "timestamp"),
        (pa.timestamp("us"), "timestamptz"),
        (pa.time64("us"), "long"),
        (pa.decimal128(9, 2), "decimal(9, 1)"),
        (pa.int64(), "decimal(19, 0)"),
        (pa.decimal128(9, 2), "long"),
        (pa.int32(), "boolean"),
    ],
)
def test_a_file_with_another_type_has_counts_only(arrow_type: pa.DataType, type: str) -> None:
    value: Any = 1
    if pa.types.is_decimal(arrow_type):
        value = Decimal(1)
    elif pa.types.is_string(arrow_type) or pa.types.is_binary(arrow_type):
        value = b"1"
    assert footer([value, None], arrow_type, type) == ColumnFooter(2, 1)


def test_old_timestamps_have_no_order() -> None:
    at = datetime(9999, 12, 31, tzinfo=UTC)
    found = footer([at], pa.timestamp("us"), "timestamptz", use_deprecated_int96_timestamps=True)
    assert found.lower is found.upper is None


def test_units_of_timestamps() -> None:
    found = footer([-5, 7], pa.timestamp("ms", "UTC"), "timestamptz")
    assert found == ColumnFooter(2, 0, int_of(8)(-5000), int_of(8)(7000))
    found = footer([-1501, 1501], pa.timestamp("ns"), "timestamp", version="2.6")
    assert found == ColumnFooter(2, 0, int_of(8)(-2), int_of(8)(2))


@pytest.mark.parametrize("arrow_type", [pa.float32(), pa.float64()])
def test_zeros_of_either_sign_are_within_bounds(arrow_type: pa.DataType) -> None:
    found = footer([0.0], arrow_type, "double")
    assert (found.lower, found.upper) == (struct.pack("<d", -0.0), struct.pack("<d", 0.0))


def test_nan_is_no_bound() -> None:
    assert of_chunks(
        "DOUBLE", "", "double", {MIN: struct.pack("<d", 1.5), MAX: struct.pack("<d", math.nan)}
    ) == (ColumnFooter(10, None, struct.pack("<d", 1.5)))
    assert footer([math.nan], pa.float64(), "double") == ColumnFooter(1, 0)


def test_long_strings_are_cut() -> None:
    found = footer(["ä" * 100, "z" * 100], pa.string(), "string")
    assert found.lower == b"z" * 64
    assert found.upper == ("ä" * 63 + "å").encode()
    assert footer(["\U0010ffff" * 100], pa.string(), "string").upper is None


def test_a_file_without_statistics_counts_values_only() -> None:
    assert footer([1, None], pa.int64(), "long", write_statistics=False) == ColumnFooter(2)
    assert footer([], pa.int64(), "long", write_statistics=False).lower is None


@given(data=st.data(), scale=st.integers(0, 10), more=st.integers(0, 8))
def test_decimals_of_a_smaller_type_are_rescaled(data: st.DataObject, scale: int, more: int) -> None:
    precision = data.draw(st.integers(max(1, scale), 30))
    limit = 10**precision - 1
    unscaled = data.draw(st.lists(st.integers(-limit, limit), min_size=1, max_size=5))
    values = [Decimal(value).scaleb(-scale, Context(prec=60)) for value in unscaled]
    as_integer = data.draw(st.booleans())
    wide = f"decimal({precision + more}, {scale + more})"
    found = footer(values, pa.decimal128(precision, scale), wide, store_decimal_as_integer=as_integer)
    for bound, value in ((found.lower, min(unscaled)), (found.upper, max(unscaled))):
        assert bound is not None
        assert int.from_bytes(bound, "big", signed=True) == value * 10**more


def test_decimals_that_the_column_cannot_hold_are_unknown() -> None:
    assert footer([Decimal("99.9")], pa.decimal128(3, 1), "decimal(3, 2)") == ColumnFooter(1, 0)


OLD_MAX, OLD_MIN, NULLS, MAX, MIN = 1, 2, 3, 5, 6


def of_chunks(
    store: str, logical: str, type: str, *chunks: dict[int, Any], ordered: bool = True
) -> ColumnFooter:
    column = ParquetColumn(("c",), None, store, logical)
    return column_footer(column, parse_primitive(type), [10] * len(chunks), chunks, ordered=ordered)


def test_numbers_may_have_the_older_minima_and_maxima() -> None:
    one, two = (value.to_bytes(4, "little") for value in (1, 2))
    old = {OLD_MIN: one, OLD_MAX: two, NULLS: 0}
    assert of_chunks("INT32", "", "int", old) == ColumnFooter(10, 0, one, two)
    assert of_chunks("INT32", "", "int", old | {MIN: two, MAX: two}) == ColumnFooter(10, 0, two, two)
    # an order that is not the type's
    assert of_chunks("INT32", "", "int", old | {MIN: two}, ordered=False) == ColumnFooter(10, 0, one, two)


def test_the_older_minima_and_maxima_of_strings_had_the_wrong_order() -> None:
    assert of_chunks("BYTE_ARRAY", "string", "string", {OLD_MIN: b"a", OLD_MAX: b"b"}) == ColumnFooter(10)
    new = {MIN: b"a", MAX: b"b"}
    assert of_chunks("BYTE_ARRAY", "string", "string", new) == ColumnFooter(10, None, b"a", b"b")
    assert of_chunks("BYTE_ARRAY", "string", "string", new, ordered=False) == ColumnFooter(10)


def test_one_row_group_without_a_bound_leaves_the_file_without() -> None:
    known, half = {NULLS: 1, MIN: b"b", MAX: b"c"}, {NULLS: 2, MIN: b"a"}
    assert of_chunks("BYTE_ARRAY", "string", "string", known, half) == ColumnFooter(20, 3, b"a", None)
    assert of_chunks("BYTE_ARRAY", "string", "string", known, {}) == ColumnFooter(20)
    # unless it has no values
    nulls = {NULLS: 10}
    assert of_chunks("BYTE_ARRAY", "string", "string", known, nulls) == ColumnFooter(20, 11, b"b", b"c")


@pytest.mark.parametrize("stored", [b"", b"\x01\x02\x03", b"\x01" * 8, 5, [b"a"]])
def test_values_of_the_wrong_length_are_unknown(stored: Any) -> None:
    assert of_chunks("INT32", "", "int", {MIN: stored, MAX: stored}) == ColumnFooter(10)


@pytest.mark.parametrize("nulls", [-1, 11, b"1"])
def test_null_counts_that_cannot_be_are_unknown(nulls: Any) -> None:
    assert of_chunks("INT32", "", "int", {NULLS: nulls}) == ColumnFooter(10)


def test_strings_that_are_none_are_unknown() -> None:
    assert of_chunks("BYTE_ARRAY", "string", "string", {MIN: b"a", MAX: b"\xff"}) == ColumnFooter(
        10, None, b"a"
    )


LAST = "\U0010ffff"
# characters at the edges of what a byte, a sequence of bytes or a code unit can hold
EDGES = st.text(
    st.sampled_from("\x00a~\x7f\x80\u07ff\u0800\ud7ff\ue000\ufffd\uffff\U00010000" + LAST), max_size=4
)


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("abc", "abd"),
        ("ab~", "ab\x7f"),
        ("ab\x7f", "ab\x80"),
        ("ä", "å"),
        ("a\ud7ff", "a\ue000"),
        ("a\uffff", "a\U00010000"),
        ("a" + LAST + LAST, "b"),
        (LAST, None),
        ("", None),
    ],
)
def test_the_successor_is_the_next_prefix(prefix: str, expected: str | None) -> None:
    assert successor(prefix) == expected
    assert successors(pa.array([prefix])).to_pylist() == [expected]


@given(prefix=st.text() | EDGES, rest=st.text() | EDGES)
def test_the_successor_is_above_all_that_starts_with_the_prefix(prefix: str, rest: str) -> None:
    found = successor(prefix)
    assert found is None or found.encode() > (prefix + rest).encode()


@given(prefixes=st.lists(st.none() | st.text(max_size=5) | EDGES, max_size=20), start=st.integers(0, 3))
def test_an_array_gets_the_same_successors(prefixes: list[str | None], start: int) -> None:
    expected = [None if prefix is None else successor(prefix) for prefix in prefixes]
    array = pa.array(prefixes, pa.string())
    assert successors(array).to_pylist() == expected
    assert successors(array.slice(start)).to_pylist() == expected[start:]
    assert array.to_pylist() == prefixes  # nothing was changed in place
