"""Metrics of a Parquet file out of its footer (Apache Parquet, "File format" and `parquet.thrift`).

The footer is the end of the file: metadata, their length in four bytes, and a magic number. Reading a file's
metrics takes two requests, for the last 8 bytes and then for `footer_length` bytes, or one for a guess of
that length.

The footer is not read by Arrow: a damaged one can crash the process there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floecat.errors import InvalidDeltaTableError
from floecat.iceberg.file_metrics import ColumnMetrics, FileMetrics, join_metrics
from floecat.iceberg.parquet.column_statistics import STATISTICS_FIELDS, ColumnFooter, column_footer
from floecat.iceberg.parquet.parquet_schema import SCHEMA_FIELDS, ParquetColumn, leaf_columns
from floecat.iceberg.parquet.thrift_compact import Fields, ThriftError, read_struct
from floecat.iceberg.parquet.vectorization import ENCODING_FIELDS, reads_vectorized
from floecat.iceberg.schemas.types import PrimitiveType

__all__ = [
    "TAIL_LENGTH",
    "ColumnFooter",
    "FileFooter",
    "FooterColumn",
    "footer_length",
    "footer_metrics",
    "with_footers",
]

TAIL_LENGTH: Final = 8
"""Bytes at the end of the file that hold the length of the footer."""

_MAGIC, _ENCRYPTED_MAGIC = b"PAR1", b"PARE"

_SCHEMA, _FILE_ROWS, _ROW_GROUPS, _COLUMN_ORDERS = 2, 3, 4, 7
_COLUMNS, _GROUP_ROWS = 1, 3
_METADATA = 3
_VALUES, _STATISTICS = 5, 12
_TYPE_ORDER = 1
_FIELD_ID = 9

_FILE_FIELDS: Final[Fields] = {
    _SCHEMA: SCHEMA_FIELDS,
    _FILE_ROWS: None,
    _ROW_GROUPS: {
        _COLUMNS: {_METADATA: {_VALUES: None, _STATISTICS: STATISTICS_FIELDS, **ENCODING_FIELDS}},
        _GROUP_ROWS: None,
    },
    _COLUMN_ORDERS: {_TYPE_ORDER: {}},
}


class FooterColumn(Protocol):
    """A column whose metrics are wanted: a primitive one in no list and in no map."""

    @property
    def field_id(self) -> int:
        """Id in the Iceberg schema."""

    @property
    def physical_path(self) -> tuple[str, ...]:
        """Names from the root through structs, as files without field ids have them."""

    @property
    def type(self) -> PrimitiveType:
        """The Iceberg type."""


@dataclass(frozen=True)
class FileFooter:
    """The content of a file's footer.

    Attributes:
        record_count: number of rows.
        columns: by field id; columns that the file does not have are left out.
        vectorized: whether Spark's vectorised reader reads these columns correctly.
    """

    record_count: int
    columns: Mapping[int, ColumnFooter]
    vectorized: bool = True


def footer_length(tail: bytes, location: str) -> int:
    """The bytes of the footer at the end of a file, `TAIL_LENGTH` included.

    Args:
        tail: the end of the file, `TAIL_LENGTH` bytes or more.
        location: where the file is, for messages.

    Raises:
        InvalidDeltaTableError: it is not the end of a Parquet file, or the file is encrypted.
    """
    if len(tail) < TAIL_LENGTH or tail[-4:] != _MAGIC:
        reason = "its footer is encrypted" if tail[-4:] == _ENCRYPTED_MAGIC else "it does not end like one"
        raise InvalidDeltaTableError(f"Cannot read {location} as a Parquet file: {reason}")
    return int.from_bytes(tail[-8:-4], "little") + TAIL_LENGTH


def footer_metrics(tail: bytes, columns: Sequence[FooterColumn], location: str) -> FileFooter:
    """Reads a footer.

    Args:
        tail: the end of the file, `footer_length` bytes or more, or all of it.
        columns: what is wanted. They are found by their ids if the file has field ids, else by their paths.
        location: where the file is, for messages.

    Raises:
        InvalidDeltaTableError: the footer is damaged, or longer than `tail`.
    """
    length = footer_length(tail, location)
    if length > len(tail):
        raise InvalidDeltaTableError(
            f"Cannot read {location} as a Parquet file: it is shorter than its footer"
        )
    try:
        file = read_struct(tail[len(tail) - length : -TAIL_LENGTH], _FILE_FIELDS)
        leaves = leaf_columns(file[_SCHEMA])
        row_groups = file.get(_ROW_GROUPS, [])
        record_count = _record_count(file, row_groups)
        orders = file.get(_COLUMN_ORDERS, [])
        found = {}
        vectorized = True
        for column, place in _places(file[_SCHEMA], leaves, columns):
            ordered = len(orders) == len(leaves) and _TYPE_ORDER in orders[place]
            chunks = [group[_COLUMNS][place][_METADATA] for group in row_groups]
            found[column.field_id] = _read_column(leaves[place], column.type, chunks, ordered)
            if len(column.physical_path) == 1:
                vectorized = vectorized and reads_vectorized(leaves[place], column.type.name, chunks)
    except (ThriftError, KeyError, TypeError, AttributeError, ValueError, IndexError):
        # Fields are missing, or are of other types than the format gives them.
        raise InvalidDeltaTableError(
            f"Cannot read {location} as a Parquet file: its footer is damaged"
        ) from None
    return FileFooter(record_count, found, vectorized)


def with_footers(metrics: FileMetrics, rows: Sequence[int], footers: Sequence[FileFooter]) -> FileMetrics:
    """Adds what footers say to the metrics of some files.

    Args:
        metrics: the metrics. Row counts of the footers replace these; everything else that is known stays.
        rows: which of the files the footers are of, ascending.
        footers: in the same order.
    """
    by_id: dict[int, list[ColumnFooter | None]] = {}
    for number, footer in enumerate(footers):
        for field_id, column in footer.columns.items():
            by_id.setdefault(field_id, [None] * len(footers))[number] = column
    columns = [_column_metrics(field_id, by_id[field_id]) for field_id in sorted(by_id)]
    record_counts = pa.array([footer.record_count for footer in footers], pa.int64())
    count = len(metrics.record_counts)
    added = join_metrics(
        [(np.asarray(rows, dtype=np.int64), FileMetrics(record_counts, tuple(columns)))], count
    )
    old = {column.field_id: column for column in metrics.columns}
    new = {column.field_id: column for column in added.columns}
    return FileMetrics(
        pc.coalesce(added.record_counts, metrics.record_counts),
        tuple(_merge(old.get(field_id), new.get(field_id)) for field_id in sorted(old | new)),
    )


def _column_metrics(field_id: int, footers: Sequence[ColumnFooter | None]) -> ColumnMetrics:
    known = [footer or ColumnFooter(0) for footer in footers]
    values = [None if footer is None else footer.value_count for footer in footers]
    return ColumnMetrics(
        field_id,
        pa.array(values, pa.int64()),
        pa.array([footer.null_count for footer in known], pa.int64()),
        pa.array([footer.lower for footer in known], pa.binary()),
        pa.array([footer.upper for footer in known], pa.binary()),
    )


def _merge(old: ColumnMetrics | None, new: ColumnMetrics | None) -> ColumnMetrics:
    if old is None or new is None:
        return old or new  # type: ignore[return-value]  # one of them is there

    def first(known: pa.Array | None, other: pa.Array | None) -> pa.Array | None:
        if known is None or other is None:
            return other if known is None else known
        return pc.coalesce(known, other)

    return ColumnMetrics(
        old.field_id,
        first(old.value_counts, new.value_counts),
        first(old.null_value_counts, new.null_value_counts),
        first(old.lower_bounds, new.lower_bounds),
        first(old.upper_bounds, new.upper_bounds),
    )


def _record_count(file: Mapping[int, Any], row_groups: Sequence[Mapping[int, Any]]) -> int:
    count = file[_FILE_ROWS]
    if count < 0 or sum(group[_GROUP_ROWS] for group in row_groups) != count:
        raise ValueError("the row counts disagree")
    return int(count)


def _places(
    elements: Sequence[Mapping[int, Any]], leaves: Sequence[ParquetColumn], columns: Sequence[FooterColumn]
) -> Iterator[tuple[FooterColumn, int]]:
    """The columns that the file has, and which of its leaf columns each is."""
    by_path = {leaf.path: place for place, leaf in enumerate(leaves) if leaf.path is not None}
    by_id = {leaf.field_id: place for place, leaf in enumerate(leaves) if leaf.path is not None}
    has_ids = any(_FIELD_ID in element for element in elements)
    for column in columns:
        place = by_id.get(column.field_id) if has_ids else by_path.get(column.physical_path)
        if place is not None:
            yield column, place


def _read_column(
    leaf: ParquetColumn, type: PrimitiveType, chunks: Sequence[Mapping[int, Any]], ordered: bool
) -> ColumnFooter:
    value_counts = [chunk[_VALUES] for chunk in chunks]
    if min(value_counts, default=0) < 0:
        raise ValueError("a count is negative")
    statistics = [chunk.get(_STATISTICS, {}) for chunk in chunks]
    return column_footer(leaf, type, value_counts, statistics, ordered=ordered)
