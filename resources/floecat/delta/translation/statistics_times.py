"""Dates and timestamps in statistics texts.

Writers spell timestamps in several ways: `2020-01-01T00:00:00.123Z`, with an offset, with a blank, without
seconds if they are zero, with a sign before years of more than four digits. Other texts, and times that the
type cannot hold, are unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["parse_days", "parse_moments"]

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
_DAY_US = 86_400_000_000
_SMALLEST_LONG, _LARGEST_LONG = -(2**63), 2**63 - 1
_SMALLEST_INT, _LARGEST_INT = -(2**31), 2**31 - 1

# Offsets of local time once had seconds (in Liberia until 1972) but are written in minutes: such a text may
# be wrong by less than a minute.
_LAST_ODD_OFFSET_US = 3 * 365 * _DAY_US
_ODD_OFFSET_US = 60_000_000

_DATE = r"([+-]?\d{4,9})-(\d{2})-(\d{2})"
_DAY = re.compile(_DATE)
_MOMENT = re.compile(
    _DATE + r"(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?)?(Z|[+-]\d{2}:\d{2}(?::\d{2})?)?"
)
_USUAL_MOMENT = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,6})?"


def parse_days(texts: pa.StringArray) -> pa.Int32Array:
    """Days since 1970-01-01; null for other texts."""
    try:
        return texts.cast(pa.date32()).cast(pa.int32())
    except pa.ArrowInvalid:
        return pa.array(
            [None if text is None else _parse_day(text) for text in texts.to_pylist()], pa.int32()
        )


def parse_moments(texts: pa.StringArray, *, zoned: bool) -> tuple[pa.Int64Array, pa.Int64Array]:
    """Microseconds since 1970-01-01T00:00:00: the earliest and the latest that a text can mean.

    The two differ where a text has nanoseconds or an offset of the time before 1972, see above.

    Args:
        zoned: whether they are instants, in UTC or with an offset; otherwise they are local, and any offset
            except that of UTC is invalid.

    Returns:
        Null for other texts. The latest is at most the largest long, the earliest at least the smallest one.
    """
    micros = _parse_usual(texts, zoned)
    earliest = latest = micros
    if zoned and pc.any(pc.less(micros, _LAST_ODD_OFFSET_US)).as_py():
        is_odd = pc.and_not(pc.less(micros, _LAST_ODD_OFFSET_US), pc.ends_with(texts, "Z"))
        earliest = pc.if_else(is_odd, pc.subtract(micros, _ODD_OFFSET_US), micros)
        latest = pc.if_else(is_odd, pc.add(micros, _ODD_OFFSET_US), micros)
    unusual = pc.and_(texts.is_valid(), micros.is_null())
    if not pc.any(unusual).as_py():
        return earliest, latest
    parsed = [_parse_moment(text, zoned) for text in texts.filter(unusual).to_pylist()]
    return (
        pc.replace_with_mask(earliest, unusual, _longs(parsed, _not_above, 0)),
        pc.replace_with_mask(latest, unusual, _longs(parsed, _not_below, 1)),
    )


def _parse_usual(texts: pa.StringArray, zoned: bool) -> pa.Int64Array:
    type = pa.timestamp("us", "UTC" if zoned else None)
    try:
        return texts.cast(type).cast(pa.int64())
    except pa.ArrowInvalid:
        pattern = _USUAL_MOMENT + (r"(Z|[+-]\d{2}:\d{2})$" if zoned else "$")
        usual = pc.match_substring_regex(texts, pattern)
    try:
        return pc.if_else(usual, texts, pa.scalar(None, pa.string())).cast(type).cast(pa.int64())
    except pa.ArrowInvalid:
        # Some dates do not exist.
        return pa.nulls(len(texts), pa.int64())


def _longs(
    moments: Sequence[tuple[int, int] | None], saturate: Callable[[int], int | None], side: int
) -> pa.Int64Array:
    return pa.array([None if moment is None else saturate(moment[side]) for moment in moments], pa.int64())


def _not_above(micros: int) -> int | None:
    """The largest long that is not above; None if there is none."""
    return None if micros > _LARGEST_LONG else max(micros, _SMALLEST_LONG)


def _not_below(micros: int) -> int | None:
    return None if micros < _SMALLEST_LONG else min(micros, _LARGEST_LONG)


def _parse_day(text: str) -> int | None:
    match = _DAY.fullmatch(text)
    day = _day(match) if match else None
    return day if day is not None and _SMALLEST_INT <= day <= _LARGEST_INT else None


def _day(match: re.Match[str]) -> int | None:
    year = int(match[1])
    # `date` ends at the year 9999; the calendar repeats itself.
    cycle, year_of_cycle = divmod(year, _CYCLE_YEARS)
    try:
        day = date(year_of_cycle + _CYCLE_YEARS, int(match[2]), int(match[3])).toordinal()
    except ValueError:
        return None
    return day + (cycle - 1) * _CYCLE_DAYS - _EPOCH_DAY


def _parse_moment(text: str, zoned: bool) -> tuple[int, int] | None:
    match = _MOMENT.fullmatch(text)
    day = _day(match) if match else None
    if match is None or day is None:
        return None
    hour, minute, second = (int(match[part] or 0) for part in (4, 5, 6))
    if hour > 23 or minute > 59 or second > 59:
        return None
    offset = match[8]
    # A local time with an offset, or a moment without one, could mean several things. A date is local
    # midnight.
    if (zoned and offset is None) or (not zoned and offset not in (None, "Z")):
        return None
    nanos = int((match[7] or "0").ljust(9, "0"))
    seconds = (hour * 60 + minute) * 60 + second - _offset_seconds(offset)
    micros = day * _DAY_US + seconds * 1_000_000
    earliest, latest = micros + nanos // 1000, micros - (-nanos // 1000)
    if offset not in (None, "Z") and len(offset) == len("+00:00") and earliest < _LAST_ODD_OFFSET_US:
        return earliest - _ODD_OFFSET_US, latest + _ODD_OFFSET_US
    return earliest, latest


def _offset_seconds(offset: str | None) -> int:
    if offset is None or offset == "Z":
        return 0
    parts = [int(part) for part in offset[1:].split(":")]
    seconds = parts[0] * 3600 + parts[1] * 60 + (parts[2] if len(parts) > 2 else 0)
    return -seconds if offset[0] == "-" else seconds
