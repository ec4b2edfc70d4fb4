"""Bounds of columns from the minima and maxima in Delta's statistics.

Iceberg prunes a file if its bounds exclude every match, so a bound may be loose but must not be wrong.
Delta's minima and maxima differ from such bounds (Delta transaction log protocol, "Per-file Statistics"):

- Timestamps are truncated to milliseconds. The upper bound is 999 microseconds later, at most the largest
  long.
- Strings are truncated to a prefix, mostly of 32 characters. A prefix is a lower bound. Spark's maxima get
  one more character, U+007F or U+10FFFF, and are then above everything with the prefix. Older Spark appended
  U+FFFD, which in byte order is below all characters beyond U+FFFF, and split surrogate pairs, which left
  `?`; other writers append nothing. So a maximum that may be truncated is replaced by its successor, one of
  older Spark by the successor of the prefix.
- Zeros have no sign there. In Iceberg -0.0 is below 0.0, and NaN is not a bound.
- Decimals may have lost digits, see `floecat.delta.translation.statistics_numbers`.
- Values that were written while the column was a `float` are the shortest texts of floats. Read as doubles,
  these differ from the floats.

Deletion vectors make no difference: with `tightBounds` false, minima and maxima still cover all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floecat.delta.translation.statistics_layout import is_quoted
from floecat.delta.translation.statistics_numbers import as_longs, decimals_from_tokens, decimals_from_values
from floecat.delta.translation.statistics_times import parse_days, parse_moments
from floecat.iceberg.parquet.column_statistics import successors
from floecat.iceberg.schemas.types import PrimitiveType

__all__ = ["Bounds", "bounds_from_tokens", "bounds_from_values", "bounds_of_longs", "has_bounds", "is_long"]

_LARGEST_LONG = 2**63 - 1
_CUT_US = 999

_OLD_TIE_BREAKER = "\ufffd"
_PREFIX_LENGTH = 32
_MOST_CHARACTERS = 64
"""Longer strings enlarge manifests and prune no better."""

_FLOATS: Final = {"float": pa.float32(), "double": pa.float64()}
_WHOLE_NUMBERS: Final = {"int": pa.int32(), "long": pa.int64()}
_TIMESTAMPS = frozenset({"timestamp", "timestamptz"})
_BOUNDED = frozenset({"boolean", "decimal", "date", "string", *_FLOATS, *_WHOLE_NUMBERS, *_TIMESTAMPS})


@dataclass(frozen=True)
class Bounds:
    """Bounds of a column, one slot per file, of types that `single_values.encode` takes; null if unknown."""

    lower: pa.Array
    upper: pa.Array


def has_bounds(type: PrimitiveType) -> bool:
    """Whether Delta has minima and maxima of the type, and Iceberg bounds."""
    return type.name in _BOUNDED


def is_long(type: PrimitiveType) -> bool:
    """Whether its minima and maxima are whole numbers of 64 bits."""
    return type.name in _WHOLE_NUMBERS


def bounds_of_longs(type: PrimitiveType, minima: pa.Int64Array, maxima: pa.Int64Array) -> Bounds:
    """Bounds of an `int` or `long` column; numbers that the type cannot hold are left out."""
    return Bounds(_narrowed(minima, type), _narrowed(maxima, type))


def bounds_from_tokens(
    type: PrimitiveType, minima: pa.StringArray, maxima: pa.StringArray, *, was_float: bool = False
) -> Bounds:
    """Bounds from values as they are in JSON.

    Args:
        type: the Iceberg type, one that has bounds and is not long.
        minima: the tokens, strings in quotes.
        maxima: the tokens, strings in quotes.
        was_float: whether the column, a `double` now, was a `float` once.
    """
    if type.name in _FLOATS:
        return _float_bounds(_floats(minima, type), _floats(maxima, type), was_float)
    if type.name == "decimal":
        precision, scale = (int(parameter) for parameter in type.parameters)
        lower = decimals_from_tokens(minima, precision, scale, upper=False)
        return Bounds(lower, decimals_from_tokens(maxima, precision, scale, upper=True))
    if type.name == "boolean":
        return Bounds(_booleans(minima), _booleans(maxima))
    minima, maxima = _strings(minima), _strings(maxima)
    if type.name == "date":
        return Bounds(parse_days(minima), parse_days(maxima))
    if type.name in _TIMESTAMPS:
        zoned = type.name == "timestamptz"
        earliest, _ = parse_moments(minima, zoned=zoned)
        _, latest = parse_moments(maxima, zoned=zoned)
        return Bounds(earliest, _later(latest))
    return _string_bounds(minima, maxima)


def bounds_from_values(
    type: PrimitiveType, minima: pa.Array, maxima: pa.Array, *, was_float: bool = False
) -> Bounds | None:
    """Bounds from the values of struct statistics.

    Args:
        type: the Iceberg type, one that has bounds.
        minima: values of the Arrow type of the checkpoint.
        maxima: values of the same type.
        was_float: whether the column, a `double` now, was a `float` once.

    Returns:
        None if a column of this type cannot have that Arrow type.
    """
    given, name = minima.type, type.name
    if maxima.type != given:
        return None
    if name in _WHOLE_NUMBERS and pa.types.is_integer(given):
        return bounds_of_longs(type, as_longs(minima), as_longs(maxima))
    if name in _FLOATS and given in (pa.float32(), _FLOATS[name]):
        return _float_bounds(minima.cast(_FLOATS[name]), maxima.cast(_FLOATS[name]), was_float)
    if name == "decimal":
        precision, scale = (int(parameter) for parameter in type.parameters)
        lower = decimals_from_values(minima, precision, scale, upper=False)
        upper = decimals_from_values(maxima, precision, scale, upper=True)
        return None if lower is None else Bounds(lower, upper)
    if (name == "boolean" and pa.types.is_boolean(given)) or (name == "date" and pa.types.is_date32(given)):
        return Bounds(minima, maxima)
    if name == "string" and (pa.types.is_string(given) or pa.types.is_large_string(given)):
        return _string_bounds(minima.cast(pa.string()), maxima.cast(pa.string()))
    # Nanoseconds come from INT96 timestamps, and end in the year 2262.
    if name in _TIMESTAMPS and pa.types.is_timestamp(given) and given.unit in ("us", "ms"):
        factor = 1 if given.unit == "us" else 1000
        try:
            lower, upper = (
                pc.multiply_checked(values.cast(pa.int64()), factor) for values in (minima, maxima)
            )
        except pa.ArrowInvalid:
            return None
        return Bounds(lower, _later(upper))
    return None


def _narrowed(values: pa.Int64Array, type: PrimitiveType) -> pa.Array:
    try:
        return values.cast(_WHOLE_NUMBERS[type.name])
    except pa.ArrowInvalid:
        narrow = values.cast(pa.int32(), safe=False)
        return pc.if_else(pc.equal(narrow.cast(pa.int64()), values), narrow, pa.scalar(None, pa.int32()))


def _booleans(tokens: pa.StringArray) -> pa.BooleanArray:
    is_boolean = pc.is_in(tokens, value_set=pa.array(["true", "false"]))
    return pc.if_else(is_boolean, pc.equal(tokens, "true"), pa.scalar(None, pa.bool_()))


def _floats(tokens: pa.StringArray, type: PrimitiveType) -> pa.Array:
    try:
        return tokens.cast(_FLOATS[type.name])
    except pa.ArrowInvalid:
        # Special values are in quotes: "NaN", "Infinity", "-Infinity".
        texts = pc.utf8_trim(tokens, '"')
        is_number = pc.match_substring_regex(texts, r"^-?(\d+(\.\d+)?([eE][+-]?\d+)?|Infinity)$")
        return pc.if_else(is_number, texts, pa.scalar(None, pa.string())).cast(_FLOATS[type.name])


def _float_bounds(minima: pa.Array, maxima: pa.Array, was_float: bool) -> Bounds:
    lower, upper = (values.fill_null(np.nan).to_numpy(zero_copy_only=False) for values in (minima, maxima))
    if was_float:
        with np.errstate(over="ignore"):
            as_floats = [values.astype(np.float32).astype(np.float64) for values in (lower, upper)]
        lower = np.where(np.isfinite(as_floats[0]), np.minimum(lower, as_floats[0]), lower)
        upper = np.where(np.isfinite(as_floats[1]), np.maximum(upper, as_floats[1]), upper)
    zero = lower.dtype.type(0)
    return Bounds(
        # A lower bound of infinity, or an upper one of minus infinity, comes from numbers out of range.
        pa.array(np.where(lower == 0, -zero, lower), mask=np.isnan(lower) | (lower == np.inf)),
        pa.array(np.where(upper == 0, zero, upper), mask=np.isnan(upper) | (upper == -np.inf)),
    )


def _later(micros: pa.Int64Array) -> pa.Int64Array:
    return pc.add(pc.min_element_wise(micros, _LARGEST_LONG - _CUT_US, skip_nulls=False), _CUT_US)


def _strings(tokens: pa.StringArray) -> pa.StringArray:
    if is_quoted(tokens):
        return pc.binary_slice(tokens.cast(pa.binary()), 1, -1).cast(pa.string())
    quoted = pc.match_substring_regex(tokens, r'^"[^"\\]*"$')
    inner = pc.binary_slice(pc.if_else(quoted, tokens, pa.scalar(None, pa.string())).cast(pa.binary()), 1, -1)
    strings = inner.cast(pa.string())
    others = pc.and_(tokens.is_valid(), pc.invert(pc.fill_null(quoted, False)))
    decoded = [_decode(token) for token in tokens.filter(others).to_pylist()]
    return pc.replace_with_mask(strings, others, pa.array(decoded, pa.string()))


def _decode(token: str) -> str | None:
    try:
        return msgspec.json.decode(token, type=str)
    except msgspec.MsgspecError:
        return None


def _string_bounds(minima: pa.StringArray, maxima: pa.StringArray) -> Bounds:
    is_old = pc.ends_with(maxima, _OLD_TIE_BREAKER)
    prefixes = pc.if_else(is_old, pc.utf8_rtrim(maxima, f"{_OLD_TIE_BREAKER}?"), maxima)
    # A character has at least one byte, so every string that may be truncated is found.
    may_be_cut = pc.or_(is_old, pc.greater_equal(pc.binary_length(maxima), _PREFIX_LENGTH))
    if pc.any(pc.greater(pc.utf8_length(prefixes), _MOST_CHARACTERS)).as_py():
        prefixes = pc.utf8_slice_codeunits(prefixes, 0, _MOST_CHARACTERS)
    upper = maxima
    if pc.any(may_be_cut).as_py():
        upper = pc.if_else(may_be_cut, successors(prefixes), maxima)
    if pc.any(pc.greater(pc.utf8_length(minima), _MOST_CHARACTERS)).as_py():
        minima = pc.utf8_slice_codeunits(minima, 0, _MOST_CHARACTERS)
    return Bounds(minima, upper)
