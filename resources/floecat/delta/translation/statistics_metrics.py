"""Metrics of data files out of the statistics in a Delta log.

Statistics are hints, which a reader of Delta may ignore. What cannot be read is unknown and not an error:
a text that is not JSON leaves its file without metrics, a value of another type its column without a bound.
Rows are then counted in the files, see `floecat.iceberg.parquet.footers`.

Metrics of Iceberg are about all rows that a data file holds. So are `numRecords` and, for readers that
apply the deletion vector, minima and maxima: they hold the remaining rows at least. Null counts are only
about the remaining rows if `tightBounds` is true; readers use them only to tell whether there are nulls, or
only nulls, for which both will do. If it is false, a null count other than zero or all means nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from floecat.delta.translation.statistics_bounds import (
    Bounds,
    bounds_from_tokens,
    bounds_from_values,
    bounds_of_longs,
    has_bounds,
    is_long,
)
from floecat.delta.translation.statistics_layout import Path
from floecat.delta.translation.statistics_numbers import as_longs, longs_array
from floecat.delta.translation.statistics_text import DocumentReader
from floecat.delta.translation.translated_schema import LeafColumn, TranslatedSchema
from floecat.iceberg.file_metrics import ColumnMetrics, FileMetrics, join_metrics
from floecat.iceberg.schemas.single_values import encode

__all__ = ["file_metrics"]

_Longs: TypeAlias = npt.NDArray[np.int64]
_Bools: TypeAlias = npt.NDArray[np.bool_]

_CHUNK_ROWS = 1 << 14
_CHUNK_BYTES = 1 << 30
"""Files and bytes read at a time, which bounds the memory for texts."""


def file_metrics(files: pa.Table, schema: TranslatedSchema) -> FileMetrics:
    """Metrics of some files.

    Args:
        files: columns of `floecat.delta.log.file_tables.files_schema`; statistics have physical names.
        schema: the schema of the version. Bounds have its types, whatever types the files were written with.

    Returns:
        Counts and bounds of the columns that statistics can describe: those outside lists and maps that are
        not partition columns.
    """
    leaves = [leaf for leaf in schema.leaves if not leaf.partition]
    texts = _TextStatistics(leaves)
    parts: list[tuple[_Longs, FileMetrics]] = []
    for start, chunk in _chunks(files):
        stats = chunk["stats"].combine_chunks()
        is_text = stats.is_valid().to_numpy(zero_copy_only=False)
        if is_text.any():
            parts.append((start + np.flatnonzero(is_text), texts.metrics(stats.drop_null())))
        if "stats_parsed" not in chunk.column_names or is_text.all():
            continue
        structs = chunk["stats_parsed"].combine_chunks()
        is_struct = structs.is_valid().to_numpy(zero_copy_only=False) & ~is_text
        if is_struct.any():
            rows = np.flatnonzero(is_struct)
            parts.append((start + rows, _struct_metrics(structs.take(pa.array(rows)), leaves)))
    return join_metrics(parts, len(files))


def _chunks(files: pa.Table, start: int = 0) -> Iterator[tuple[int, pa.Table]]:
    """Parts of a table with the number of their first rows: each in memory at a time, and below 2 GiB."""
    if len(files) > _CHUNK_ROWS or (len(files) > 1 and files.nbytes > _CHUNK_BYTES):
        half = _CHUNK_ROWS if len(files) > _CHUNK_ROWS else len(files) // 2
        yield from _chunks(files.slice(0, half), start)
        yield from _chunks(files.slice(half), start + half)
    elif len(files):
        yield start, files


class _TextStatistics:
    """Reads statistics that are JSON texts."""

    def __init__(self, leaves: Sequence[LeafColumn]) -> None:
        self._leaves = leaves
        longs: list[Path] = [("numRecords",)]
        tokens: list[Path] = [("tightBounds",)]
        longs += [("nullCount", *leaf.physical_path) for leaf in leaves]
        self._slots: list[tuple[int, int] | None] = []
        for leaf in leaves:
            paths = longs if is_long(leaf.type) else tokens
            self._slots.append((len(paths), len(paths) + 1) if has_bounds(leaf.type) else None)
            if has_bounds(leaf.type):
                paths += [("minValues", *leaf.physical_path), ("maxValues", *leaf.physical_path)]
        self._reader = DocumentReader(longs, tokens)

    def metrics(self, texts: pa.StringArray) -> FileMetrics:
        """Metrics of files whose statistics are not null."""
        values = self._reader.read(texts)
        longs, is_long_ = values.longs, values.is_long
        is_wide = pc.fill_null(pc.equal(values.tokens.column(0), "false"), False)
        counts = _FileCounts(longs[0], is_long_[0], is_wide.to_numpy(zero_copy_only=False))

        def columns() -> Iterator[ColumnMetrics | None]:
            for place, (leaf, slots) in enumerate(zip(self._leaves, self._slots, strict=True), start=1):
                bounds = None
                if slots is not None and is_long(leaf.type):
                    bounds = bounds_of_longs(
                        leaf.type, *(longs_array(longs[slot], is_long_[slot]) for slot in slots)
                    )
                elif slots is not None:
                    tokens = [values.tokens.column(slot) for slot in slots]
                    bounds = bounds_from_tokens(leaf.type, *tokens, was_float=leaf.was_float)
                yield counts.column(leaf, longs[place], is_long_[place], bounds)

        return FileMetrics(counts.record_counts, tuple(column for column in columns() if column is not None))


def _struct_metrics(structs: pa.StructArray, leaves: Sequence[LeafColumn]) -> FileMetrics:
    """Metrics of files whose statistics are structs."""
    is_wide = _descend(structs, ("tightBounds",))
    if is_wide is None or not pa.types.is_boolean(is_wide.type):
        is_wide = pa.nulls(len(structs), pa.bool_())
    is_wide = pc.invert(pc.fill_null(is_wide, True)).to_numpy(zero_copy_only=False)
    counts = _FileCounts(*_whole_numbers(structs, ("numRecords",)), is_wide)
    columns = []
    for leaf in leaves:
        bounds = None
        minima, maxima = (
            _descend(structs, (kind, *leaf.physical_path)) for kind in ("minValues", "maxValues")
        )
        if has_bounds(leaf.type) and minima is not None and maxima is not None:
            bounds = bounds_from_values(leaf.type, minima, maxima, was_float=leaf.was_float)
        nulls, is_counted = _whole_numbers(structs, ("nullCount", *leaf.physical_path))
        column = counts.column(leaf, nulls, is_counted, bounds)
        if column is not None:
            columns.append(column)
    return FileMetrics(counts.record_counts, tuple(columns))


def _whole_numbers(structs: pa.StructArray, path: tuple[str, ...]) -> tuple[_Longs, _Bools]:
    found = _descend(structs, path)
    if found is None or not pa.types.is_integer(found.type):
        return np.zeros(len(structs), dtype=np.int64), np.zeros(len(structs), dtype=bool)
    longs = as_longs(found)
    is_valid = longs.is_valid().to_numpy(zero_copy_only=False)
    return longs.fill_null(0).to_numpy(), is_valid


def _descend(structs: pa.Array, path: tuple[str, ...]) -> pa.Array | None:
    """The values at a path, null below a null struct; None if the type has no such path."""
    for name in path:
        place = structs.type.get_field_index(name) if pa.types.is_struct(structs.type) else -1
        if place < 0:
            return None
        structs = pc.struct_field(structs, [place])
    return structs


class _FileCounts:
    """Counts of some files, which decide which of their statistics are usable.

    Args:
        records: number of rows, shape (n,).
        is_counted: where it is known, shape (n,).
        is_wide: where `tightBounds` is false, shape (n,).
    """

    def __init__(self, records: _Longs, is_counted: _Bools, is_wide: _Bools) -> None:
        self._records = records
        self._is_counted = is_counted & (records >= 0)
        self._is_wide = is_wide
        self.record_counts = longs_array(records, self._is_counted)

    def column(
        self, leaf: LeafColumn, nulls: _Longs, is_counted: _Bools, bounds: Bounds | None
    ) -> ColumnMetrics | None:
        """Metrics of a column; None if there are none.

        Args:
            leaf: the column.
            nulls: its null counts, shape (n,).
            is_counted: where they are known, shape (n,).
        """
        is_all = self._is_counted & (nulls == self._records)
        is_kept = is_counted & (nulls >= 0) & (~self._is_counted | (nulls <= self._records))
        is_kept &= ~self._is_wide | is_all | (nulls == 0)
        is_valued = is_kept & self._is_counted
        value_counts = self.record_counts
        if not np.array_equal(is_valued, self._is_counted):
            value_counts = longs_array(self._records, is_valued)
        null_counts = longs_array(nulls, is_kept)
        lower = upper = None
        if bounds is not None:
            # Without any value there is nothing to bound; Delta defines such bounds as meaningless.
            is_empty = is_kept & is_all
            lower, upper = (_without(side, is_empty) for side in (bounds.lower, bounds.upper))
        column = ColumnMetrics(
            leaf.field_id,
            _known(value_counts) if is_kept.any() else None,
            _known(null_counts),
            None if lower is None or not _known(lower) else encode(lower, leaf.type),
            None if upper is None or not _known(upper) else encode(upper, leaf.type),
        )
        is_known = (column.null_value_counts, column.lower_bounds, column.upper_bounds) != (None, None, None)
        return column if is_known else None


def _known(values: pa.Array) -> pa.Array | None:
    return values if values.null_count < len(values) else None


def _without(values: pa.Array, is_left_out: _Bools) -> pa.Array:
    if not is_left_out.any():
        return values
    return pc.if_else(pa.array(is_left_out), pa.scalar(None, values.type), values)
