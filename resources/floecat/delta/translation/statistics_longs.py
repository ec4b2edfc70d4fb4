"""Whole numbers of statistics as arrays of 64 bits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["as_longs", "longs_array"]

_LARGEST = 2**63 - 1


def longs_array(values: npt.NDArray[np.int64], is_valid: npt.NDArray[np.bool_]) -> pa.Int64Array:
    """An array of the same memory."""
    validity = None if is_valid.all() else pa.py_buffer(np.packbits(is_valid, bitorder="little"))
    return pa.Array.from_buffers(
        pa.int64(), len(values), [validity, pa.py_buffer(np.ascontiguousarray(values))]
    )


def as_longs(values: pa.Array) -> pa.Int64Array:
    """Whole numbers of any type; those that are too large are null."""
    if pa.types.is_uint64(values.type):
        fits = pc.less_equal(values, pa.scalar(_LARGEST, values.type))
        values = pc.if_else(fits, values, pa.scalar(None, values.type))
    return values.cast(pa.int64())
