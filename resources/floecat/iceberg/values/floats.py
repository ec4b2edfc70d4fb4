"""Floating-point numbers, told apart and ordered as in the table specification ("Scan Planning", note 3)."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["comparable_bits", "extremes", "with_one_nan"]


def comparable_bits(values: pa.Array) -> pa.Array:
    """Numbers as their bits, as integers: zeros of either sign differ, NaNs do not."""
    return with_one_nan(values).view(pa.int32() if values.type == pa.float32() else pa.int64())


def with_one_nan(values: pa.Array) -> pa.Array:
    """Numbers whose NaNs all have the same bits."""
    is_nan = pc.is_nan(values)
    if not pc.any(is_nan).as_py():
        return values
    return pc.if_else(is_nan, pa.scalar(float("nan"), values.type), values)


def extremes(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The least and the greatest value, of any type; nulls where there is none.

    Of numbers -0.0 is below 0.0, and NaN is neither: Arrow has no order of zeros, and takes a signalling NaN
    for a number.
    """
    if not pa.types.is_floating(values.type):
        found = pc.min_max(values)
        return pa.array([found["min"], found["max"]], values.type)
    numbers = values.filter(pc.invert(pc.is_nan(values)))
    # the sign of a zero is that of its inverse, which is infinite
    one = pa.scalar(1, values.type)
    signs = pc.min_max(pc.divide(one, numbers.filter(pc.equal(numbers, 0))))
    found = pc.min_max(numbers)
    ends = [pc.divide(one, signs[end]) if found[end].as_py() == 0 else found[end] for end in ("min", "max")]
    return pa.array(ends, values.type)
