from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest

from floecat.iceberg.values.floats import comparable_bits, extremes

_NANS = np.array([0x7FF8000000000000, 0xFFF8000000000000, 0x7FF0000000000001], np.uint64).view(np.float64)
_NAN = float("nan")


def _bits(values: pa.Array) -> list[bytes | None]:
    form = "<f" if values.type == pa.float32() else "<d"
    return [None if value is None else struct.pack(form, value) for value in values.to_pylist()]


def test_nans_are_one_value_and_zeros_are_two() -> None:
    values = pa.concat_arrays([pa.array(_NANS), pa.array([0.0, -0.0, 0.0, None])])
    nan, *nans, zero, negative, again, null = comparable_bits(values).to_pylist()
    assert nans == [nan, nan]
    assert zero == again != negative
    assert null is None


@pytest.mark.parametrize("type", [pa.float32(), pa.float64()])
@pytest.mark.parametrize(
    ("values", "ends"),
    [
        ([0.0, -0.0], [-0.0, 0.0]),
        ([-0.0, 0.0], [-0.0, 0.0]),
        ([0.0, 0.0], [0.0, 0.0]),
        ([-0.0, -0.0], [-0.0, -0.0]),
        ([None, -0.0, 2.0], [-0.0, 2.0]),
        ([-3.0, 0.0], [-3.0, 0.0]),
        ([_NAN, 1.5, _NAN], [1.5, 1.5]),
        ([float("inf"), float("-inf"), 0.0], [float("-inf"), float("inf")]),
        ([_NAN, None], [None, None]),
        ([], [None, None]),
    ],
)
def test_extremes_of_numbers(type: pa.DataType, values: list[float | None], ends: list[float | None]) -> None:
    assert _bits(extremes(pa.array(values, type))) == _bits(pa.array(ends, type))
    assert _bits(extremes(pa.chunked_array([pa.array(values, type)]))) == _bits(pa.array(ends, type))


def test_a_signalling_nan_is_no_extreme() -> None:
    assert extremes(pa.concat_arrays([pa.array(_NANS), pa.array([1.0])])).to_pylist() == [1.0, 1.0]


def test_extremes_of_other_values() -> None:
    assert extremes(pa.array(["b", None, "a"])).to_pylist() == ["a", "b"]
    assert extremes(pa.array([], pa.int32())).to_pylist() == [None, None]
