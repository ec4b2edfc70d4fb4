"""Whole numbers of statistics: as arrays of 64 bits, and read out of text, many at once.

Eight digits are a word of 64 bits, and are added up inside the word: pairs of digits first, then pairs of
pairs.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["LEAD", "as_longs", "longs_array", "parse_longs", "window"]

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


LEAD: Final = 32
"""How many bytes there must be before the first number, and behind the last one."""

_Ints: TypeAlias = npt.NDArray[np.int64]
_Words: TypeAlias = npt.NDArray[np.uint64]
_Bools: TypeAlias = npt.NDArray[np.bool_]

_MINUS = ord("-")
_MOST_DIGITS = 19

_KEPT = np.array([2**64 - 2 ** (64 - 8 * count) for count in range(9)], dtype=np.uint64)
"""By number of digits: the bytes of a word that they take, the last ones."""

_ZEROS = np.uint64(0x3030303030303030)
_ABOVE_NINE = np.uint64(0x7676767676767676)
_TOP_BITS = np.uint64(0x8080808080808080)


def window(data: npt.NDArray[np.uint8], places: _Ints, width: int) -> _Words:
    """Bytes of a text at many places, as words of 8 bytes.

    Args:
        data: the text.
        places: where each window starts, of any shape. Negative places count from the end.
        width: bytes of a window, a multiple of 8.

    Returns:
        The words, of shape (*places.shape, width / 8).
    """
    # A type of opaque bytes needs no alignment, so that a window may start anywhere.
    windows = np.ndarray((len(data) - width + 1,), dtype=f"V{width}", buffer=data, strides=(1,))
    # The result is laid out as the places are.
    found = windows[np.ascontiguousarray(places)]
    return found.view("<u8").reshape(*places.shape, width // 8)


def parse_longs(data: npt.NDArray[np.uint8], starts: _Ints, ends: _Ints) -> tuple[_Ints, _Bools]:
    """Reads whole numbers.

    Args:
        data: the text, with `LEAD` bytes before the first number.
        starts: where each number starts, shape (rows, columns).
        ends: where it ends, likewise.

    Returns:
        The numbers, and for each whether it is one, of 64 bits; what is none is arbitrary.
    """
    first = data[starts]
    is_negative = first == _MINUS
    lengths = ends - starts
    is_short = lengths.max(axis=0, initial=0) <= 1
    lengths -= is_negative
    longest = lengths.max(axis=0, initial=0)
    # Most null counts are 0. Where a column has one digit in each row, that is all.
    first -= ord("0")
    values = first.astype(np.uint64)
    is_number = (first <= 9) & (lengths == 1)
    columns = np.flatnonzero(~is_short)
    if len(columns):
        values[:, columns], is_digits = _parse_word(data, ends[:, columns], lengths[:, columns])
        is_number[:, columns] = is_digits & (lengths[:, columns] > 0)
    for done, unit in ((8, 10**8), (16, 10**16)):
        columns = np.flatnonzero(longest > done)
        if not len(columns):
            break
        more, is_digits = _parse_word(data, ends[:, columns] - done, lengths[:, columns] - done)
        more *= np.uint64(unit)
        values[:, columns] += more
        is_number[:, columns] &= is_digits
    if longest.max(initial=0) >= _MOST_DIGITS:
        is_number &= (lengths <= _MOST_DIGITS) & (values <= _LARGEST + is_negative.astype(np.uint64))
    # In two's complement the smallest long is its own negative.
    numbers = values.view(np.int64)
    np.negative(numbers, out=numbers, where=is_negative)
    return numbers, is_number


def _parse_word(data: npt.NDArray[np.uint8], ends: _Ints, counts: _Ints) -> tuple[_Words, _Bools]:
    """Reads up to 8 digits before each end.

    The operations work in place: fresh memory for each of them would cost more than they do.
    """
    word = window(data, ends - 8, 8)[..., 0]
    kept = _KEPT.take(counts, mode="clip")
    word &= kept
    kept &= _ZEROS
    word ^= kept
    # Of digits, and of bytes before them, 0 to 9 is left. More than that has its top bit set, or gets it.
    check = word + _ABOVE_NINE
    check |= word
    check &= _TOP_BITS
    for digits, mask in ((1, 0x00FF00FF00FF00FF), (2, 0x0000FFFF0000FFFF)):
        # Neighbours are added: the first one has the higher value and the lower place.
        word *= np.uint64(10**digits * 2 ** (8 * digits) + 1)
        word >>= np.uint64(8 * digits)
        word &= np.uint64(mask)
    word *= np.uint64(10**4 * 2**32 + 1)
    word >>= np.uint64(32)
    return word, check == 0
