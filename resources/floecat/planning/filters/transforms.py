"""Partition transforms seen from behind: which values of the source column a transformed value stands for.

A range of source values serves projection, residuals and manifest summaries alike, so no predicate is ever
projected. Buckets have no range; see `bucket_of`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import mmh3
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from floecat.iceberg.schemas.transforms import IDENTITY, transform_name
from floecat.iceberg.schemas.types import PrimitiveType
from floecat.planning.filters.literals import INTEGER_RANGES, Canonical
from floecat.planning.filters.vectors import BYTES_TYPES, Vector

__all__ = ["UNITS_A_DAY", "Range", "bucket_of", "has_ranges", "parameter", "result_type", "source_range"]

_DAY_US: Final = 86_400_000_000
UNITS_A_DAY: Final = {
    "date": 1,
    "timestamp": _DAY_US,
    "timestamptz": _DAY_US,
    "timestamp_ns": 1000 * _DAY_US,
    "timestamptz_ns": 1000 * _DAY_US,
}
"""Units of a day in values of a type."""

_LEAST, _MOST = -(2**63), 2**63 - 1
_MOST_DAYS: Final = 400_000_000


class Range(NamedTuple):
    """Least and greatest source value of each transformed value; both inclusive."""

    lower: Vector
    upper: Vector


def parameter(transform: str) -> int:
    """The width of a truncate or bucket transform."""
    return int(transform.partition("[")[2].rstrip("]"))


def result_type(transform: str, source: PrimitiveType | None) -> PrimitiveType | None:
    """The type of transformed values; None if it is that of the file: unknown transform or dropped source."""
    name = transform_name(transform)
    if name in ("bucket", "year", "month", "hour"):
        return PrimitiveType("int")
    if name == "day":
        return PrimitiveType("date")
    return source if name in (IDENTITY, "truncate") else None


def has_ranges(transform: str, source: PrimitiveType) -> bool:
    """Whether values of a transform stand for ranges of the source column."""
    name = transform_name(transform)
    if name == "truncate":
        return source.name in ("int", "long", "decimal", "string", "binary")
    if name in ("year", "month", "day", "hour"):
        return source.name in UNITS_A_DAY
    return name == IDENTITY


def source_range(
    transform: str, source: PrimitiveType, lower: Vector, upper: Vector, *, longest: int = 0
) -> Range:
    """Source values that transformed values stand for.

    Args:
        transform: normalized; one that `has_ranges`.
        source: type of the source column.
        lower: transformed values, or the least of several.
        upper: the same values, or the greatest.
        longest: bytes of the longest literal that the range is compared with. Above a truncated string comes
            a run of bytes that no shorter literal is above.
    """
    name = transform_name(transform)
    if name == IDENTITY:
        return Range(lower, upper)
    if name == "truncate":
        width = parameter(transform)
        if source.name in BYTES_TYPES:
            return Range(lower, _above_prefix(upper, width, longest, is_text=source.name == "string"))
        return _truncated_range(source, lower, upper, width)
    units = UNITS_A_DAY[source.name]
    # Old writers rounded towards zero, so that zero and less may also stand for one less (as in the reference
    # implementation's projections). Days of dates were always right.
    is_exact = name == "day" and source.name == "date"
    first = lower.data if is_exact else lower.data - (lower.data <= 0)
    begin = _begin_of(name, first, units)
    end = _begin_of(name, upper.data + 1, units)
    return Range(
        Vector(begin, lower.valid), Vector(np.where(end == _MOST, end, end - (end > _LEAST)), upper.valid)
    )


def _begin_of(name: str, values: npt.NDArray[np.int64], units: int) -> npt.NDArray[np.int64]:
    """The first value of a year, month, day or hour since the epoch; saturates."""
    if name == "hour":
        return _times(values, units // 24)
    days = values
    if name != "day":
        code = "Y" if name == "year" else "M"
        most = _MOST_DAYS // (365 if name == "year" else 30)
        near = np.clip(values, -most, most)
        days = near.astype(f"datetime64[{code}]").astype("datetime64[D]").astype(np.int64)
    return _times(days, units)


def _times(values: npt.NDArray[np.int64], factor: int) -> npt.NDArray[np.int64]:
    most = _MOST // factor
    product = np.clip(values, -most, most) * factor
    product = np.where(values > most, _MOST, product)
    return np.where(values < -most, _LEAST, product)


def _truncated_range(source: PrimitiveType, lower: Vector, upper: Vector, width: int) -> Range:
    if object in (upper.data.dtype, lower.data.dtype):
        return Range(lower, Vector(upper.data + (width - 1), upper.valid))
    _, most = INTEGER_RANGES.get(source.name, (_LEAST, _MOST))
    with np.errstate(over="ignore"):
        ends = np.where(upper.data > most - width, most, upper.data + np.int64(width - 1))
    begins = lower.data
    # a long column may have been one of int when files were written
    for name in ("int", "long") if source.name == "long" else (source.name,):
        least, most = INTEGER_RANGES.get(name, (_LEAST, _MOST))
        if least % width:
            # Writers in Java let the least values overflow, all of them to this one.
            wrapped = least // width * width + (most - least + 1)
            overflows = (lower.data <= wrapped) & (upper.data >= wrapped)
            begins = np.where(overflows, np.minimum(begins, least), begins)
            ends = np.where(overflows, np.maximum(ends, most), ends)
    return Range(Vector(begins, lower.valid), Vector(ends, upper.valid))


def _above_prefix(vector: Vector, width: int, longest: int, *, is_text: bool) -> Vector:
    values = vector.data
    try:
        lengths = pc.utf8_length(values.cast(pa.string())) if is_text else pc.binary_length(values)
    except pa.ArrowInvalid:
        # one was cut in a character
        lengths = pa.repeat(width, len(values))
    # a shorter value was not cut, and is the only one
    suffix = pc.if_else(pc.less(lengths, width), pa.scalar(b"", pa.binary()), b"\xff" * (longest + 1))
    return Vector(pc.binary_join_element_wise(values, suffix, pa.scalar(b"", pa.binary())), vector.valid)


def bucket_of(value: Canonical, type: PrimitiveType, buckets: int) -> int:
    """The bucket of a value (table specification, Appendix B)."""
    return (mmh3.hash(_HASHED[type.name](value)) & 0x7FFF_FFFF) % buckets


def _hashed_long(value: Canonical) -> bytes:
    return int(value).to_bytes(8, "little", signed=True)


def _hashed_decimal(value: Canonical) -> bytes:
    number = int(value)
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)


def _hashed_nanos(value: Canonical) -> bytes:
    # timestamps hash alike whatever their unit
    return _hashed_long(int(value) // 1000)


def _hashed_bytes(value: Canonical) -> bytes:
    return value if isinstance(value, bytes) else b""


_HASHED: Final[dict[str, Callable[[Canonical], bytes]]] = {
    **dict.fromkeys(INTEGER_RANGES, _hashed_long),
    "timestamp_ns": _hashed_nanos,
    "timestamptz_ns": _hashed_nanos,
    "decimal": _hashed_decimal,
    **dict.fromkeys(BYTES_TYPES, _hashed_bytes),
}
