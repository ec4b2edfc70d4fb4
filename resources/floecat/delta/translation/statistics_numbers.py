"""Numbers in statistics: whole numbers, as arrays of 64 bits or read out of text many at once, and decimals.

Eight digits of a whole number are a word of 64 bits and are added up inside the word: pairs of digits first,
then pairs of pairs.

Spark writes decimals exactly, with all digits of their scale. Other writers, among them delta-rs, convert
them to a double, which holds 15 digits: the text of a larger one may be above the least value of the file, or
below the greatest one. Bounds that may come from such a text are moved outwards.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, InvalidOperation
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from floecat.delta.translation.statistics_layout import is_plain_number, window

__all__ = ["as_longs", "decimals_from_tokens", "decimals_from_values", "longs_array", "parse_longs"]

_Ints: TypeAlias = npt.NDArray[np.int64]
_Words: TypeAlias = npt.NDArray[np.uint64]
_Bools: TypeAlias = npt.NDArray[np.bool_]

_LARGEST = 2**63 - 1
_MINUS = ord("-")
_MOST_LONG_DIGITS = 19

_KEPT = np.array([2**64 - 2 ** (64 - 8 * count) for count in range(9)], dtype=np.uint64)
"""Masks of the last bytes of a word, which the digits take, by number of digits."""

_ZEROS = np.uint64(0x3030303030303030)
_ABOVE_NINE = np.uint64(0x7676767676767676)
_TOP_BITS = np.uint64(0x8080808080808080)

_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")
_PLAIN = r"^-?\d+(\.\d+)?$"

_CONTEXT = Context(prec=100)
_MOST_DIGITS = 38

_SAFE = 10**15
"""Unscaled values below it are exact: 15 digits survive a double."""

_DOUBLE_DIGITS = 17
"""The shortest text of a double has at most this many digits, and no zero at the end of its fraction."""

_LONG_DIGITS = 19
"""delta-rs writes a decimal without fraction as a double converted to a long, at most the largest long."""

_LONG_LIMITS = {True: 2**63 - 1, False: -(2**63)}
_ERROR_BITS = 48
"""Bits of a double that are exact after some arithmetic."""


def longs_array(values: npt.NDArray[np.int64], is_valid: npt.NDArray[np.bool_]) -> pa.Int64Array:
    """An array that shares the memory of the values."""
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


def parse_longs(data: npt.NDArray[np.uint8], starts: _Ints, ends: _Ints) -> tuple[_Ints, _Bools]:
    """Reads whole numbers.

    Args:
        data: the text, with `LEAD` bytes before the first number.
        starts: where each number starts, shape (rows, columns).
        ends: where it ends, same shape.

    Returns:
        The numbers, and whether each is a number of 64 bits; other slots are arbitrary.
    """
    first = data[starts]
    is_negative = first == _MINUS
    lengths = ends - starts
    is_short = lengths.max(axis=0, initial=0) <= 1
    lengths -= is_negative
    longest = lengths.max(axis=0, initial=0)
    # Most null counts are 0: a column with one digit in each row is done.
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
    if longest.max(initial=0) >= _MOST_LONG_DIGITS:
        is_number &= (lengths <= _MOST_LONG_DIGITS) & (values <= _LARGEST + is_negative.astype(np.uint64))
    # In two's complement the smallest long is its own negative.
    numbers = values.view(np.int64)
    np.negative(numbers, out=numbers, where=is_negative)
    return numbers, is_number


def _parse_word(data: npt.NDArray[np.uint8], ends: _Ints, counts: _Ints) -> tuple[_Words, _Bools]:
    """Reads up to 8 digits before each end.

    The operations work in place: allocating memory for each would cost more than they do.
    """
    word = window(data, ends - 8, 8)[..., 0]
    kept = _KEPT.take(counts, mode="clip")
    word &= kept
    kept &= _ZEROS
    word ^= kept
    # Digits, and the bytes before them, are now 0 to 9. Other bytes have their top bit set, or get it.
    check = word + _ABOVE_NINE
    check |= word
    check &= _TOP_BITS
    for digits, mask in ((1, 0x00FF00FF00FF00FF), (2, 0x0000FFFF0000FFFF)):
        # Neighbours are added: the first has the higher value and the lower address.
        word *= np.uint64(10**digits * 2 ** (8 * digits) + 1)
        word >>= np.uint64(8 * digits)
        word &= np.uint64(mask)
    word *= np.uint64(10**4 * 2**32 + 1)
    word >>= np.uint64(32)
    return word, check == 0


def decimals_from_tokens(
    tokens: pa.StringArray, precision: int, scale: int, *, upper: bool
) -> pa.Decimal128Array:
    """Bounds from numbers as they are in JSON.

    Args:
        tokens: the numbers.
        precision: of the column.
        scale: of the column.
        upper: whether the result must not be below the true value; otherwise not above it.

    Returns:
        Decimals of the column's type; null for null, for other texts and for numbers too large for the
        column.
    """
    limit = 10**precision - 1
    values = _read(tokens, scale, limit, upper)
    doubtful = _is_large(values, scale)
    if pc.any(doubtful).as_py():
        doubtful = pc.and_(doubtful, pc.invert(_has_exact_text(tokens, values, scale)))
    return _widened(values, doubtful, scale, limit, upper).cast(pa.decimal128(precision, scale))


def decimals_from_values(
    values: pa.Array, precision: int, scale: int, *, upper: bool
) -> pa.Decimal128Array | None:
    """Bounds from decimals that were read from such texts.

    Returns:
        None if they are not decimals of this or a smaller scale.
    """
    if not pa.types.is_decimal(values.type) or values.type.scale > scale:
        return None
    if values.type.precision + scale - values.type.scale > precision:
        return None
    values = values.cast(pa.decimal128(_MOST_DIGITS, scale))
    limit = 10**precision - 1
    return _widened(values, _is_large(values, scale), scale, limit, upper).cast(
        pa.decimal128(precision, scale)
    )


def _read(tokens: pa.StringArray, scale: int, limit: int, upper: bool) -> pa.Decimal128Array:
    values = _read_plain(tokens, scale)
    others = None
    if values is None:
        others = pc.invert(pc.match_substring_regex(tokens, _plain(scale)))
        values = pc.if_else(others, pa.scalar(None, pa.string()), tokens).cast(
            pa.decimal128(_MOST_DIGITS, scale)
        )
    bound = pa.scalar(_decimal(limit, scale), values.type)
    fits = pc.and_(pc.less_equal(values, bound), pc.greater_equal(values, pc.negate(bound)))
    values = pc.if_else(fits, values, pa.scalar(None, values.type))
    if others is None or not pc.any(others).as_py():
        return values
    parsed = [_parse(token, scale, limit, upper) for token in tokens.filter(others).to_pylist()]
    return pc.replace_with_mask(values, pc.fill_null(others, False), pa.array(parsed, values.type))


def _read_plain(tokens: pa.StringArray, scale: int) -> pa.Decimal128Array | None:
    # Arrow crashes on large exponents.
    if not is_plain_number(tokens, _MOST_DIGITS):
        return None
    try:
        return tokens.cast(pa.decimal128(_MOST_DIGITS, scale))
    except pa.ArrowInvalid:
        return None


def _plain(scale: int) -> str:
    """Pattern of the numbers that need no rounding."""
    fraction = rf"(\.\d{{1,{scale}}})?" if scale else ""
    return rf"^-?\d{{1,{max(1, _MOST_DIGITS - scale)}}}{fraction}$"


def _is_large(values: pa.Decimal128Array, scale: int) -> pa.BooleanArray:
    limit = pa.scalar(_decimal(_SAFE, scale), values.type)
    large = pc.or_(pc.greater_equal(values, limit), pc.less_equal(values, pc.negate(limit)))
    return pc.fill_null(large, False)


def _has_exact_text(tokens: pa.StringArray, values: pa.Decimal128Array, scale: int) -> pa.BooleanArray:
    """Whether a number cannot be the text of a double."""
    least_digits = _DOUBLE_DIGITS if scale > 1 else _LONG_DIGITS
    least = pa.scalar(_decimal(10**least_digits, scale), values.type)
    has_more_digits = pc.or_(pc.greater_equal(values, least), pc.less_equal(values, pc.negate(least)))
    point = pc.find_substring(tokens, ".")
    fraction = pc.if_else(
        pc.equal(point, -1), 0, pc.subtract(pc.subtract(pc.binary_length(tokens), point), 1)
    )
    has_all_digits = pc.and_(pc.equal(fraction, scale), pc.match_substring_regex(tokens, _PLAIN))
    if scale > 1:
        has_more_digits = pc.or_(has_more_digits, pc.ends_with(tokens, "0"))
    return pc.and_(has_all_digits, has_more_digits)


def _parse(token: str, scale: int, limit: int, upper: bool) -> Decimal | None:
    if _NUMBER.fullmatch(token) is None:
        return None
    try:
        value = Decimal(token)
        if not value.is_finite() or value.adjusted() > _MOST_DIGITS:
            return None
        unscaled = int(
            value.scaleb(scale, _CONTEXT).to_integral_value(ROUND_CEILING if upper else ROUND_FLOOR)
        )
    except InvalidOperation:
        return None
    return _decimal(unscaled, scale) if abs(unscaled) <= limit else None


def _widened(
    values: pa.Decimal128Array, doubtful: pa.BooleanArray, scale: int, limit: int, upper: bool
) -> pa.Decimal128Array:
    if not pc.any(doubtful).as_py():
        return values
    moved: list[Decimal | None] = []
    for value in values.filter(doubtful).to_pylist():
        unscaled = int(value.scaleb(scale, _CONTEXT))
        margin = (abs(unscaled) >> _ERROR_BITS) + 1
        if not scale and unscaled == _LONG_LIMITS[upper]:
            moved.append(None)
        else:
            unscaled = min(unscaled + margin, limit) if upper else max(unscaled - margin, -limit)
            moved.append(_decimal(unscaled, scale))
    return pc.replace_with_mask(values, doubtful, pa.array(moved, values.type))


def _decimal(unscaled: int, scale: int) -> Decimal:
    return Decimal(unscaled).scaleb(-scale, _CONTEXT)
