"""Default values of fields: JSON single values (table specification, "Default values" and Appendix D)."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal

from floecat.errors import IllegalArgumentError
from floecat.iceberg.schemas.types import PrimitiveType, StructType, Type

__all__ = ["check_default", "same_default"]

_ALWAYS_NULL = frozenset({"unknown", "variant", "geometry", "geography"})
_CLOCK = re.compile(r"([0-9]{2}:[0-9]{2}(?::[0-9]{2})?)(?:\.([0-9]{1,9}))?")
_DAY = re.compile(r"([0-9]{4}|[+-][0-9]{4,9})(-[0-9]{2}-[0-9]{2})")
_TIMESTAMP = re.compile(r"([+-]?[0-9]{4,9}-[0-9]{2}-[0-9]{2})T([0-9:.]*)(.*)")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]{1,60}(?:\.[0-9]{0,60})?|\.[0-9]{1,60})(?:[Ee][+-]?[0-9]{1,9})?")
_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_UTC_OFFSETS = frozenset({"+00:00", "-00:00", "Z"})

_EPOCH = datetime(1970, 1, 1)
_MAX_MICROS_YEAR = 292_000
"""Microseconds of every year up to this, before and after the epoch, fit into 64 bits."""


def check_default(value: object, type: Type, column: str) -> object:
    """Checks a non-null default against the type of its field.

    Args:
        value: the decoded JSON value.
        type: type of the field.
        column: name of the field, for messages.

    Returns:
        The value to store; an integer for a floating-point column becomes a float, as readers require.

    Raises:
        IllegalArgumentError: the type allows no default but null, or the value does not fit. The message does
            not quote it.
    """
    if isinstance(type, StructType) and value == {}:
        return value  # not null; its fields have defaults of their own
    if not isinstance(type, PrimitiveType) or type.name in _ALWAYS_NULL:
        raise IllegalArgumentError(f"Invalid default value for {column}: {type} (must be null)")
    if type.name in ("float", "double") and isinstance(value, int) and _is_integer(value):
        try:
            return float(value)
        except OverflowError:
            raise IllegalArgumentError(f"Cannot parse default of {column} as a {type} value") from None
    if not _CHECKS[type.name](value, type):
        raise IllegalArgumentError(f"Cannot parse default of {column} as a {type} value")
    return value


def same_default(old: object, new: object, type: Type) -> bool:
    """Whether two defaults are the same value of a type, whatever their spelling. Zeros differ by sign.

    Args:
        old: a default of the type, or of one that may be promoted to it.
        new: a default of the type.
    """
    return _plain(old, type) == _plain(new, type)


def _plain(value: object, type: Type) -> object:
    """A default in one spelling."""
    if isinstance(value, int | float) and str(type) in ("float", "double"):
        return str(float(value))
    if not isinstance(value, str) or not isinstance(type, PrimitiveType):
        return value
    if type.name == "decimal":
        return Decimal(value)
    if type.name in ("uuid", "fixed", "binary"):
        return value.lower()
    if not type.name.startswith("time"):
        return value
    # the zone is always UTC
    day, _, clock = value.rpartition("T") if "T" in value or type.name == "time" else (value, "", "00:00")
    found = _CLOCK.match(clock)
    if found is None:
        return value
    return day, f"{found[1]}:00"[: len("00:00:00")], (found[2] or "").rstrip("0")


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_int(value: object, _type: PrimitiveType) -> bool:
    return isinstance(value, int) and _is_integer(value) and -(2**31) <= value < 2**31


def _is_long(value: object, _type: PrimitiveType) -> bool:
    return isinstance(value, int) and _is_integer(value) and -(2**63) <= value < 2**63


def _is_decimal(value: object, type: PrimitiveType) -> bool:
    if not isinstance(value, str) or _DECIMAL.fullmatch(value) is None:
        return False
    _, digits, exponent = Decimal(value).as_tuple()
    precision, scale = type.parameters
    return exponent == -int(scale) and len(digits) <= int(precision)


def _is_uuid(value: object, _type: PrimitiveType) -> bool:
    return isinstance(value, str) and _UUID.fullmatch(value) is not None


def _is_date(value: object, _type: PrimitiveType) -> bool:
    return isinstance(value, str) and _year_of(value) is not None


def _year_of(day: str) -> int | None:
    match = _DAY.fullmatch(day)
    if match is None:
        return None
    year = int(match[1])
    try:
        # Iceberg allows years beyond four digits, `datetime` does not; leap years repeat every 400 years.
        date.fromisoformat(f"{2000 + year % 400}{match[2]}")
    except ValueError:
        return None
    return year


def _is_clock(value: object, _type: PrimitiveType) -> bool:
    match = _CLOCK.fullmatch(value) if isinstance(value, str) else None
    if match is None or (match[2] and len(match[1]) < len("00:00:00")):
        return False
    try:
        time.fromisoformat(match[1])
    except ValueError:
        return False
    return True


def _is_timestamp(value: object, type: PrimitiveType) -> bool:
    match = _TIMESTAMP.fullmatch(value) if isinstance(value, str) else None
    if match is None or not _is_clock(match[2], type):
        return False
    offset = match[3]
    if not (offset in _UTC_OFFSETS if type.name.startswith("timestamptz") else offset == ""):
        return False
    year = _year_of(match[1])
    if year is None:
        return False
    if not type.name.endswith("_ns"):
        return abs(year) <= _MAX_MICROS_YEAR
    return 1600 < year < 2300 and _fits_nanos(match[1].lstrip("+"), match[2])


def _fits_nanos(day: str, clock: str) -> bool:
    seconds, _, fraction = clock.partition(".")
    since_epoch = datetime.fromisoformat(f"{day}T{seconds}") - _EPOCH
    nanos = (since_epoch.days * 86_400 + since_epoch.seconds) * 10**9 + int(fraction.ljust(9, "0"))
    return -(2**63) <= nanos < 2**63


def _is_hex(value: object, type: PrimitiveType) -> bool:
    if not isinstance(value, str) or re.fullmatch(r"(?:[0-9A-Fa-f]{2})*", value) is None:
        return False
    return type.name == "binary" or len(value) == 2 * int(type.parameters[0])


_CHECKS: dict[str, Callable[[object, PrimitiveType], bool]] = {
    "boolean": lambda value, _type: isinstance(value, bool),
    "int": _is_int,
    "long": _is_long,
    "float": lambda value, _type: isinstance(value, float),
    "double": lambda value, _type: isinstance(value, float),
    "decimal": _is_decimal,
    "string": lambda value, _type: isinstance(value, str),
    "uuid": _is_uuid,
    "date": _is_date,
    "time": _is_clock,
    "timestamp": _is_timestamp,
    "timestamptz": _is_timestamp,
    "timestamp_ns": _is_timestamp,
    "timestamptz_ns": _is_timestamp,
    "fixed": _is_hex,
    "binary": _is_hex,
}
