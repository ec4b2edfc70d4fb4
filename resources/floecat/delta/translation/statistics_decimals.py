"""Decimals in statistics.

Spark writes decimals exactly, with all digits of their scale. Other writers, delta-rs among them, pass them
through a double, which holds 15 digits: the text of a larger one may be above the least value of the file, or
below the greatest one. Bounds that may come from such a text are moved outwards.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, InvalidOperation

import pyarrow as pa
import pyarrow.compute as pc

from floecat.delta.translation.statistics_tokens import is_plain_number

__all__ = ["decimals_from_tokens", "decimals_from_values"]

_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")
_PLAIN = r"^-?\d+(\.\d+)?$"

_CONTEXT = Context(prec=100)
_MOST_DIGITS = 38

_SAFE = 10**15
"""Unscaled values below are what they seem: 15 digits survive a double."""

_DOUBLE_DIGITS = 17
"""The shortest text of a double has at most so many digits, and no zero at the end of its fraction."""

_LONG_DIGITS = 19
"""delta-rs writes a decimal without fraction as a double that became a long, cut off at the largest long."""

_LONG_LIMITS = {True: 2**63 - 1, False: -(2**63)}
_ERROR_BITS = 48
"""Bits of a double that are right after some arithmetic."""


def decimals_from_tokens(
    tokens: pa.StringArray, precision: int, scale: int, *, upper: bool
) -> pa.Decimal128Array:
    """Bounds out of numbers as they stand in JSON.

    Args:
        tokens: the numbers.
        precision: of the column.
        scale: of the column.
        upper: whether a value is wanted that is not below the true one; else one that is not above.

    Returns:
        Decimals of the column's type; null for null and for what is no number or too large for the column.
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
    """Bounds out of decimals that were read from such texts.

    Returns:
        None if they are no decimals of this or a smaller scale.
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
    # Arrow's own reading does not survive large exponents.
    if not is_plain_number(tokens, _MOST_DIGITS):
        return None
    try:
        return tokens.cast(pa.decimal128(_MOST_DIGITS, scale))
    except pa.ArrowInvalid:
        return None


def _plain(scale: int) -> str:
    """A pattern of the numbers that need no rounding."""
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
