"""Expressions that the catalog counts as it counts columns: Iceberg's transforms of one."""

from __future__ import annotations

from typing import Final

import msgspec

from floecat.errors import BadRequestError, IllegalArgumentError
from floecat.iceberg.schemas.schema import Schema
from floecat.iceberg.schemas.transforms import can_transform, normalize_transform, transform_name
from floecat.iceberg.schemas.types import PrimitiveType
from floecat.statistics.files.summaries import CountedTerm
from floecat.statistics.records import ExpressionTarget

__all__ = ["ENGINE_KIND", "MOST_EXPRESSIONS", "Expression", "expression_of"]

ENGINE_KIND: Final = "iceberg"
"""Engine of the targets: the expressions are Iceberg's."""

MOST_EXPRESSIONS: Final = 100
"""Most expressions of a table."""

_TRANSFORMS: Final = frozenset({"bucket", "truncate", "year", "month", "day", "hour"})


class Expression(msgspec.Struct, frozen=True, tag="transform", tag_field="type", forbid_unknown_fields=True):
    """A transform of a column, as terms of Iceberg's expressions in JSON."""

    transform: str
    """`bucket[16]`, `truncate[4]`, `year`, `month`, `day` or `hour`."""
    term: str
    """Full name of the column."""

    def __str__(self) -> str:
        name, _, width = self.transform.partition("[")
        return f"{name}({width.rstrip(']')}, {self.term})" if width else f"{name}({self.term})"

    @property
    def target(self) -> ExpressionTarget:
        """The target of its statistics: the key is this JSON."""
        return ExpressionTarget(ENGINE_KIND, msgspec.json.encode(self))

    def normalized(self) -> Expression:
        """The transform in lower case.

        Raises:
            BadRequestError: there is no such transform, or no column is named.
        """
        try:
            transform = normalize_transform(self.transform.strip())
        except IllegalArgumentError as error:
            raise BadRequestError(f"Invalid expressions: {error.message}") from None
        if transform_name(transform) not in _TRANSFORMS:
            raise BadRequestError(
                f"Invalid expressions: unknown transform {transform[:40]}:"
                " must be bucket[N], truncate[W], year, month, day or hour"
            )
        if not self.term:
            raise BadRequestError("Invalid expressions: term must be the name of a column")
        return Expression(transform, self.term)

    def bind(self, schema: Schema) -> CountedTerm:
        """The column by its id.

        Raises:
            BadRequestError: the schema has no such column, or one of a type that the transform does not take.
        """
        # numpy comes with it
        from floecat.planning.filters.binding import Columns

        columns = Columns(schema)
        field_id = columns.find(self.term, "expressions")
        columns.check_filtered(field_id, "expressions")
        type = schema.fields_by_id[field_id].type
        if not isinstance(type, PrimitiveType) or not can_transform(self.transform, type):
            found = str(type) if isinstance(type, PrimitiveType) else "a nested type"
            raise BadRequestError(
                f"Invalid expressions: {self.transform} does not take column {self.term[:200]} of {found}"
            )
        return CountedTerm(field_id, self.transform)


def expression_of(term: CountedTerm, schema: Schema) -> Expression:
    """A bound expression, by the name that its column has in a schema."""
    return Expression(term.transform, schema.names_by_id[term.field_id])
