"""Statistics of the column chunks of a Parquet file as metrics of Iceberg (`parquet.thrift`, "Statistics").

Minima and maxima are used where they are known to have the order of the type: the newer fields if the file
says so, the older ones for numbers, whose order was never in doubt. They enclose all values, even if the
writer shortened them.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floecat.iceberg.parquet.parquet_schema import ParquetColumn
from floecat.iceberg.schemas.single_values import encode_one
from floecat.iceberg.schemas.types import PrimitiveType

__all__ = ["STATISTICS_FIELDS", "ColumnFooter", "column_footer", "successor", "successors"]

_MAX, _MIN, _NULL_COUNT, _MAX_VALUE, _MIN_VALUE = 1, 2, 3, 5, 6
STATISTICS_FIELDS: Mapping[int, None] = dict.fromkeys((_MAX, _MIN, _NULL_COUNT, _MAX_VALUE, _MIN_VALUE))
"""Fields of `Statistics` that are used."""

_MOST_CHARACTERS = 64
"""Longer strings make manifests large and prune no better."""

_Value: TypeAlias = Any
"""bool, int, float or bytes, all values of one column of one type; None is unknown."""

_Read: TypeAlias = Callable[[_Value, bool], _Value]
"""Makes a value of the column's type out of a stored one; the upper side of what it can mean, or the
lower."""

_NUMBERS = {"BOOLEAN": "<?", "INT32": "<i", "INT64": "<q", "FLOAT": "<f", "DOUBLE": "<d"}
"""Stores whose values are numbers, with their form."""

_DECIMAL_STORES = frozenset({"INT32", "INT64", "FIXED_LEN_BYTE_ARRAY", "BYTE_ARRAY"})


@dataclass(frozen=True)
class ColumnFooter:
    """The statistics of a column in a footer; None is unknown. Bounds are single values."""

    value_count: int
    null_count: int | None = None
    lower: bytes | None = None
    upper: bytes | None = None


def column_footer(
    column: ParquetColumn,
    type: PrimitiveType,
    value_counts: Sequence[int],
    statistics: Sequence[Mapping[int, Any]],
    *,
    ordered: bool,
) -> ColumnFooter:
    """Metrics of a column.

    Args:
        column: the column in the file, outside lists and maps.
        type: its Iceberg type. Bounds are left out if the file has another type.
        value_counts: of each row group the number of values, nulls included.
        statistics: of each row group the `Statistics`, `STATISTICS_FIELDS` of them; empty if there are none.
        ordered: whether the newer minima and maxima have the order of the type.
    """
    # Writers have no statistics of empty row groups.
    chunks = [chunk for chunk in zip(value_counts, statistics, strict=True) if chunk[0]]
    value_count = sum(count for count, _ in chunks)
    null_count = _total([known.get(_NULL_COUNT) for _, known in chunks], value_count)
    unbounded = ColumnFooter(value_count, null_count)
    read = _reader(column, type)
    if read is None or null_count == value_count:
        return unbounded
    minima: list[_Value] = []
    maxima: list[_Value] = []
    for count, known in chunks:
        if known.get(_NULL_COUNT) != count:
            minima.append(_read(known, column, read, ordered, upper=False))
            maxima.append(_read(known, column, read, ordered, upper=True))
    lower, upper = (
        None if not values or None in values else _bound(choose(values), type, upper=choose is max)
        for values, choose in ((minima, min), (maxima, max))
    )
    return ColumnFooter(value_count, null_count, lower, upper)


def _total(counts: Sequence[Any], limit: int) -> int | None:
    known = [count for count in counts if isinstance(count, int)]
    return sum(known) if len(known) == len(counts) and 0 <= sum(known) <= limit else None


def _read(
    known: Mapping[int, Any], column: ParquetColumn, read: _Read, ordered: bool, *, upper: bool
) -> _Value:
    stored = known.get(_MAX_VALUE if upper else _MIN_VALUE) if ordered else None
    if stored is None and column.store in _NUMBERS:
        stored = known.get(_MAX if upper else _MIN)
    if not isinstance(stored, bytes):
        return None
    form = _NUMBERS.get(column.store)
    if form is None:
        return read(stored, upper)
    return read(struct.unpack(form, stored)[0], upper) if len(stored) == struct.calcsize(form) else None


def _bound(value: _Value, type: PrimitiveType, *, upper: bool) -> bytes | None:
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


def _reader(column: ParquetColumn, type: PrimitiveType) -> _Read | None:
    """The reader of a file's values for a column of the type; None if they are of another type."""
    store, logical = column.store, column.logical
    wide = type.name in ("long", "double")
    if type.name in ("int", "long"):
        stores = ("INT32", "INT64") if wide else ("INT32",)
        return _read_plain if logical in ("", "signed") and store in stores else None
    if type.name in ("float", "double"):
        stores = ("FLOAT", "DOUBLE") if wide else ("FLOAT",)
        return _read_float if not logical and store in stores else None
    if type.name == "boolean":
        return _read_plain if not logical and store == "BOOLEAN" else None
    if type.name == "date":
        return _read_plain if logical == "date" and store == "INT32" else None
    if type.name == "string":
        return _read_text if logical == "string" and store == "BYTE_ARRAY" else None
    if type.name == logical and store == "INT64" and logical.startswith("timestamp"):
        return _TIMESTAMPS.get(column.unit)
    if type.name == "decimal" and logical == "decimal" and store in _DECIMAL_STORES:
        return _decimal_reader(column.scale, type)
    return None


