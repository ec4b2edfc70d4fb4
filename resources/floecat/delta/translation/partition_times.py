"""Dates and timestamps as texts of Delta's log, read column by column.

The forms are those of the protocol's "Partition Value Serialization": `{year}-{month}-{day}`, with
` {hour}:{minute}:{second}` and a fraction behind it, or in ISO 8601 with a zone. Years may have more than
four digits, or be negative, which Arrow's own parsing does not take.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["days_since_epoch", "micros_since_epoch"]

_DATE = r"^(?P<year>[+-]?\d{1,6})-(?P<month>\d{1,2})-(?P<day>\d{1,2})"
_TIME = (
    r"(?:[ T](?P<hour>\d{1,2}):(?P<minute>\d{1,2}):(?P<second>\d{1,2})(?:\.(?P<fraction>\d{1,9}))?"
    r"(?P<zone>Z|[+-]\d{2}:?\d{2})?)?$"
)
_DAYS_OF_MONTHS = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_MICROS_OF_DAY = 86_400_000_000
_LAST_DAY = 106_751_988
"""Farther from 1970, a time of the day and a zone could bring the microseconds to more than 64 bits."""
_LARGEST_OFFSET_HOURS = 18

Integers = npt.NDArray[np.int64]


def days_since_epoch(texts: pa.StringArray) -> Integers:
    """Days from 1970-01-01, in the proleptic Gregorian calendar.

    Args:
        texts: dates, none of them null.

    Raises:
        ValueError: a text is no date. The message does not quote it.
    """
    return _days(_match(texts, _DATE + "$"))


def micros_since_epoch(texts: pa.StringArray, *, zoned: bool) -> Integers:
    """Microseconds from 1970-01-01 00:00:00; further digits are cut off.

    Args:
        texts: timestamps, none of them null. Those without a zone are taken as they are.
        zoned: whether they may have a zone; the result is in UTC then.

    Raises:
        ValueError: a text is no timestamp, or is out of the range of 64 bits. The message does not quote it.
    """
    parts = _match(texts, _DATE + _TIME)
    days = _days(parts)
    if np.any(np.abs(days) > _LAST_DAY):
        raise ValueError("timestamp out of range")
    hours, minutes, seconds = (_integers(_part(parts, name)) for name in ("hour", "minute", "second"))
    if np.any((hours > 23) | (minutes > 59) | (seconds > 59)):
        raise ValueError("no time of the day")
    fractions = pc.utf8_slice_codeunits(pc.utf8_rpad(_part(parts, "fraction"), 6, "0"), 0, 6)
    micros = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + _integers(fractions)
    zones = _part(parts, "zone")
    if not zoned and pc.any(pc.not_equal(zones, "")).as_py():
        raise ValueError("a zone where none may be")
    return np.asarray(days * _MICROS_OF_DAY + micros - _offsets(zones), np.int64)


def _match(texts: pa.StringArray, pattern: str) -> pa.StructArray:
    parts = pc.extract_regex(texts, pattern)
    if parts.null_count:
        raise ValueError("neither date nor timestamp")
    return parts


def _part(parts: pa.StructArray, name: str) -> pa.StringArray:
    return pc.struct_field(parts, [parts.type.get_field_index(name)])


def _integers(texts: pa.StringArray) -> Integers:
    """Numbers; the empty text, of a part that is not there, is 0."""
    digits: Any = pc.if_else(pc.equal(texts, ""), "0", pc.utf8_ltrim(texts, "+")).cast(pa.int64())
    return np.asarray(digits.to_numpy(zero_copy_only=False), np.int64)


def _days(parts: pa.StructArray) -> Integers:
    years, months, days = (_integers(_part(parts, name)) for name in ("year", "month", "day"))
    leap = (years % 4 == 0) & ((years % 100 != 0) | (years % 400 == 0))
    in_range = (months >= 1) & (months <= 12)
    lengths = _DAYS_OF_MONTHS[np.where(in_range, months, 1) - 1] + (leap & (months == 2))
    if not np.all(in_range & (days >= 1) & (days <= lengths)):
        raise ValueError("no day of the calendar")
    # Years that begin in March have their leap day last, so that months before it always count alike.
    years = years - (months <= 2)
    months = (months + 9) % 12
    before_year = 365 * years + years // 4 - years // 100 + years // 400
    before_month = (153 * months + 2) // 5
    return np.asarray(before_year + before_month + days - 719_469, np.int64)


def _offsets(zones: pa.StringArray) -> Integers:
    """Microseconds by which zones like `Z`, `+0530` and `-08:00` are before UTC."""
    digits = pc.replace_substring(pc.if_else(pc.is_in(zones, pa.array(["", "Z"])), "+0000", zones), ":", "")
    hours = _integers(pc.utf8_slice_codeunits(digits, 1, 3))
    minutes = _integers(pc.utf8_slice_codeunits(digits, 3, 5))
    if np.any((hours > _LARGEST_OFFSET_HOURS) | (minutes > 59)):
        raise ValueError("no zone of a timestamp")
    signs = np.where(pc.starts_with(digits, "-").to_numpy(zero_copy_only=False), -1, 1)
    return np.asarray(signs * (hours * 60 + minutes) * 60_000_000, np.int64)
