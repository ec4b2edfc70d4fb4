"""Metrics of a Parquet file out of its footer (Apache Parquet, "File format" and `parquet.thrift`).

The footer is the end of the file: metadata, their length in four bytes, and a magic number. Reading a file's
metrics takes two requests, for the last 8 bytes and then for as many as `footer_length` tells, or one for a
guess of that many.

Minima and maxima are taken where Parquet defines their order and the column has the type that readers will
give it. They hold all rows, also if the writer shortened them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from floecat.errors import InvalidDeltaTableError
from floecat.iceberg.file_metrics import ColumnMetrics, FileMetrics
from floecat.iceberg.joined_metrics import join_metrics
from floecat.iceberg.parquet_statistics import ColumnFooter, column_footer
from floecat.iceberg.types import PrimitiveType

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
"""Bytes at the end of the file that tell the length of the footer."""

_MAGIC, _ENCRYPTED_MAGIC = b"PAR1", b"PARE"
_FIELD_ID = b"PARQUET:field_id"


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
        """Its Iceberg type."""


@dataclass(frozen=True)
class FileFooter:
    """What a footer tells of its file.

    Attributes:
        record_count: number of rows.
        columns: by field id; columns that the file does not have are left out.
    """

    record_count: int
    columns: Mapping[int, ColumnFooter]


def footer_length(tail: bytes, location: str) -> int:
    """How many bytes at the end of a file its footer takes, `TAIL_LENGTH` included.

    Args:
        tail: the end of the file, `TAIL_LENGTH` bytes or more.
        location: where the file is, for messages.

    Raises:
        InvalidDeltaTableError: it is no end of a Parquet file, or the file is encrypted.
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
        # Nothing before the footer is read, so that a file of nothing else serves.
        metadata = pq.read_metadata(pa.BufferReader(_MAGIC + tail[-length:]))
        row_groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        if metadata.num_rows < 0 or sum(group.num_rows for group in row_groups) != metadata.num_rows:
            raise InvalidDeltaTableError(f"Cannot read {location} as a Parquet file: its row counts disagree")
        found = {}
        for column, place in _places(metadata, columns):
            chunks = [group.column(place) for group in row_groups]
            found[column.field_id] = column_footer(metadata.schema.column(place), chunks, column.type)
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        raise InvalidDeltaTableError(
            f"Cannot read {location} as a Parquet file: its footer is damaged"
        ) from None
    return FileFooter(metadata.num_rows, found)


def with_footers(metrics: FileMetrics, rows: Sequence[int], footers: Sequence[FileFooter]) -> FileMetrics:
    """Adds what footers tell to the metrics of some files.

    Args:
        metrics: the metrics. Counts of rows give way to those of the footers, all else stays if it is known.
        rows: which of the files the footers are of, ascending.
        footers: the footers, likewise.
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


def _places(metadata: Any, columns: Sequence[FooterColumn]) -> Iterator[tuple[FooterColumn, int]]:
    """The columns that the file has, and which of its leaf columns each is."""
    schema = metadata.schema.to_arrow_schema()
    leaves: list[tuple[tuple[str, ...] | None, int | None]] = []
    ids: list[int] = []
    for field in schema:
        _add_leaves(field, (), leaves, ids)
    if len(leaves) != metadata.num_columns:
        return
    by_path = {path: place for place, (path, _) in enumerate(leaves) if path is not None}
    by_id = {id: place for place, (path, id) in enumerate(leaves) if path is not None and id is not None}
    for column in columns:
        place = by_id.get(column.field_id) if ids else by_path.get(column.physical_path)
        if place is not None:
            yield column, place


def _add_leaves(
    field: Any,
    owner: tuple[str, ...] | None,
    leaves: list[tuple[tuple[str, ...] | None, int | None]],
    ids: list[int],
) -> None:
    """Adds the leaf columns of a field, in order of the file; without a path if they lie in a list or map."""
    path = None if owner is None else (*owner, field.name)
    id = (field.metadata or {}).get(_FIELD_ID)
    if id is not None:
        ids.append(int(id))
    type = field.type.storage_type if isinstance(field.type, pa.BaseExtensionType) else field.type
    if pa.types.is_struct(type):
        for part in type:
            _add_leaves(part, path, leaves, ids)
    elif pa.types.is_map(type):
        _add_leaves(type.key_field, None, leaves, ids)
        _add_leaves(type.item_field, None, leaves, ids)
    elif pa.types.is_list(type) or pa.types.is_large_list(type) or pa.types.is_fixed_size_list(type):
        _add_leaves(type.value_field, None, leaves, ids)
    else:
        leaves.append((path, None if id is None else int(id)))
