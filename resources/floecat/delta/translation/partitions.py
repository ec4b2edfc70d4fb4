r"""Partition values of Delta's log as typed values (Delta protocol, "Partition Value Serialization").

- null, the empty string and an absent value are null for every type. `__HIVE_DEFAULT_PARTITION__` and `null`
  are plain text: data in a string column, an error in others.
- A timestamp without a zone is read as UTC. The protocol means the zone of the writer, which the log does
  not record.
- Dates are `{year}-{month}-{day}`, timestamps have ` {hour}:{minute}:{second}` and a fraction behind it, or
  are ISO 8601 with a zone. Years may have more than four digits or be negative, which Arrow does not parse.
- Binary values are the UTF-8 bytes of the text, as Spark and both kernels read them. Escapes that delta-rs
  writes, like `\u0001`, are text to those readers and here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from floecat.delta.translation.translated_schema import PartitionColumn, TranslatedSchema
from floecat.errors import InvalidDeltaTableError

__all__ = ["days_since_epoch", "micros_since_epoch", "partition_values"]

_ARROW_TYPES: dict[str, Any] = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
}

_DECIMAL = r"^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?$"
"""A number as writers spell it; the largest decimal has 38 digits."""

_DATE = r"^(?P<year>[+-]?\d{1,6})-(?P<month>\d{1,2})-(?P<day>\d{1,2})"
_TIME = (
    r"(?:[ T](?P<hour>\d{1,2}):(?P<minute>\d{1,2}):(?P<second>\d{1,2})(?:\.(?P<fraction>\d{1,9}))?"
    r"(?P<zone>Z|[+-]\d{2}:?\d{2})?)?$"
)
_DAYS_OF_MONTHS = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_MICROS_OF_DAY = 86_400_000_000
_LAST_DAY = 106_751_988
"""Day beyond which a time of day and a zone could overflow 64 bits of microseconds."""
_LARGEST_OFFSET_HOURS = 18

Integers = npt.NDArray[np.int64]


def partition_values(files: pa.Table, schema: TranslatedSchema) -> pa.StructArray:
    """The partition of each file, typed.

    Args:
        files: files with a column `partition_values`, as `floecat.delta.log.file_tables` describes it.
        schema: schema of the version.

    Returns:
        One row per file, with a field for each partition column, named and ordered as in the partition spec.
        Arrow types are int32, int64, float32, float64, bool, string, binary, date32, decimal128, and
        timestamp in microseconds, in UTC or without a zone.

    Raises:
        InvalidDeltaTableError: a value is not of its column's type. The message names the column.
    """
    if not schema.partition_fields:
        return pa.array([{}] * len(files), pa.struct([]))
    values = files["partition_values"].combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    arrays = [_column(values, column) for column in schema.partition_fields]
    return pa.StructArray.from_arrays(arrays, names=[column.name for column in schema.partition_fields])


def _column(values: pa.StructArray, column: PartitionColumn) -> pa.Array:
    position = values.type.get_field_index(column.physical_name)
    if position < 0:
        return pa.nulls(len(values), _parsed(pa.array([], pa.string()), column).type)
    # Children of null rows may hold values.
    texts = pc.struct_field(values, [position]).cast(pa.string())
    texts = pc.if_else(pc.equal(texts, ""), None, texts)
    encoded = texts.dictionary_encode()
    return _parsed(encoded.dictionary, column).take(encoded.indices)


def _parsed(texts: pa.StringArray, column: PartitionColumn) -> pa.Array:
    parse = _PARSERS.get(column.delta_type.partition("(")[0], _parse_number)
    try:
        return parse(texts, column)
    except (pa.ArrowInvalid, ValueError):
        raise InvalidDeltaTableError(
            f"A partition value of column {column.name} is not of its type {column.delta_type}"
        ) from None


def _parse_number(texts: pa.StringArray, column: PartitionColumn) -> pa.Array:
    numbers = pc.utf8_trim_whitespace(texts).cast(_ARROW_TYPES[column.delta_type])
    # Iceberg has no integers of less than 32 bits.
    return numbers.cast(pa.int32()) if column.type.name == "int" else numbers


def _parse_decimal(texts: pa.StringArray, column: PartitionColumn) -> pa.Array:
    trimmed = pc.utf8_trim_whitespace(texts)
    # the cast crashes on large exponents
    if pc.all(pc.match_substring_regex(trimmed, _DECIMAL)).as_py() is False:
        raise ValueError
    return trimmed.cast(pa.decimal128(*column.type.parameters))


def _parse_string(texts: pa.StringArray, _: PartitionColumn) -> pa.Array:
    return texts


def _parse_binary(texts: pa.StringArray, _: PartitionColumn) -> pa.Array:
    return texts.cast(pa.binary())


def _parse_date(texts: pa.StringArray, _: PartitionColumn) -> pa.Array:
    return pa.array(days_since_epoch(texts), pa.int32()).cast(pa.date32())


def _parse_timestamp(texts: pa.StringArray, _: PartitionColumn) -> pa.Array:
    return pa.array(micros_since_epoch(texts, zoned=True), pa.int64()).cast(pa.timestamp("us", "UTC"))


def _parse_timestamp_ntz(texts: pa.StringArray, _: PartitionColumn) -> pa.Array:
    return pa.array(micros_since_epoch(texts, zoned=False), pa.int64()).cast(pa.timestamp("us"))


_PARSERS: dict[str, Callable[[pa.StringArray, PartitionColumn], pa.Array]] = {
    "decimal": _parse_decimal,
    "string": _parse_string,
    "binary": _parse_binary,
    "date": _parse_date,
    "timestamp": _parse_timestamp,
    "timestamp_ntz": _parse_timestamp_ntz,
}


def days_since_epoch(texts: pa.StringArray) -> Integers:
    """Days from 1970-01-01, in the proleptic Gregorian calendar.

    Args:
        texts: dates, none of them null.

    Raises:
        ValueError: a text is not a date. The message does not quote it.
    """
    return _days(_match(texts, _DATE + "$"))


def micros_since_epoch(texts: pa.StringArray, *, zoned: bool) -> Integers:
    """Microseconds from 1970-01-01 00:00:00; further digits are cut off.

    Args:
        texts: timestamps, none of them null. Those without a zone are not converted.
        zoned: whether they may have a zone; the result is then in UTC.

    Raises:
        ValueError: a text is not a timestamp or exceeds 64 bits. The message does not quote it.
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
    """Numbers; the empty text of a missing part is 0."""
    digits: Any = pc.if_else(pc.equal(texts, ""), "0", pc.utf8_ltrim(texts, "+")).cast(pa.int64())
    return np.asarray(digits.to_numpy(zero_copy_only=False), np.int64)


