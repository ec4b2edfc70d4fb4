"""Types of columns as planners of all table formats know them, and the text of their values.

The model is `LogicalType` of the RPC contract: integers of every width are INT, nested types are named
without their fields. Bounds of statistics are strings in one form per type, which `canonical_text` writes.
"""

from __future__ import annotations

import base64
import struct
from decimal import Decimal
from enum import Enum
from uuid import UUID

import msgspec
import numpy as np

from floecat.iceberg.schemas.types import ListType, MapType, PrimitiveType, StructType, Type

__all__ = ["LogicalKind", "LogicalType", "canonical_text", "logical_type"]


class LogicalKind(Enum):
    """The kind of a column's values."""

    BOOLEAN = "BOOLEAN"
    INT = "INT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMPTZ = "TIMESTAMPTZ"
    STRING = "STRING"
    BINARY = "BINARY"
    UUID = "UUID"
    DECIMAL = "DECIMAL"
    INTERVAL = "INTERVAL"
    JSON = "JSON"
    ARRAY = "ARRAY"
    MAP = "MAP"
    STRUCT = "STRUCT"
    VARIANT = "VARIANT"


class LogicalType(msgspec.Struct, frozen=True):
    """A type.

    Attributes:
        kind: the kind.
        precision: of decimals, in digits.
        scale: of decimals.
        temporal_precision: digits of a second; None for microseconds.
    """

    kind: LogicalKind
    precision: int | None = None
    scale: int | None = None
    temporal_precision: int | None = None

    def __str__(self) -> str:
        if self.kind is LogicalKind.DECIMAL:
            return f"DECIMAL({self.precision},{self.scale})"
        if self.temporal_precision is not None:
            return f"{self.kind.name}({self.temporal_precision})"
        return self.kind.name


_KINDS = {
    "boolean": LogicalKind.BOOLEAN,
    "int": LogicalKind.INT,
    "long": LogicalKind.INT,
    "float": LogicalKind.FLOAT,
    "double": LogicalKind.DOUBLE,
    "date": LogicalKind.DATE,
    "time": LogicalKind.TIME,
    "timestamp": LogicalKind.TIMESTAMP,
    "timestamptz": LogicalKind.TIMESTAMPTZ,
    "timestamp_ns": LogicalKind.TIMESTAMP,
    "timestamptz_ns": LogicalKind.TIMESTAMPTZ,
    "string": LogicalKind.STRING,
    "uuid": LogicalKind.UUID,
    "fixed": LogicalKind.BINARY,
    "binary": LogicalKind.BINARY,
    "variant": LogicalKind.VARIANT,
    "geometry": LogicalKind.BINARY,
    "geography": LogicalKind.BINARY,
    # Only nulls, which every type can hold.
    "unknown": LogicalKind.STRING,
}
_NANOSECONDS = 9


def logical_type(type: Type) -> LogicalType:
    """The logical type of an Iceberg type."""
    if isinstance(type, StructType):
        return LogicalType(LogicalKind.STRUCT)
    if isinstance(type, ListType):
        return LogicalType(LogicalKind.ARRAY)
    if isinstance(type, MapType):
        return LogicalType(LogicalKind.MAP)
    if type.name == "decimal":
        precision, scale = (int(parameter) for parameter in type.parameters)
        return LogicalType(LogicalKind.DECIMAL, precision, scale)
    return LogicalType(
        _KINDS[type.name], temporal_precision=_NANOSECONDS if type.name.endswith("_ns") else None
    )


def canonical_text(value: bytes, type: PrimitiveType) -> str:
    """A value as text: ISO 8601 for dates and times, base 64 for bytes, plain digits for decimals.

    Args:
        value: an Iceberg single value (table specification, Appendix D).
        type: its type, one with a binary form.
    """
    match type.name:
        case "boolean":
            return "true" if value != b"\x00" else "false"
        case "string":
            return value.decode(errors="replace")
        case "uuid":
            return str(UUID(bytes=value))
        case "fixed" | "binary":
            return base64.b64encode(value).decode()
        case "float" | "double":
            return _float_text(value)
        case "decimal":
            return _decimal_text(int.from_bytes(value, "big", signed=True), int(type.parameters[1]))
    number = int.from_bytes(value, "little", signed=True)
    return str(number) if type.name in ("int", "long") else _temporal_text(number, type.name)


def _float_text(value: bytes) -> str:
    """The shortest text that reads back as the value; both zeros are `0`."""
    if len(value) == struct.calcsize("<f"):
        number: float | np.float32 = np.frombuffer(value, "<f4")[0]
    else:
        (number,) = struct.unpack("<d", value)
    if number == 0:
        return "0"
    text = str(number)
    return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(text, text)


def _decimal_text(unscaled: int, scale: int) -> str:
    # `scaleb` would round to the precision of the context.
    digits = tuple(map(int, str(abs(unscaled))))
    text = format(Decimal((int(unscaled < 0), digits, -scale)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _temporal_text(number: int, name: str) -> str:
    if name == "date":
        return str(np.datetime64(number, "D"))
    exact = np.datetime64(number, "ns") if name.endswith("_ns") else np.datetime64(number, "us")
    day, _, clock = str(exact).partition("T")
    clock = clock.rstrip("0").rstrip(".") if "." in clock else clock
    if name == "time":
        return clock
    return f"{day}T{clock}Z" if name.startswith("timestamptz") else f"{day}T{clock}"
