"""Default values of fields: JSON single values (table specification, "Default values" and Appendix D)."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from datetime import date, time
from decimal import Decimal, InvalidOperation

from floecat.errors import IllegalArgumentError
from floecat.iceberg.types import PrimitiveType, Type

__all__ = ["check_default"]

_ALWAYS_NULL = frozenset({"unknown", "variant", "geometry", "geography"})
_CLOCK = re.compile(r"(\d{2}:\d{2}(?::\d{2})?)(?:\.(\d{1,9}))?")
_TIMESTAMP = re.compile(r"([+-]?\d{4,9}-\d{2}-\d{2})T(\d{2}:\d{2}(?::\d{2})?(?:\.\d{1,9})?)(.*)")
_UTC_OFFSETS = frozenset({"+00:00", "-00:00", "Z"})


def check_default(value: object, type: Type, column: str) -> object:
    """Checks a non-null default against the type of its field.

    Args:
        value: the decoded JSON value.
        type: type of the field.
        column: name of the field, for messages.

    Returns:
        The value to store; a whole number for a floating-point column becomes a float, as readers want it.

    Raises:
        IllegalArgumentError: the type admits no default but null, or the value does not fit. The message does
            not quote it.
    """
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


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_int(value: object, _type: PrimitiveType) -> bool:
    return isinstance(value, int) and _is_integer(value) and -(2**31) <= value < 2**31


def _is_long(value: object, _type: PrimitiveType) -> bool:
    return isinstance(value, int) and _is_integer(value) and -(2**63) <= value < 2**63


def _is_decimal(value: object, type: PrimitiveType) -> bool:
    if not isinstance(value, str):
        return False
    try:
        number = Decimal(value)
    except InvalidOperation:
        return False
    if not number.is_finite():
        return False
    _, digits, exponent = number.as_tuple()
    precision, scale = type.parameters
    return exponent == -int(scale) and len(digits) <= int(precision)


def _is_uuid(value: object, _type: PrimitiveType) -> bool:
    if not isinstance(value, str) or len(value) != 36:
        return False
    try:
        uuid.UUID(value)
    except ValueError:
        return False
    return True


def _is_date(value: object, _type: PrimitiveType) -> bool:
    return isinstance(value, str) and _is_day(value)


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        # Years beyond four digits are legal in Iceberg and unknown to `datetime`.
        return re.fullmatch(r"[+-]\d{5,9}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])", text) is not None
    return len(text) == 10


def _is_clock(value: object, _type: PrimitiveType) -> bool:
    match = _CLOCK.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return False
    try:
        time.fromisoformat(match[1])
    except ValueError:
        return False
    return True


def _is_timestamp(value: object, type: PrimitiveType) -> bool:
    match = _TIMESTAMP.fullmatch(value) if isinstance(value, str) else None
    if match is None or not _is_day(match[1]) or not _is_clock(match[2], type):
        return False
    offset = match[3]
    return offset in _UTC_OFFSETS if type.name.startswith("timestamptz") else offset == ""


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
