"""Counts the values of a column or an expression, array by array."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from floecat.iceberg.parquet.column_statistics import successor
from floecat.iceberg.schemas.single_values import encode
from floecat.iceberg.schemas.types import PrimitiveType
from floecat.iceberg.values.floats import comparable_bits, extremes, with_one_nan
from floecat.statistics.files.hashing import hash_values
from floecat.statistics.files.leaf_values import has_single_values, one_value, value_bytes
from floecat.statistics.files.summaries import ColumnSummary, CountedTerm
from floecat.statistics.files.theta import SketchBuilder

__all__ = ["ColumnCounts"]

_MOST_CHARACTERS: Final = 64
_MOST_BYTES: Final = 4 * (_MOST_CHARACTERS + 1)
"""Bytes of so many characters, with one more to see that there are more."""
_LONG: Final = 1 << 10
"""Mean length from which on no repeated values are looked for before they are hashed, which copies them."""
_HELD_EXTREMES: Final = 64
_FIRST_VALUES: Final = 1 << 14
_BYTES: Final = frozenset({"binary", "fixed"})


class ColumnCounts:
    """Numbers of one term, in memory that does not grow with its values.

    Attributes:
        value_count: values so far, nulls and NaNs included.
    """

    def __init__(self, term: CountedTerm, type: PrimitiveType) -> None:
        """Begins with no values; `type` is that of the term."""
        self._term = term
        self._type = type
        self._has_values = has_single_values(type)
        self._is_float = type.name in ("float", "double")
        self.value_count = self._null_count = self._nan_count = self._size_bytes = 0
        self._extremes: list[pa.Array] = []
        self._sketch = SketchBuilder()

    def add(self, values: pa.Array) -> None:
        """Adds values as `leaf_values` gives them."""
        self.value_count += len(values)
        self._size_bytes += value_bytes(values, self._type)
        if pa.types.is_dictionary(values.type):
            self._null_count += values.indices.null_count + _null_uses(values)
            values = values.dictionary.take(pc.unique(values.indices))
        else:
            self._null_count += values.null_count
        if not self._has_values:
            return
        values = values.drop_null() if values.null_count else values
        self._add_extremes(values)
        if self._is_float:
            self._nan_count += pc.sum(pc.is_nan(values)).as_py() or 0
            # Zeros of both signs are two values, NaNs of any bits are one, as in Java.
            values = comparable_bits(values)
        self._add_distinct(values)

    def add_constant(self, value: bytes | None, count: int) -> None:
        """Adds the same value several times.

        Args:
            value: a single value, None for null.
            count: how many times.
        """
        self.value_count += count
        if value is None:
            self._null_count += count
        elif count and self._has_values:
            array = one_value(value, self._type)
            self._size_bytes += count * value_bytes(array, self._type)
            if self._is_float and pc.is_nan(array)[0].as_py():
                self._nan_count += count
                array = with_one_nan(array)
            self._add_extremes(array)
            self._sketch.add(hash_values(array, self._type))

    def _add_distinct(self, values: pa.Array) -> None:
        """Adds values without nulls to the sketch.

        While there are few distinct ones, they are found first, which costs less than to hash all. As soon as
        the sketch is full, it passes over nearly all hashes, repeated ones too.
        """
        while self._sketch.is_exact and len(values) and not _is_long(values):
            distinct = pc.unique(values[:_FIRST_VALUES])
            self._sketch.add(hash_values(distinct, self._type))
            values = values[_FIRST_VALUES:]
        self._sketch.add(hash_values(values, self._type))

    def _add_extremes(self, values: pa.Array) -> None:
        if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
            # order and bounds rest on the first characters: a value may be most of what memory holds
            values = pc.binary_slice(values.cast(pa.binary()), 0, _MOST_BYTES)
        found = extremes(values)
        if not found.null_count:
            self._extremes.append(found)
        if len(self._extremes) > _HELD_EXTREMES:
            held, self._extremes = self._extremes, []
            self._add_extremes(pa.concat_arrays(held))

    def summary(self) -> ColumnSummary:
        """The summary of the values so far."""
        lower = upper = None
        if self._extremes:
            ends = extremes(pa.concat_arrays(self._extremes))
            singles = ends if pa.types.is_binary(ends.type) else encode(ends, self._type)
            lower, upper = self._bounds(*singles.to_pylist())
        return ColumnSummary(
            self._term.field_id,
            self.value_count,
            self._null_count,
            self._nan_count,
            lower,
            upper,
            self._size_bytes,
            self._sketch.build().to_bytes() if self._has_values else None,
            self._term.transform,
        )

    def _bounds(self, lower: bytes, upper: bytes) -> tuple[bytes, bytes | None]:
        """Shortens long bounds so that they still enclose all values."""
        if self._type.name == "string":
            low, high = lower.decode(errors="ignore"), upper.decode(errors="ignore")
            end: str | None = high
            if len(high) > _MOST_CHARACTERS:
                end = successor(high[:_MOST_CHARACTERS])
            return low[:_MOST_CHARACTERS].encode(), None if end is None else end.encode()
        if self._type.name in _BYTES and len(upper) > _MOST_CHARACTERS:
            kept = upper[:_MOST_CHARACTERS].rstrip(b"\xff")
            return lower[:_MOST_CHARACTERS], kept[:-1] + bytes([kept[-1] + 1]) if kept else None
        return lower[:_MOST_CHARACTERS], upper


def _is_long(values: pa.Array) -> bool:
    if not (pa.types.is_string(values.type) or pa.types.is_binary(values.type)):
        return False
    mean = pc.mean(pc.binary_length(values)).as_py()
    return mean is not None and mean > _LONG


def _null_uses(values: pa.DictionaryArray) -> int:
    """The number of values that are null because the dictionary has a null."""
    if not values.dictionary.null_count:
        return 0
    return int(values.cast(values.type.value_type).null_count - values.indices.null_count)