def _days(parts: pa.StructArray) -> Integers:
    years, months, days = (_integers(_part(parts, name)) for name in ("year", "month", "day"))
    leap = (years % 4 == 0) & ((years % 100 != 0) | (years % 400 == 0))
    in_range = (months >= 1) & (months <= 12)
    lengths = _DAYS_OF_MONTHS[np.where(in_range, months, 1) - 1] + (leap & (months == 2))
    if not np.all(in_range & (days >= 1) & (days <= lengths)):
        raise ValueError("no day of the calendar")
    # In years that begin in March the leap day is last, so that all months start at fixed days.
    years = years - (months <= 2)
    months = (months + 9) % 12
    before_year = 365 * years + years // 4 - years // 100 + years // 400
    before_month = (153 * months + 2) // 5
    return np.asarray(before_year + before_month + days - 719_469, np.int64)


def _offsets(zones: pa.StringArray) -> Integers:
    """Offsets from UTC in microseconds of zones like `Z`, `+0530` and `-08:00`."""
    digits = pc.replace_substring(pc.if_else(pc.is_in(zones, pa.array(["", "Z"])), "+0000", zones), ":", "")
    hours = _integers(pc.utf8_slice_codeunits(digits, 1, 3))
    minutes = _integers(pc.utf8_slice_codeunits(digits, 3, 5))
    if np.any((hours > _LARGEST_OFFSET_HOURS) | (minutes > 59)):
        raise ValueError("no zone of a timestamp")
    signs = np.where(pc.starts_with(digits, "-").to_numpy(zero_copy_only=False), -1, 1)
    return np.asarray(signs * (hours * 60 + minutes) * 60_000_000, np.int64)
