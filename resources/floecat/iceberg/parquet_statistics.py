"""Statistics of the column chunks of a Parquet file as metrics of Iceberg.

What Parquet stores is taken as it is stored: the values of a column are what readers make of the same bits.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from floecat.iceberg.single_values import encode_one
from floecat.iceberg.string_bounds import successor
from floecat.iceberg.types import PrimitiveType

__all__ = ["ColumnFooter", "column_footer"]

_MOST_CHARACTERS = 64
"""Longer strings make manifests large and prune no better."""

_Value: TypeAlias = Any
"""bool, int, float or bytes, all values of one column of one type; None is unknown."""

_Read: TypeAlias = Callable[[_Value, bool], _Value]
"""Makes a value of the column's type out of a stored one; the upper side of what it can mean, or the
lower."""

_DECIMAL_STORES = frozenset({"INT32", "INT64", "FIXED_LEN_BYTE_ARRAY", "BYTE_ARRAY"})


@dataclass(frozen=True)
class ColumnFooter:
    """What a footer tells of a column; None is unknown. Bounds are single values."""

    value_count: int
    null_count: int | None = None
    lower: bytes | None = None
    upper: bytes | None = None


def column_footer(column: Any, chunks: Sequence[Any], type: PrimitiveType) -> ColumnFooter:
    """Metrics of a column.

    Args:
        column: its `pyarrow.parquet.ColumnSchema`; it lies in no list and in no map.
        chunks: the `ColumnChunkMetaData` of all row groups.
        type: its Iceberg type. Bounds are left out if the file has another type.
    """
    value_count = sum(chunk.num_values for chunk in chunks)
    statistics = [chunk.statistics for chunk in chunks]
    null_count = None
    if all(known is not None and known.has_null_count for known in statistics):
        null_count = sum(known.null_count for known in statistics)
        if not 0 <= null_count <= value_count:
            null_count = None
    unbounded = ColumnFooter(value_count, null_count)
    read = _reader(column, type)
    if read is None or null_count == value_count:
        return unbounded
    minima: list[_Value] = []
    maxima: list[_Value] = []
    for chunk, known in zip(chunks, statistics, strict=True):
        if known is not None and known.has_null_count and known.null_count == chunk.num_values:
            continue
        if known is None or not known.has_min_max:
            return unbounded
        minima.append(read(known.min_raw, False))
        maxima.append(read(known.max_raw, True))
    if not minima or None in minima or None in maxima:
        return unbounded
    return ColumnFooter(
        value_count, null_count, _bound(min(minima), type, False), _bound(max(maxima), type, True)
    )


def _bound(value: _Value, type: PrimitiveType, upper: bool) -> bytes | None:
    if isinstance(value, float) and value == 0:
        # A stored zero stands for both, and -0.0 is below 0.0.
        value = 0.0 if upper else -0.0
    if isinstance(value, bytes):
        text = value.decode()
        if len(text) <= _MOST_CHARACTERS:
            return value
        prefix = text[:_MOST_CHARACTERS]
        end = successor(prefix) if upper else prefix
        return None if end is None else end.encode()
    return encode_one(value, type)


def _reader(column: Any, type: PrimitiveType) -> _Read | None:
    """How to read values that the file has for a column of the type; None if it has those of another one."""
    store = column.physical_type
    logical = json.loads(column.logical_type.to_json())
    plain = logical["Type"] == "None"
    if type.name in ("int", "long"):
        signed = plain or (logical["Type"] == "Int" and logical["isSigned"])
        return _read_plain if signed and store in ("INT32", "INT64")[: 1 + (type.name == "long")] else None
    if type.name in ("float", "double"):
        return _read_float if plain and store in ("FLOAT", "DOUBLE")[: 1 + (type.name == "double")] else None
    if type.name == "boolean":
        return _read_plain if plain and store == "BOOLEAN" else None
    if type.name == "date":
        return _read_plain if logical["Type"] == "Date" and store == "INT32" else None
    if type.name == "string":
        return _read_text if logical["Type"] == "String" and store == "BYTE_ARRAY" else None
    if type.name in ("timestamp", "timestamptz"):
        return _timestamp_reader(logical, store, type.name == "timestamptz")
    if type.name == "decimal" and logical["Type"] == "Decimal" and store in _DECIMAL_STORES:
        return _decimal_reader(logical["scale"], type)
    return None


def _read_plain(value: _Value, _upper: bool) -> _Value:
    return value


def _read_float(value: _Value, _upper: bool) -> _Value:
    return None if math.isnan(value) else float(value)


def _read_text(value: _Value, _upper: bool) -> _Value:
    try:
        value.decode()
    except UnicodeDecodeError:
        return None
    return value


def _timestamp_reader(logical: Mapping[str, Any], store: str, zoned: bool) -> _Read | None:
    if logical["Type"] != "Timestamp" or store != "INT64" or logical["isAdjustedToUTC"] != zoned:
        return None
    unit = logical["timeUnit"]
    if unit == "microseconds":
        return _read_plain
    if unit == "nanoseconds":
        return lambda value, upper: -(-value // 1000) if upper else value // 1000
    if unit == "milliseconds":
        return lambda value, _upper: value * 1000 if -(2**63) <= value * 1000 < 2**63 else None
    return None


def _decimal_reader(scale: int, type: PrimitiveType) -> _Read | None:
    precision, wanted = (int(parameter) for parameter in type.parameters)
    if scale > wanted:
        return None
    factor, limit = 10 ** (wanted - scale), 10**precision

    def read(value: _Value, _upper: bool) -> _Value:
        unscaled = int.from_bytes(value, "big", signed=True) if isinstance(value, bytes) else value
        unscaled *= factor
        return unscaled if -limit < unscaled < limit else None

    return read
