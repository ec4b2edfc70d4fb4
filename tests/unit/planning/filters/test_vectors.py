"""Bounds and partition values as vectors."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from floecat.iceberg.schemas.types import parse_primitive
from floecat.planning.filters.vectors import Vector, from_bounds, from_partition


def known(vector: Vector) -> list[Any]:
    """Values, None for unknown ones."""
    values = vector.data.to_pylist() if isinstance(vector.data, pa.Array) else vector.data.tolist()
    if vector.valid is None:
        return values
    return [value if valid else None for value, valid in zip(values, vector.valid.tolist(), strict=True)]


@pytest.mark.parametrize(
    ("type", "bounds", "values"),
    [
        ("boolean", [b"\x00", b"\x01", None], [0, 1, None]),
        ("int", [struct.pack("<i", -5), struct.pack("<i", 7)], [-5, 7]),
        ("int", [struct.pack("<i", -5), b"", b"\x01" * 8], [-5, None, None]),
        ("long", [struct.pack("<q", 2**40), struct.pack("<i", -1), None], [2**40, -1, None]),
        ("float", [struct.pack("<f", 0.5), None], [0.5, None]),
        ("double", [struct.pack("<d", 0.1), struct.pack("<f", 0.5)], [0.1, 0.5]),
        ("date", [struct.pack("<i", 3)], [3]),
        ("timestamp", [struct.pack("<q", 3), struct.pack("<i", 2)], [3, 2 * 86_400_000_000]),
        ("decimal(9, 2)", [b"\x7f", b"\xff", b"\xff\x00", None], [127, -1, -256, None]),
        ("decimal(38, 0)", [b"\x01" + bytes(8), b"\xff" * 9, b"\x05"], [2**64, -1, 5]),
        ("string", [b"a", None, "é".encode()], [b"a", None, "é".encode()]),
        ("decimal(9, 2)", [bytes(16), b"", bytes(17)], [0, None, None]),
        ("boolean", [b"\x02", b"", b"\x00\x00"], [1, None, None]),
        ("float", [struct.pack("<d", 0.5), struct.pack("<f", 0.5)], [None, 0.5]),
        ("time", [struct.pack("<i", 3), struct.pack("<q", 3)], [None, 3]),
        ("timestamptz", [struct.pack("<i", 3), struct.pack("<q", 3)], [None, 3]),
        ("string", [b"\xc3", b""], [b"\xc3", b""]),
        ("uuid", [bytes(16), bytes(15), b"", bytes(17)], [bytes(16), None, None, None]),
        ("fixed[2]", [b"ab", b"a", b"", b"abc", None], [b"ab", None, None, None, None]),
    ],
)
def test_bounds(type: str, bounds: list[bytes | None], values: list[Any]) -> None:
    unit = 86_400_000_000 if type == "timestamp" else 1
    assert known(from_bounds(pa.array(bounds, pa.binary()), parse_primitive(type), unit)) == values


def test_an_upper_bound_that_is_cut_in_a_character_is_unknown() -> None:
    bounds = pa.array([b"a\xc3", "é".encode(), None], pa.binary())
    assert known(from_bounds(bounds, parse_primitive("string"), are_upper=True)) == [None, "é".encode(), None]


@pytest.mark.parametrize(
    ("array", "values"),
    [
        (pa.array([True, None, False]), [1, None, 0]),
        (pa.array([1, None], pa.int32()), [1, None]),
        (pa.array([-1, 2], pa.int64()), [-1, 2]),
        (pa.array([0.5, None], pa.float32()), [0.5, None]),
        (pa.array([3, None], pa.date32()), [3, None]),
        (pa.array([3], pa.timestamp("us", "UTC")), [3]),
        (pa.array([Decimal("-1.25"), None], pa.decimal128(9, 2)), [-125, None]),
        (pa.array([Decimal(10**30), Decimal(-1)], pa.decimal128(38, 0)), [10**30, -1]),
        (pa.array(["a", None]), [b"a", None]),
        (pa.array([b"ab"], pa.binary(2)), [b"ab"]),
    ],
)
def test_partition_values(array: pa.Array, values: list[Any]) -> None:
    assert known(from_partition(array)) == values
    assert known(from_partition(array.slice(len(array) - 1))) == values[-1:]


def test_comparisons_leave_out_what_is_unknown() -> None:
    numbers = Vector(np.array([1, 2, 3]), np.array([True, False, True]))
    assert numbers.less(3).tolist() == [True, False, False]
    assert numbers.less_equal(3).tolist() == [True, False, True]
    assert numbers.greater(0).tolist() == [True, False, True]
    assert numbers.greater_equal(10**30).tolist() == [False, False, False]
    assert numbers.less_than(Vector(np.array([9, 9, 3]))).tolist() == [True, False, False]
    texts = Vector(pa.array([b"a", None, b"\xff"], pa.binary()), np.array([True, False, True]))
    assert texts.greater(b"a").tolist() == [False, False, True]
    assert texts.starts_with(b"a").tolist() == [True, False, False]
    assert texts.equals(texts).tolist() == [True, False, True]


def test_numbers_that_are_nan_compare_as_false() -> None:
    vector = Vector(np.array([np.nan]))
    found = [vector.less(1.0), vector.less_equal(1.0), vector.greater(1.0), vector.greater_equal(1.0)]
    assert [each.tolist() for each in (*found, vector.equals(vector))] == [[False]] * 5
