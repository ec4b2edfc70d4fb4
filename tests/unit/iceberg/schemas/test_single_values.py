from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg import types as reference_types
from pyiceberg.conversions import to_bytes

from floecat.iceberg.schemas.single_values import encode, encode_one
from floecat.iceberg.schemas.types import PrimitiveType, parse_primitive

EXACT = Context(prec=60)
INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
DAYS = st.integers((date.min - date(1970, 1, 1)).days, (date.max - date(1970, 1, 1)).days)

CASES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any], reference_types.PrimitiveType]] = {
    "boolean": (pa.bool_(), st.booleans(), reference_types.BooleanType()),
    "int": (pa.int32(), INTS, reference_types.IntegerType()),
    "long": (pa.int64(), LONGS, reference_types.LongType()),
    "float": (pa.float32(), st.floats(width=32, allow_nan=False), reference_types.FloatType()),
    "double": (pa.float64(), st.floats(allow_nan=False), reference_types.DoubleType()),
    "date": (pa.int32(), DAYS, reference_types.DateType()),
    "timestamp": (pa.int64(), LONGS, reference_types.TimestampType()),
    "timestamptz": (pa.int64(), LONGS, reference_types.TimestamptzType()),
    "string": (pa.string(), st.text(), reference_types.StringType()),
    "binary": (pa.binary(), st.binary(), reference_types.BinaryType()),
}


def check(name: str, values: Sequence[Any], expected: Sequence[bytes | None]) -> None:
    type = parse_primitive(name)
    arrow_type = pa.decimal128(*type.parameters) if type.name == "decimal" else CASES[name][0]
    array = pa.array(values, arrow_type)
    assert encode(array, type).to_pylist() == list(expected)
    # a slice has an offset, in whose bytes its validity does not begin
    padded = pa.concat_arrays([pa.nulls(3, arrow_type), array])
    assert encode(padded.slice(3), type).to_pylist() == list(expected)


@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
def test_encodes_as_the_reference_does(name: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | CASES[name][1], max_size=20))
    expected = [None if value is None else to_bytes(CASES[name][2], value) for value in values]
    check(name, values, expected)
    type = parse_primitive(name)
    assert [None if value is None else encode_one(value, type) for value in values] == expected


@given(data=st.data(), scale=st.integers(0, 38))
def test_encodes_decimals_as_the_reference_does(data: st.DataObject, scale: int) -> None:
    precision = data.draw(st.integers(max(scale, 1), 38))
    limit = 10**precision - 1
    # half of them close to where one more byte is needed
    edges = (
        st.integers(0, 126)
        .map(lambda bits: 2**bits)
        .flatmap(lambda edge: st.sampled_from([edge, edge - 1, -edge, -edge - 1]))
    )
    unscaled = st.one_of(st.integers(-limit, limit), edges.filter(lambda value: abs(value) <= limit))
    values = data.draw(st.lists(st.none() | unscaled, max_size=20))
    decimals = [None if value is None else Decimal(value).scaleb(-scale, EXACT) for value in values]
    reference = reference_types.DecimalType(precision, scale)
    expected = [None if value is None else to_bytes(reference, value) for value in decimals]
    check(f"decimal({precision},{scale})", decimals, expected)
    type = PrimitiveType("decimal", (precision, scale))
    assert [None if value is None else encode_one(value, type) for value in values] == expected


@pytest.mark.parametrize(
    ("name", "value", "bytes_"),
    [
        ("boolean", False, b"\x00"),
        ("int", -2, b"\xfe\xff\xff\xff"),
        ("long", 1, b"\x01" + bytes(7)),
        ("double", -0.0, struct.pack("<d", -0.0)),
        ("decimal(9, 2)", Decimal("1.27"), b"\x7f"),
        ("decimal(9, 2)", Decimal("1.28"), b"\x00\x80"),
        ("decimal(9, 2)", Decimal("-1.28"), b"\x80"),
        ("string", "é", "é".encode()),
        ("string", "", b""),
    ],
)
def test_encodes_single_values(name: str, value: Any, bytes_: bytes) -> None:
    check(name, [value], [bytes_])


def test_takes_arrow_dates_and_timestamps() -> None:
    day = date(1969, 12, 31)
    assert encode(pa.array([day, None]), PrimitiveType("date")).to_pylist() == [b"\xff\xff\xff\xff", None]
    moments = (
        pa.array([timedelta(0), None], pa.duration("us")).cast(pa.int64()).cast(pa.timestamp("us", "UTC"))
    )
    assert encode(moments, PrimitiveType("timestamptz")).to_pylist() == [bytes(8), None]


def test_nothing_gives_nothing() -> None:
    for name, (arrow_type, _, _) in CASES.items():
        assert encode(pa.array([], arrow_type), PrimitiveType(name)).to_pylist() == []
        assert encode(pa.nulls(2, arrow_type), PrimitiveType(name)).to_pylist() == [None, None]


def test_a_value_that_the_type_cannot_hold_is_an_error() -> None:
    with pytest.raises(OverflowError):
        encode_one(2**31, PrimitiveType("int"))
    with pytest.raises(TypeError):
        encode_one(None, PrimitiveType("int"))
