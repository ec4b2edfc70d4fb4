"""Values of columns, transformed as partitions are (table specification, "Partition Transforms")."""

from __future__ import annotations

from typing import Final

import mmh3
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from floecat.iceberg.schemas.single_values import encode
from floecat.iceberg.schemas.transforms import IDENTITY, transform_name
from floecat.iceberg.schemas.types import PrimitiveType
from floecat.planning.filters.transforms import UNITS_A_DAY, parameter, result_type
from floecat.planning.filters.vectors import BYTES_TYPES, from_partition
from floecat.statistics.files.leaf_values import one_value

__all__ = ["transform_values", "transformed_value"]

_LEAST: Final = -(2**63)
_PERIODS: Final = {"year": "Y", "month": "M", "day": "D"}
_C1: Final = np.uint32(0xCC9E2D51)
_C2: Final = np.uint32(0x1B873593)
_FIVE, _ADD = np.uint32(5), np.uint32(0xE6546B64)
_FMIX1, _FMIX2 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)


def transform_values(values: pa.Array, transform: str, type: PrimitiveType) -> pa.Array:
    """Transforms values; null stays null.

    Args:
        values: as `leaf_values` gives them.
        transform: a normalized one that has a `result_type` for the type, and accepts it.

    Returns:
        An array of the result type, without a dictionary; for `identity` the values as they are.
    """
    if transform == IDENTITY:
        return values
    if pa.types.is_dictionary(values.type):
        return transform_values(values.dictionary, transform, type).take(values.indices)
    name = transform_name(transform)
    if name == "bucket":
        return _buckets(values, type, parameter(transform))
    if name == "truncate":
        return _truncated(values, type, parameter(transform))
    units = UNITS_A_DAY[type.name]
    numbers = from_partition(values).data
    if name == "hour":
        return _ints(numbers // (units // 24), values)
    days = (numbers // units).view("datetime64[D]")
    found = _ints(days.astype(f"datetime64[{_PERIODS[name]}]").astype(np.int64), values)
    return found.view(pa.date32()) if name == "day" else found


def transformed_value(value: bytes | None, transform: str, type: PrimitiveType) -> bytes | None:
    """Transforms a single value (table specification, Appendix D); the result is one of the result type.

    Args:
        value: None for null.
        transform: as of `transform_values`.
    """
    result = result_type(transform, type)
    if value is None or transform == IDENTITY or result is None:
        return value
    found: bytes = encode(transform_values(one_value(value, type), transform, type), result)[0].as_py()
    return found


def _ints(numbers: npt.NDArray[np.int64], values: pa.Array) -> pa.Array:
    """32-bit numbers, null where `values` are."""
    nulls = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    return pa.array(numbers.astype(np.int32), mask=nulls)


def _truncated(values: pa.Array, type: PrimitiveType, width: int) -> pa.Array:
    if type.name == "string":
        return pc.utf8_slice_codeunits(values, 0, width)
    if type.name == "binary":
        return pc.binary_slice(values, 0, width)
    numbers = from_partition(values).data
    if type.name == "decimal" and len(numbers) and numbers.min() < _LEAST + width:
        numbers = numbers.astype(object)
    # the least integers overflow, as in Java
    found = numbers - numbers % width
    if type.name == "int":
        return _ints(found, values)
    nulls = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    if type.name == "long":
        return pa.array(found, mask=nulls)
    if found.dtype == object:
        data = b"".join(number.to_bytes(16, "little", signed=True) for number in found.tolist())
    else:
        data = np.stack([found, found >> 63], axis=1).tobytes()
    valid = None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    return pa.Array.from_buffers(values.type, len(values), [valid, pa.py_buffer(data)])


def _buckets(values: pa.Array, type: PrimitiveType, buckets: int) -> pa.Array:
    """Buckets (table specification, Appendix B): whole numbers are hashed as longs, all others as bytes."""
    if type.name in BYTES_TYPES or type.name == "decimal":
        distinct = encode(values, type).dictionary_encode()
        hashes = [(mmh3.hash(value) & 0x7FFF_FFFF) % buckets for value in distinct.dictionary.to_pylist()]
        return pa.array(hashes, pa.int32()).take(distinct.indices)
    numbers = from_partition(values).data
    if type.name.endswith("_ns"):
        numbers = numbers // 1000  # timestamps hash alike whatever their unit
    return _ints((_hash_longs(numbers) & np.uint32(0x7FFF_FFFF)).astype(np.int64) % buckets, values)


def _hash_longs(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    """MurmurHash3 x86_32 of eight bytes each, little-endian, seed 0. Arithmetic wraps at 32 bits."""
    words = np.ascontiguousarray(numbers, "<i8").view("<u4").reshape(-1, 2)
    h = np.zeros(len(words), np.uint32)
    for k in (words[:, 0], words[:, 1]):
        h ^= _rotated(k * _C1, 15) * _C2
        h = _rotated(h, 13) * _FIVE + _ADD
    h ^= np.uint32(8)
    h ^= h >> np.uint32(16)
    h *= _FMIX1
    h ^= h >> np.uint32(13)
    h *= _FMIX2
    h ^= h >> np.uint32(16)
    return h


def _rotated(x: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.uint32]:
    return (x << np.uint32(bits)) | (x >> np.uint32(32 - bits))
