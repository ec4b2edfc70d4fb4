"""Values of many files or partitions at once, compared with literals.

Numbers are NumPy arrays: int64 for everything whose canonical values are whole numbers (objects for decimals
beyond 64 bits), float64. Strings, UUIDs and bytes are Arrow arrays, compared byte by byte, unsigned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from floecat.iceberg.avro.string_columns import Bools, Int64s, StringColumn
from floecat.iceberg.schemas.types import PrimitiveType
from floecat.planning.filters.literals import FLOATS, Canonical

__all__ = ["BYTES_TYPES", "Vector", "from_bounds", "from_partition"]

BYTES_TYPES: Final = frozenset({"string", "binary", "fixed", "uuid"})
_MOST_DECIMAL_BYTES: Final = 16
_WIDTHS: Final[Mapping[str, Mapping[int, str]]] = {
    "boolean": {1: "u1"},
    "int": {4: "<i4"},
    "long": {8: "<i8", 4: "<i4"},
    "float": {4: "<f4"},
    "double": {8: "<f8", 4: "<f4"},
    "date": {4: "<i4"},
    "timestamp": {8: "<i8", 4: "<i4"},
    "timestamp_ns": {8: "<i8", 4: "<i4"},
}
"""Bytes of the bounds of a type, and of the types that were promoted to it; 8 of all others."""


@dataclass(frozen=True, eq=False)
class Vector:
    """Values, some of them unknown.

    Attributes:
        data: a NumPy array of numbers, or Arrow bytes.
        valid: which are known; None if all are.
    """

    data: Any
    valid: Bools | None = None

    def __len__(self) -> int:
        return len(self.data)

    def take(self, rows: Int64s) -> Vector:
        """Some of the values, by position."""
        data = self.data.take(pa.array(rows)) if isinstance(self.data, pa.Array) else self.data[rows]
        return Vector(data, None if self.valid is None else self.valid[rows])

    def less(self, literal: Canonical) -> Bools:
        """The known values that are less than a literal."""
        return self._compared(np.less, pc.less, literal)

    def less_equal(self, literal: Canonical) -> Bools:
        """The known values that are at most a literal."""
        return self._compared(np.less_equal, pc.less_equal, literal)

    def greater(self, literal: Canonical) -> Bools:
        """The known values that are greater than a literal."""
        return self._compared(np.greater, pc.greater, literal)

    def greater_equal(self, literal: Canonical) -> Bools:
        """The known values that are at least a literal."""
        return self._compared(np.greater_equal, pc.greater_equal, literal)

    def equals(self, other: Vector) -> Bools:
        """The places where two vectors have the same known value."""
        if isinstance(self.data, pa.Array):
            same = _bools(pc.equal(self.data, other.data))
        else:
            same = np.asarray(self.data == other.data, np.bool_)
        return other.known(self.known(same))

    def less_than(self, other: Vector) -> Bools:
        """The known values that are less than those of another vector."""
        if isinstance(self.data, pa.Array):
            less = _bools(pc.less(self.data, other.data))
        else:
            less = np.asarray(self.data < other.data, np.bool_)
        return other.known(self.known(less))

    def starts_with(self, prefix: bytes) -> Bools:
        """The known values that start with a prefix."""
        return self.known(_bools(pc.starts_with(self.data, prefix)))

    def prefixes(self, length: int) -> Vector:
        """The first bytes of each value."""
        return Vector(pc.binary_slice(self.data, 0, length), self.valid)

    def known(self, found: Bools) -> Bools:
        """The places found, without those of unknown values."""
        return found if self.valid is None else found & self.valid

    def _compared(self, of_numbers: Any, of_bytes: Any, literal: Canonical) -> Bools:
        if isinstance(self.data, pa.Array):
            return self.known(_bools(of_bytes(self.data, pa.scalar(literal, pa.binary()))))
        found: Bools = np.asarray(of_numbers(self.data, literal), np.bool_)
        return self.known(found)


def _bools(array: pa.Array) -> Bools:
    if array.null_count:
        array = array.fill_null(False)
    found: Bools = array.to_numpy(zero_copy_only=False)
    return found


def from_partition(array: pa.Array) -> Vector:
    """Partition values as vectors; null is unknown.

    Args:
        array: of the Arrow type that stands for the Iceberg type (`arrow_type`).
    """
    valid = _valid(array)
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return Vector(array.cast(pa.binary()), valid)
    if pa.types.is_decimal(kind):
        return Vector(_unscaled(array, valid), valid)
    if pa.types.is_floating(kind):
        return Vector(_filled(array, 0.0).astype(np.float64), valid)
    if pa.types.is_boolean(kind):
        return Vector(_filled(array, False).astype(np.int64), valid)
    narrow = pa.types.is_date32(kind) or pa.types.is_int32(kind) or pa.types.is_time32(kind)
    whole = array.cast(pa.int32() if narrow else pa.int64())
    return Vector(_filled(whole, 0).astype(np.int64, copy=False), valid)


def _filled(array: pa.Array, value: object) -> npt.NDArray[Any]:
    filled = array.fill_null(value) if array.null_count else array
    numbers: npt.NDArray[Any] = filled.to_numpy(zero_copy_only=False)
    return numbers


def _unscaled(array: pa.Array, valid: Bools | None) -> npt.NDArray[Any]:
    words = np.frombuffer(array.buffers()[1] or b"", np.int64)
    words = words[2 * array.offset : 2 * (array.offset + len(array))].reshape(-1, 2)
    low, high = words[:, 0], words[:, 1]
    fits = high == low >> 63
    if valid is not None:
        fits |= ~valid
        low = np.where(valid, low, 0)
    if fits.all():
        return low
    numbers = [(int(top) << 64) | (int(rest) & (2**64 - 1)) for rest, top in words.tolist()]
    return np.array(numbers, object)


def from_bounds(
    array: pa.BinaryArray, type: PrimitiveType, unit: int = 1, *, are_upper: bool = False
) -> Vector:
    """Bounds of files as vectors; null and what is no value of the type is unknown.

    Bounds of files that are older than a promotion of the column are values of the former type.

    Args:
        array: single values (table specification, Appendix D).
        unit: for `date` promoted to a timestamp: units of a day.
        are_upper: whether they are upper bounds. A text that was cut in a character is not above its rest.
    """
    if type.name == "string" and are_upper:
        return Vector(array, _are_texts(array))
    if type.name in BYTES_TYPES:
        return _bytes(array, type)
    column = StringColumn.of(array)
    if type.name == "decimal":
        return _decimals(column)
    widths = _WIDTHS.get(type.name, {8: "<i8"})
    if type.name in FLOATS:
        return _fixed(column, widths, np.float64)
    vector = _fixed(column, widths, np.int64)
    if type.name == "boolean":
        return Vector((vector.data != 0).astype(np.int64), vector.valid)
    if unit == 1:
        return vector
    return Vector(np.where(column.lengths == 4, vector.data * unit, vector.data), vector.valid)


def _are_texts(array: pa.BinaryArray) -> Bools | None:
    try:
        array.cast(pa.string())
    except pa.ArrowInvalid:
        return np.array([value is not None and _is_text(value) for value in array.to_pylist()], np.bool_)
    return _valid(array)


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _valid(array: pa.Array) -> Bools | None:
    return array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None


def _bytes(array: pa.BinaryArray, type: PrimitiveType) -> Vector:
    valid = _valid(array)
    size = 16 if type.name == "uuid" else type.parameters[0] if type.name == "fixed" else None
    if size is None:
        return Vector(array, valid)
    fits: Bools = StringColumn.of(array).lengths == size
    return Vector(array, valid if fits.all() else fits)


def _fixed(column: StringColumn, widths: Mapping[int, str], dtype: Any) -> Vector:
    lengths = column.lengths
    data = np.zeros(len(lengths), dtype)
    known = np.zeros(len(lengths), np.bool_)
    for width, kind in widths.items():
        chosen = lengths == width
        if not chosen.any():
            continue
        if chosen.all():
            packed = column.data[column.offsets[0] : column.offsets[-1]]
            return Vector(packed.view(kind).astype(dtype, copy=False))
        rows = np.flatnonzero(chosen)
        at = column.offsets[rows][:, np.newaxis] + np.arange(width)
        data[rows] = np.ascontiguousarray(column.data[at]).view(kind)[:, 0]
        known |= chosen
    return Vector(data, known)


def _decimals(column: StringColumn) -> Vector:
    lengths = column.lengths
    valid = (lengths > 0) & (lengths <= _MOST_DECIMAL_BYTES)
    if lengths.max(initial=0) > 8:
        ends = np.where(valid, column.offsets[1:], column.offsets[:-1])
        numbers: Sequence[int] = [
            int.from_bytes(column.data[start:stop].tobytes(), "big", signed=True)
            for start, stop in zip(column.offsets[:-1].tolist(), ends.tolist(), strict=True)
        ]
        return Vector(np.array(numbers, object), valid)
    # sign-extended to 8 bytes, the most significant first
    places = np.arange(8) - (8 - lengths[:, np.newaxis])
    at = np.maximum(column.offsets[:-1, np.newaxis] + places, 0)
    data = column.data if len(column.data) else np.zeros(1, np.uint8)
    first = data.take(column.offsets[:-1], mode="clip")
    fill = np.where(first >= 0x80, 0xFF, 0)[:, np.newaxis]
    words = np.where(places >= 0, data.take(at, mode="clip"), fill).astype(np.uint8)
    return Vector(np.ascontiguousarray(words).view(">i8")[:, 0].astype(np.int64), valid)
