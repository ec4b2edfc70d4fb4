"""Floating-point numbers, told apart as the table specification tells them ("Scan Planning", note 3)."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["comparable_bits", "with_one_nan"]


def comparable_bits(values: pa.Array) -> pa.Array:
    """Numbers as their bits, as integers: zeros of either sign differ, NaNs do not."""
    return with_one_nan(values).view(pa.int32() if values.type == pa.float32() else pa.int64())


def with_one_nan(values: pa.Array) -> pa.Array:
    """Numbers whose NaNs all have the same bits."""
    is_nan = pc.is_nan(values)
    if not pc.any(is_nan).as_py():
        return values
    return pc.if_else(is_nan, pa.scalar(float("nan"), values.type), values)
