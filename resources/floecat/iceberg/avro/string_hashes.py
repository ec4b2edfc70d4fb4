"""A 64-bit hash of strings, computed for all of them at once; the same on every machine and in every version.

Like any hash of its size it is for finding candidates: who must be sure compares the strings.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from floecat.iceberg.avro.string_columns import StringColumn

__all__ = ["string_hashes"]

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
    """Which bits of a word belong to a string that has so many bytes left."""
    bits = np.uint64(_WORD) * (_WORD - np.minimum(left, _WORD)).astype(np.uint64)
    return np.uint64(0xFFFFFFFFFFFFFFFF) >> bits


def _finish(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    for factor in _MIX:
        hashes = (hashes ^ (hashes >> _HALF)) * factor
    return hashes ^ (hashes >> _HALF)
