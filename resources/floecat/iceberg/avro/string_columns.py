"""Arrow's strings and bytes as NumPy sees them: one run of bytes, where each value begins, and hashes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["Bools", "Bytes", "Int64s", "StringColumn", "string_hashes"]

Bytes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class StringColumn:
    """Strings or bytes as Arrow keeps them; nulls are empty.

    Attributes:
        offsets: where each one begins and ends in `data`; one more than there are rows.
        data: all of them, one after the other.
        valid: which are not null; None if all are.
    """

    offsets: Int64s
    data: Bytes
    valid: Bools | None = None

    @classmethod
    def of(cls, array: pa.Array | pa.ChunkedArray) -> StringColumn:
        """The column of Arrow strings or bytes."""
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        valid = None
        if array.null_count:
            valid = array.is_valid().to_numpy(zero_copy_only=False)
            # Arrow lets nulls have bytes
            array = array.fill_null(b"" if pa.types.is_binary(array.type) else "")
        wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
        _, offsets, data = array.buffers()
        if not len(array):
            return cls(np.zeros(1, np.int64), np.zeros(0, np.uint8), valid)
        numbers = np.frombuffer(offsets, np.int64 if wide else np.int32)
        numbers = numbers[array.offset : array.offset + len(array) + 1]
        return cls(numbers.astype(np.int64), np.frombuffer(data or b"", np.uint8), valid)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Int64s:
        """Bytes of each, 0 for null."""
        return np.diff(self.offsets)

    def slice(self, start: int, stop: int) -> StringColumn:
        """The column of some of the rows, without copying."""
        valid = None if self.valid is None else self.valid[start:stop]
        return StringColumn(self.offsets[start : stop + 1], self.data, valid)


_WORD = 8
# the odd number nearest to 2**64 / golden ratio, and the multipliers of a well-known 64-bit finalizer
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX = (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53))
_HALF = np.uint64(33)


def string_hashes(array: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    """Hashes Arrow strings; null like the empty string."""
    column = StringColumn.of(array)
    lengths = column.lengths
    # spread, so that a length and a word cannot undo each other
    hashes = lengths.astype(np.uint64) * _STEP
    rows = np.flatnonzero(lengths)
    if not len(rows):
        return _finish(hashes)
    words = _words(column)
    starts = column.offsets[:-1]
    at = 0
    # word by word; strings that have ended drop out
    while len(rows):
        left = lengths[rows] - at
        word = words[starts[rows] + at] & _masks(left)
        mixed = (hashes[rows] ^ word) * _STEP
        hashes[rows] = mixed ^ (mixed >> np.uint64(29))
        at += _WORD
        rows = rows[left > _WORD]
    return _finish(hashes)


def _words(column: StringColumn) -> npt.NDArray[np.uint64]:
    """The 8 bytes at every position of the data, as a view of it."""
    end = int(column.offsets[-1])
    padded = np.zeros(end + _WORD, np.uint8)
    padded[:end] = column.data[:end]
    return np.ndarray((end + 1,), np.dtype("<u8"), padded.data, strides=(1,))


def _masks(left: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Masks of the bits of a word that belong to a string with so many bytes left."""
    bits = np.uint64(_WORD) * (_WORD - np.minimum(left, _WORD)).astype(np.uint64)
    return np.uint64(0xFFFFFFFFFFFFFFFF) >> bits


def _finish(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    for factor in _MIX:
        hashes = (hashes ^ (hashes >> _HALF)) * factor
    return hashes ^ (hashes >> _HALF)
