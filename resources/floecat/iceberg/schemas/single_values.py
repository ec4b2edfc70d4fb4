"""Binary single values: the form of bounds in manifests (table specification, Appendix D).

Arrays are encoded as a whole. Types without a binary form (`unknown`, `variant`) or with another form of
bounds (`geometry`, `geography`) are not supported.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from floecat.iceberg.schemas.types import PrimitiveType

__all__ = ["encode", "encode_one"]

_INTS = frozenset({"int", "date"})
_LONGS = frozenset({"long", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"})
_BYTES = frozenset({"string", "binary", "fixed", "uuid"})
_FLOATS = {"float": "<f4", "double": "<f8"}


def encode(values: pa.Array, type: PrimitiveType) -> pa.BinaryArray:
    """Encodes values of one type; nulls stay null.

    The bytes of fixed-width values are not copied, and null slots may have a length: readers check the
    validity first, as Arrow requires.

    Args:
        values: for `decimal` of type decimal128 at the scale of the column, for `date` and the types of
            time also plain integers in the unit of the type, for all others of the Arrow type of that name.
        type: the Iceberg type, one with a binary form.
    """
    return _ENCODERS[type.name](values)


def encode_one(value: object, type: PrimitiveType) -> bytes:
    """Encodes one value.

    Args:
        value: bool; int (for `decimal` the unscaled value, for types of time in their unit); float; str or
        bytes.
        type: the Iceberg type, one with a binary form.

    Raises:
        OverflowError: an integer or a `float` that the type cannot hold.
    """
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    if isinstance(value, bool):
        return b"\x01" if value else b"\x00"
    if isinstance(value, float):
        return struct.pack("<f" if type.name == "float" else "<d", value)
    if not isinstance(value, int):
        raise TypeError(f"No single value of type {type}")
    if type.name == "decimal":
        # The sign takes one bit: 127 fits one byte, 128 does not.
        return value.to_bytes((value if value >= 0 else ~value).bit_length() // 8 + 1, "big", signed=True)
    return value.to_bytes(4 if type.name in _INTS else 8, "little", signed=True)


def _encode_booleans(values: pa.Array) -> pa.BinaryArray:
    bytes_ = pc.fill_null(values, False).to_numpy(zero_copy_only=False).astype(np.uint8)
    return _fixed_width(values, bytes_, 1)


def _encode_numbers(dtype: str) -> Callable[[pa.Array], pa.BinaryArray]:
    width = np.dtype(dtype).itemsize

    def encode_numbers(values: pa.Array) -> pa.BinaryArray:
        data = np.frombuffer(values.buffers()[1] or b"", dtype=np.dtype(dtype).newbyteorder("="))
        data = data[values.offset : values.offset + len(values)]
        return _fixed_width(values, data.astype(dtype, copy=False), width)

    return encode_numbers


def _encode_bytes(values: pa.Array) -> pa.BinaryArray:
    return values.cast(pa.binary())


def _encode_decimals(values: pa.Array) -> pa.BinaryArray:
    words = np.frombuffer(values.buffers()[1] or b"", dtype=np.uint64)
    words = words[2 * values.offset : 2 * (values.offset + len(values))].reshape(-1, 2)
    low, high = words[:, 0], words[:, 1]
    # Bits above the sign: of a negative number its complement.
    sign = (high >> np.uint64(63)) * np.uint64(0xFFFF_FFFF_FFFF_FFFF)
    low, high = low ^ sign, high ^ sign
    lengths = np.ones(len(values), dtype=np.int64)
    for bits in range(7, 63, 8):
        lengths += low >= np.uint64(1 << bits)
    longer = high > 0
    # The low word has no sign bit of its own; its topmost bit may already need the ninth byte.
    lengths = np.where(longer, 8, lengths + (low >> np.uint64(63) > 0))
    lengths += longer
    for bits in range(7, 63, 8):
        lengths += high >= np.uint64(1 << bits)
    if values.null_count:
        lengths[values.is_null().to_numpy(zero_copy_only=False)] = 0

    big_endian = np.ascontiguousarray(words[:, ::-1]).astype(">u8").view(np.uint8).reshape(-1, 16)
    data = big_endian[np.arange(16) >= 16 - lengths[:, None]]
    offsets = np.zeros(len(values) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return _binary(values, offsets, data)


def _fixed_width(values: pa.Array, data: npt.NDArray[np.generic], width: int) -> pa.BinaryArray:
    return _binary(values, _offsets(len(values), width), np.ascontiguousarray(data))


@lru_cache(maxsize=8)
def _offsets(count: int, width: int) -> npt.NDArray[np.int32]:
    # one array serves all columns of the same files
    return np.arange(count + 1, dtype=np.int32) * np.int32(width)


def _binary(
    values: pa.Array, offsets: npt.NDArray[np.int32], data: npt.NDArray[np.generic]
) -> pa.BinaryArray:
    buffers = [_validity(values), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.BinaryArray.from_buffers(pa.binary(), len(values), buffers)


def _validity(values: pa.Array) -> pa.Buffer | None:
    if not values.null_count:
        return None
    if not values.offset:
        return values.buffers()[0]
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


_ENCODERS: dict[str, Callable[[pa.Array], pa.BinaryArray]] = {
    "boolean": _encode_booleans,
    "decimal": _encode_decimals,
    **{name: _encode_numbers("<i4") for name in _INTS},
    **{name: _encode_numbers("<i8") for name in _LONGS},
    **{name: _encode_numbers(dtype) for name, dtype in _FLOATS.items()},
    **dict.fromkeys(_BYTES, _encode_bytes),
}
