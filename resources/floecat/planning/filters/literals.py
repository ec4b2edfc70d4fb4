"""Values of filters, which arrive without a type, as values of the column that they are compared with.

Canonical values: `int` for whole numbers, booleans, unscaled decimals, and days, microseconds or nanoseconds
since the epoch; `float`; `bytes` for strings (UTF-8), UUIDs, fixed and binary.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Final, TypeAlias
from uuid import UUID

from floecat.iceberg.schemas.types import PrimitiveType

__all__ = ["EXAMPLES", "FLOATS", "INTEGER_RANGES", "Canonical", "canonical", "json_number"]

Canonical: TypeAlias = int | float | bytes | Fraction
"""A `Fraction` lies between two values of the column, or beyond its finite ones: no value equals it."""

INTEGER_RANGES: Final = {
    **dict.fromkeys(("int", "date"), (-(2**31), 2**31 - 1)),
    **dict.fromkeys(
        ("long", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"), (-(2**63), 2**63 - 1)
    ),
    "boolean": (0, 1),
}
"""Least and greatest value of the types whose canonical values are whole numbers, but `decimal`."""

EXAMPLES: Final = {
    "boolean": "true",
    **dict.fromkeys(("int", "long"), "42"),
    **dict.fromkeys(("float", "double"), "1.5"),
    "decimal": "12.5",
    "date": "'2026-11-30'",
    "time": "'08:30:00'",
    **dict.fromkeys(("timestamp", "timestamp_ns"), "'2026-11-30T08:30:00'"),
    **dict.fromkeys(("timestamptz", "timestamptz_ns"), "'2026-11-30T08:30:00+00:00'"),
    "string": "'text'",
    "uuid": "'f79c3e09-677c-4bbd-a479-3f349cb785e7'",
    **dict.fromkeys(("binary", "fixed"), "'00ff'"),
}
"""A value of each type as a person writes it in a filter, for messages; of `fixed` one of two bytes."""

_EPOCH: Final = datetime(1970, 1, 1)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_CLOCK: Final = re.compile(r"([0-9]{2}:[0-9]{2}(?::[0-9]{2})?)(?:\.([0-9]{1,9}))?")
_TIMESTAMP: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9:.]{5,18})(Z|[+-][0-9]{2}:?[0-9]{2})?")
FLOATS: Final = frozenset({"float", "double"})
_LEAST_BEYOND_JSON: Final = 2**63
_NO_JSON_NUMBERS: Final = frozenset({"NaN", "Infinity", "-Infinity"})
"""Numbers as Java spells them."""
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]{1,60}(?:\.[0-9]{0,60})?|\.[0-9]{1,60})(?:[Ee][+-]?[0-9]{1,3})?")


def canonical(value: object, type: PrimitiveType) -> Canonical:
    """The value of a literal.

    Args:
        value: JSON: a string, a number or a boolean.

    Raises:
        ValueError: it cannot be a value of that type. Numbers outside the range of the type can, and numbers
            as texts.
    """
    try:
        return _READERS[type.name](value, type)
    except (KeyError, TypeError, ValueError, OverflowError, InvalidOperation):
        raise ValueError from None


def json_number(text: str) -> object:
    """The number that a text spells, as JSON has it; the text where JSON does not."""
    if _DECIMAL.fullmatch(text) is None:
        return text
    number = Fraction(Decimal(text))
    if number.denominator == 1 and abs(number) < _LEAST_BEYOND_JSON:
        return int(number)
    return float(text) if math.isfinite(float(text)) else text


def _boolean(value: object, _type: PrimitiveType) -> int:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return int(value.lower() == "true")
    raise ValueError


def _whole(value: object, _type: PrimitiveType) -> int:
    if type(value) is not int:
        raise ValueError
    return value


def _number(value: object) -> Fraction:
    # PyIceberg sends numbers of filters that it parsed as texts
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError
    if isinstance(value, str) and _DECIMAL.fullmatch(value) is None:
        raise ValueError
    return Fraction(Decimal(str(value)))


def _exact(number: Fraction) -> int | Fraction:
    return number.numerator if number.denominator == 1 else number


def _integer(value: object, _type: PrimitiveType) -> int | Fraction:
    return value if type(value) is int else _exact(_number(value))


def _float(value: object, type_: PrimitiveType) -> float | Fraction:
    if isinstance(value, str) and value in _NO_JSON_NUMBERS:
        return float(value)
    number = _number(value)
    try:
        rounded = float(str(value))
        if type_.name == "float":
            (rounded,) = struct.unpack("<f", struct.pack("<f", rounded))
    except OverflowError:
        return number
    return number if math.isinf(rounded) else rounded


def _decimal(value: object, type_: PrimitiveType) -> int | Fraction:
    return _exact(_number(value) * Fraction(10 ** int(type_.parameters[1])))


def _date(value: object, type_: PrimitiveType) -> int:
    if isinstance(value, str):
        if _DAY.fullmatch(value) is None:
            raise ValueError
        return date.fromisoformat(value).toordinal() - _EPOCH_DAY
    return _whole(value, type_)


def _time(value: object, type_: PrimitiveType) -> int:
    return _clock_nanos(value) // 1000 if isinstance(value, str) else _whole(value, type_)


def _clock_nanos(text: str) -> int:
    match = _CLOCK.fullmatch(text)
    if match is None:
        raise ValueError
    clock = time.fromisoformat(match[1])
    seconds = (clock.hour * 60 + clock.minute) * 60 + clock.second
    return seconds * 10**9 + int((match[2] or "").ljust(9, "0"))


def _timestamp(value: object, type_: PrimitiveType) -> int | Fraction:
    per_unit = 1 if type_.name.endswith("_ns") else 1000
    if not isinstance(value, str):
        # whole numbers are microseconds, for columns of nanoseconds too, as in the reference implementation
        return _whole(value, type_) * 1000 // per_unit
    match = _TIMESTAMP.fullmatch(value)
    # PyIceberg leaves out the offset of a timestamptz, which is that of UTC
    if match is None or (match[3] is not None and not type_.name.startswith("timestamptz")):
        raise ValueError
    moment = datetime.fromisoformat(match[1]) - _offset(match[3])
    since = moment - _EPOCH
    nanos = (since.days * 86_400 + since.seconds) * 10**9 + _clock_nanos(match[2])
    exact = Fraction(nanos, per_unit)
    return exact.numerator if exact.denominator == 1 else exact


def _offset(text: str | None) -> timedelta:
    if text is None or text == "Z":
        return timedelta()
    minutes = int(text[1:3]) * 60 + int(text[-2:])
    return timedelta(minutes=-minutes if text[0] == "-" else minutes)


def _string(value: object, _type: PrimitiveType) -> bytes:
    if not isinstance(value, str):
        raise TypeError
    return value.encode()


def _uuid(value: object, _type: PrimitiveType) -> bytes:
    if not isinstance(value, str) or len(value) != 36:
        raise ValueError
    return UUID(value).bytes


def _hex(value: object, type_: PrimitiveType) -> bytes:
    if not isinstance(value, str):
        raise TypeError
    data = bytes.fromhex(value)
    if 2 * len(data) != len(value) or (type_.name == "fixed" and len(data) != type_.parameters[0]):
        raise ValueError
    return data


_READERS: Final[dict[str, Callable[[object, PrimitiveType], Canonical]]] = {
    "boolean": _boolean,
    "int": _integer,
    "long": _integer,
    "float": _float,
    "double": _float,
    "decimal": _decimal,
    "date": _date,
    "time": _time,
    **dict.fromkeys(("timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"), _timestamp),
    "string": _string,
    "uuid": _uuid,
    "binary": _hex,
    "fixed": _hex,
}
