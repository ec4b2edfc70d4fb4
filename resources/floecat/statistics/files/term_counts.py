"""Counts a column and the expressions of it, in one pass over its values."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from floecat.iceberg.schemas.types import PrimitiveType
from floecat.planning.filters.transforms import result_type
from floecat.statistics.files.column_counts import ColumnCounts
from floecat.statistics.files.summaries import ColumnSummary, CountedTerm
from floecat.statistics.files.transforms import transform_values, transformed_value

__all__ = ["TermCounts"]


class TermCounts:
    """Numbers of a column and of expressions, in memory that does not grow with the values."""

    def __init__(self, field_id: int, type: PrimitiveType, expressions: Sequence[CountedTerm] = ()) -> None:
        """Begins with no values; expressions of other columns are passed over."""
        self._type = type
        self._column = ColumnCounts(CountedTerm(field_id), type)
        self._expressions = {
            term: ColumnCounts(term, result_type(term.transform, type) or type)
            for term in expressions
            if term.field_id == field_id
        }

    def add(self, values: pa.Array) -> None:
        """Adds values of the column as `leaf_values` gives them."""
        self._column.add(values)
        for term, counts in self._expressions.items():
            counts.add(transform_values(values, term.transform, self._type))

    def add_constant(self, value: bytes | None, count: int) -> None:
        """Adds the same value of the column several times; as of `ColumnCounts`."""
        self._column.add_constant(value, count)
        for term, counts in self._expressions.items():
            counts.add_constant(transformed_value(value, term.transform, self._type), count)

    def summaries(self) -> list[ColumnSummary]:
        """The summaries of all terms, of the column first."""
        return [counts.summary() for counts in (self._column, *self._expressions.values())]
