"""Counts of data files, in a form that merges: records are made of them at the end."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from floecat.iceberg.schemas.transforms import IDENTITY

__all__ = [
    "ColumnSummary",
    "CountedColumns",
    "CountedTerm",
    "DataFile",
    "DeleteFile",
    "FileSummary",
]


class CountedTerm(NamedTuple):
    """A column, or a transform of one, that is counted."""

    field_id: int
    transform: str = IDENTITY


class CountedColumns(msgspec.Struct, frozen=True):
    """The columns and transforms that are counted of data files.

    Attributes:
        types: of the columns by field id; all are primitive.
        expressions: transforms of these columns, which accept the types. The columns are in no list or map.
    """

    types: dict[int, str]
    expressions: tuple[CountedTerm, ...] = ()

    @property
    def terms(self) -> frozenset[CountedTerm]:
        """The columns and the expressions."""
        return frozenset((*map(CountedTerm, self.types), *self.expressions))


class DeleteFile(msgspec.Struct, frozen=True):
    """A delete file that applies to a data file (table specification, "Manifests").

    Attributes:
        location: where it is.
        format: `parquet`, `avro`, `orc`, or `puffin` for deletion vectors.
        record_count: of the file; of a deletion vector its deleted rows.
        size_bytes: of the file.
        equality_ids: columns of equality deletes; empty for position deletes and deletion vectors.
        content_offset: of a deletion vector in its file, in bytes.
        content_size_bytes: of a deletion vector.
    """

    location: str
    format: str
    record_count: int
    size_bytes: int
    equality_ids: tuple[int, ...] = ()
    content_offset: int | None = None
    content_size_bytes: int | None = None


class DataFile(msgspec.Struct, frozen=True):
    """A data file with the deletes that apply to it, as a scan plan has them.

    Attributes:
        location: where it is.
        format: `parquet`, `avro` or `orc`.
        record_count: of the file, deleted rows included; 0 if its manifest does not tell.
        size_bytes: of the file.
        deletes: that apply.
        constants: identity partition values by field id, as single values (table specification, Appendix D);
            None for null. They stand in for columns that the file lacks ("Column Projection").
    """

    location: str
    format: str
    record_count: int
    size_bytes: int
    deletes: tuple[DeleteFile, ...] = ()
    constants: dict[int, bytes | None] = {}


class ColumnSummary(msgspec.Struct, frozen=True):
    """A column of some files, or an expression.

    Attributes:
        field_id: of a column of a primitive type, nested ones included.
        value_count: values, nulls and NaNs included; inside lists and maps of their elements.
        null_count: nulls.
        nan_count: NaNs; 0 for types without.
        lower: a single value that no value but NaN is below; long strings are shortened. None without values,
            and for types without an order.
        upper: the same above.
        size_bytes: of the values, as `value_bytes` counts them; nulls have none.
        sketch: theta sketch of the values (`floecat.statistics.files.theta`); None for types without single
            values.
        transform: of the column; all other values are of the result type.
    """

    field_id: int
    value_count: int
    null_count: int
    nan_count: int
    lower: bytes | None
    upper: bytes | None
    size_bytes: int
    sketch: bytes | None
    transform: str = IDENTITY

    @property
    def term(self) -> CountedTerm:
        """The column, or its transform."""
        return CountedTerm(self.field_id, self.transform)


class FileSummary(msgspec.Struct, frozen=True):
    """A data file.

    Attributes:
        location: where it is.
        row_count: rows that are not deleted.
        columns: by field id, ascending, each followed by its expressions. Columns whose number of values
            cannot be told are left out.
        is_exact: whether all deletes were applied; otherwise the numbers are upper bounds.
    """

    location: str
    row_count: int
    columns: tuple[ColumnSummary, ...]
    is_exact: bool = True
