"""Counts a column and the expressions of it, in one pass over its values."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from floecat.iceberg.schemas.types import PrimitiveType
from floecat.planning.filters.transforms import result_type
from floecat.statistics.files.column_counts import ColumnCounts
from floecat.statistics.files.summaries import ColumnSummary, Term
from floecat.statistics.files.transforms import transform_values, transformed_value, value_bytes

__all__ = ["TermCounts"]


class TermCounts:
    """Numbers of a column and of expressions, in memory that does not grow with the values."""

    def __init__(self, field_id: int, type: PrimitiveType, expressions: Sequence[Term] = ()) -> None:
        """Begins with no values; expressions of other columns are passed over."""
        self._type = type
        self._column = ColumnCounts(Term(field_id), type)
        self._expressions = {
            term: ColumnCounts(term, result_type(term.transform, type) or type)
            for term in expressions
            if term.field_id == field_id
        }
        self._sizes = dict.fromkeys(self._expressions, 0)

    def add(self, values: pa.Array) -> None:
        """Adds values of the column as `leaf_values` gives them."""
        self._column.add(values)
        for term, counts in self._expressions.items():
            found = transform_values(values, term.transform, self._type)
            counts.add(found)
            self._sizes[term] += value_bytes(found)

    def add_constant(self, value: bytes | None, count: int) -> None:
        """Adds the same value of the column several times; as of `ColumnCounts`."""
        self._column.add_constant(value, count)
        for term, counts in self._expressions.items():
            counts.add_constant(transformed_value(value, term.transform, self._type), count)

    def summaries(self, stored: tuple[int | None, int] | None) -> list[ColumnSummary]:
        """What was counted, of the column first.

        Args:
            stored: `size_bytes` and `stored_count` of the column; None if the file has no such column.
        """
        return [
            self._column.summary(*(stored or (None, 0))),
            *(
                counts.summary(None, 0)
                if stored is None
                else counts.summary(self._sizes[term], counts.value_count)
                for term, counts in self._expressions.items()
            ),
        ]