def _read_plain(value: _Value, _upper: bool) -> _Value:
    return value


def _read_float(value: _Value, _upper: bool) -> _Value:
    return None if math.isnan(value) else value


def _read_text(value: _Value, _upper: bool) -> _Value:
    try:
        value.decode()
    except UnicodeDecodeError:
        return None
    return value


def _read_millis(value: _Value, _upper: bool) -> _Value:
    return value * 1000 if -(2**63) <= value * 1000 < 2**63 else None


def _read_nanos(value: _Value, upper: bool) -> _Value:
    return -(-value // 1000) if upper else value // 1000


_TIMESTAMPS: Mapping[str, _Read] = {"ms": _read_millis, "us": _read_plain, "ns": _read_nanos}


def _decimal_reader(scale: int, type: PrimitiveType) -> _Read | None:
    precision, wanted = (int(parameter) for parameter in type.parameters)
    if not 0 <= scale <= wanted:
        return None
    factor, limit = 10 ** (wanted - scale), 10**precision

    def read(value: _Value, _upper: bool) -> _Value:
        unscaled = int.from_bytes(value, "big", signed=True) if isinstance(value, bytes) else value
        unscaled *= factor
        return unscaled if -limit < unscaled < limit else None

    return read


_LAST_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
_DELETE = 0x7F


def successor(prefix: str) -> str | None:
    """The least short string above every string with this prefix: its last character is the next one.

    Iceberg orders strings by the bytes of their UTF-8 form, unsigned, which is the order of code points.
    Where there is no next character, the one before is raised, and so on.

    Returns:
        None if there is none: the prefix is empty, or of nothing but U+10FFFF.
    """
    kept = prefix.rstrip(chr(_LAST_CODE_POINT))
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    # Surrogates are no characters: UTF-8 has no form for them.
    return kept[:-1] + chr(_SURROGATES.stop if following in _SURROGATES else following)


def successors(prefixes: pa.StringArray) -> pa.StringArray:
    """The successor of each prefix; null where there is none, and for null."""
    offsets = np.frombuffer(prefixes.buffers()[1] or bytes(4), dtype=np.int32)
    offsets = offsets[prefixes.offset : prefixes.offset + len(prefixes) + 1]
    data = np.frombuffer(prefixes.buffers()[2] or b"", dtype=np.uint8).copy()
    is_filled = prefixes.is_valid().to_numpy(zero_copy_only=False) & (np.diff(offsets) > 0)
    last = offsets[1:][is_filled] - 1
    # Nearly all end in ASCII, where the next character is the next byte.
    is_ascii = data[last] < _DELETE
    data[last[is_ascii]] += 1
    is_raised = np.zeros(len(prefixes), dtype=bool)
    is_raised[np.flatnonzero(is_filled)[is_ascii]] = True

    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(data)]
    raised = pa.StringArray.from_buffers(len(prefixes), buffers[1], buffers[2])
    others = np.flatnonzero(is_filled & ~is_raised)
    found = pc.if_else(pa.array(is_raised), raised, pa.scalar(None, pa.string()))
    if not len(others):
        return found
    values = [successor(prefix) for prefix in prefixes.take(pa.array(others)).to_pylist()]
    is_other = np.zeros(len(prefixes), dtype=bool)
    is_other[others] = True
    return pc.replace_with_mask(found, pa.array(is_other), pa.array(values, pa.string()))
