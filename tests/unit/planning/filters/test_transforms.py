"""Ranges and buckets, compared with the transforms of PyIceberg."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.transforms import parse_transform

from floecat.iceberg.schemas.types import parse_primitive
from floecat.planning.filters.literals import canonical
from floecat.planning.filters.transforms import bucket_of, has_ranges, result_type, source_range
from floecat.planning.filters.vectors import Vector
from tests.unit.planning.random_columns import Column, json_value

_DAY = 86_400_000_000
_NUMBERS = [
    ("int", "truncate[10]", range(-25, 25)),
    ("long", "truncate[7]", (2**60 + step for step in range(20))),
    ("date", "day", range(-3, 3)),
    ("date", "month", range(0, 800, 7)),
    ("date", "year", range(0, 8000, 99)),
    ("timestamp", "hour", (hour * 1_800_000_000 for hour in range(60))),
    ("timestamp", "day", (half * _DAY // 2 for half in range(20))),
    ("timestamptz", "month", (day * _DAY for day in range(0, 800, 7))),
    ("timestamp", "year", (day * _DAY for day in range(0, 8000, 99))),
]


@pytest.mark.parametrize(("type", "transform", "values"), _NUMBERS)
def test_ranges_of_numbers(type: str, transform: str, values: Any) -> None:
    source = parse_primitive(type)
    assert has_ranges(transform, source)
    apply = parse_transform(transform).transform(Column(1, "x", type).py_type)
    for value in values:
        result = apply(value)
        vector = Vector(np.array([result], np.int64))
        found = source_range(transform, source, vector, vector)
        lower, upper = int(found.lower.data[0]), int(found.upper.data[0])
        assert lower <= value <= upper
        assert apply(upper) == result != apply(upper + 1)
        # of the first period after the epoch writers may have put the one before into it
        expected = result - 1 if transform in ("year", "month", "hour") and result == 0 else result
        expected = -1 if type == "timestamp" and transform == "day" and result == 0 else expected
        assert apply(lower) == expected != apply(lower - 1)


@pytest.mark.parametrize("transform", ["year", "month", "hour", "day"])
def test_ranges_of_times_beyond_64_bits(transform: str) -> None:
    vector = Vector(np.array([-(2**31), 2**31 - 1], np.int64))
    found = source_range(transform, parse_primitive("timestamp_ns"), vector, vector)
    assert found.lower.data[0] == -(2**63)
    assert found.upper.data[1] == 2**63 - 1


def test_the_value_that_overflowed_stands_for_all() -> None:
    vector = Vector(np.array([2147483646, 2147483630, 2147483640], np.int64))
    found = source_range("truncate[10]", parse_primitive("int"), vector, vector)
    assert found.lower.data.tolist() == [-(2**31), 2147483630, 2147483640]
    assert found.upper.data.tolist() == [2**31 - 1, 2147483639, 2**31 - 1]
    promoted = source_range("truncate[10]", parse_primitive("long"), vector, vector)
    assert promoted.lower.data.tolist() == found.lower.data.tolist()
    assert promoted.upper.data.tolist() == [2147483655, 2147483639, 2147483649]
    found = source_range("truncate[16]", parse_primitive("int"), vector, vector)
    assert found.lower.data.tolist() == vector.data.tolist()


@pytest.mark.parametrize(
    ("type", "values"), [("string", ["é", "éa", "日本"]), ("binary", [b"\xff", b"\xffa"])]
)
def test_ranges_of_cut_strings(type: str, values: list[Any]) -> None:
    data = [value.encode() if isinstance(value, str) else value for value in values]
    vector = Vector(pa.array(data, pa.binary()))
    found = source_range("truncate[2]", parse_primitive(type), vector, vector, longest=3)
    # only the first one is shorter than two characters, and so whole
    above = [
        value if len(text) < 2 else value + b"\xff" * 4 for value, text in zip(data, values, strict=True)
    ]
    assert found.lower.data.to_pylist() == data
    assert found.upper.data.to_pylist() == above


def test_a_range_of_what_is_no_text_is_open() -> None:
    vector = Vector(pa.array([b"a", b"\xc3"], pa.binary()))
    found = source_range("truncate[2]", parse_primitive("string"), vector, vector)
    assert found.upper.data.to_pylist() == [b"a\xff", b"\xc3\xff"]


@pytest.mark.parametrize(
    "type",
    ["int", "long", "date", "time", "timestamp", "timestamptz", "string", "uuid", "binary", "decimal(9, 2)"],
)
def test_buckets(type: str) -> None:
    column = Column(1, "x", type)
    source = Random(4)
    apply = parse_transform("bucket[1000]").transform(column.py_type)
    for value in source.choices(list(column.pool), k=20):
        found = canonical(json_value(value, column), parse_primitive(type))
        assert bucket_of(found, parse_primitive(type), 1000) == apply(value)


def test_buckets_of_nanoseconds_are_those_of_microseconds() -> None:
    nanos, micros = parse_primitive("timestamp_ns"), parse_primitive("timestamp")
    assert bucket_of(1_700_000_000_000_000_999, nanos, 64) == bucket_of(1_700_000_000_000_000, micros, 64)


def test_types_of_results() -> None:
    decimal = parse_primitive("decimal(9, 2)")
    assert result_type("truncate[5]", decimal) == result_type("identity", decimal) == decimal
    assert result_type("day", parse_primitive("timestamp")) == parse_primitive("date")
    assert result_type("hour", parse_primitive("timestamp")) == parse_primitive("int")
    assert result_type("bucket[3]", None) == parse_primitive("int")
    assert result_type("identity", None) is None
    assert result_type("of another version", decimal) is None


@pytest.mark.parametrize("transform", ["bucket", "bucket[a]", "truncate", "truncate[4]x", "zorder"])
def test_transforms_that_are_not_known_say_nothing_of_values(transform: str) -> None:
    assert result_type(transform, parse_primitive("string")) is None
    assert not has_ranges(transform, parse_primitive("string"))


def test_decimals_have_ranges_of_unscaled_values() -> None:
    apply = parse_transform("truncate[50]").transform(Column(1, "x", "decimal(9, 2)").py_type)
    value = Decimal("-1.25")
    vector = Vector(np.array([int(apply(value).scaleb(2))], np.int64))
    found = source_range("truncate[50]", parse_primitive("decimal(9, 2)"), vector, vector)
    assert (found.lower.data[0], found.upper.data[0]) == (-150, -101)
