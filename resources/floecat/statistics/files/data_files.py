"""Numbers of data files with their deletes applied."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Self

import numpy as np
import pyarrow as pa

from floecat.fileio.base import FileIO
from floecat.iceberg.schemas.schema import Schema
from floecat.iceberg.values.bounds import DEFAULT_BOUNDS, Bounds
from floecat.statistics.files.deleted_rows import DeletedRows, Rows
from floecat.statistics.files.leaf_values import leaf_values
from floecat.statistics.files.page_index import PageIndex, write_page_index
from floecat.statistics.files.parquet_source import ParquetSource
from floecat.statistics.files.projection import Projection
from floecat.statistics.files.row_sources import AvroSource, OrcSource
from floecat.statistics.files.sources import (
    NameMapping,
    NeedsProcessError,
    Source,
    UnreadableFileError,
    reading,
)
from floecat.statistics.files.summaries import (
    ColumnSummary,
    CountedTerm,
    DataFile,
    DeleteFile,
    FileSummary,
)
from floecat.statistics.files.term_counts import TermCounts

__all__ = ["FileSummaries"]

_DEFAULT_MEMORY_BYTES: Final = 256 << 20
_MOST_THREADS: Final = 4
_ROW_BYTES: Final = 8
"""Bytes of memory for each row of a file with deletes."""


class FileSummaries:
    """Summarizes data files of one table. A context; used by one thread at a time.

    Files are read column by column, in threads of this object, in bounded memory.
    """

    def __init__(
        self,
        files: FileIO,
        schema: Schema,
        columns: Sequence[int],
        *,
        expressions: Sequence[CountedTerm] = (),
        name_mapping: str | None = None,
        memory_bytes: int = _DEFAULT_MEMORY_BYTES,
        threads: int | None = None,
        only_small: bool = False,
        bounds: Bounds = DEFAULT_BOUNDS,
    ) -> None:
        """Takes what is counted.

        Args:
            files: where files are read. Callers check that their locations are allowed.
            schema: of the snapshot.
            columns: field ids of columns of primitive types; others are left out.
            expressions: of these columns, as of `CountedColumns`.
            name_mapping: the property `schema.name-mapping.default` of the table.
            memory_bytes: of decoded values and deletes together.
            threads: how many columns are read at a time; by default one per core, at most 4.
            only_small: whether files that may need more memory are refused; a few bytes can decode to
                gigabytes.
            bounds: limits for a file.

        Raises:
            IllegalArgumentError: the name mapping is malformed.
        """
        self._files = files
        self._bounds = bounds
        self._projection = Projection(schema)
        self._columns = sorted(id for id in set(columns) if id in self._projection.types)
        self._expressions = tuple(expressions)
        self._names = None if name_mapping is None else NameMapping(name_mapping)
        count = threads or min(len(os.sched_getaffinity(0)), _MOST_THREADS)
        self._memory_bytes = memory_bytes
        self._column_bytes = memory_bytes // 2 // count
        self._most_decoded = memory_bytes if only_small else None
        self._threads = ThreadPoolExecutor(count, "summaries")
        self._deletes = DeletedRows(files, self._open, self._projection, memory_bytes // 2, bounds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(cancel_futures=True)

    def summarize(self, file: DataFile) -> FileSummary:
        """Reads a data file and its deletes.

        Raises:
            FileMissingError: a file is gone.
            NeedsProcessError: with `only_small`, a file may need more memory.
            UnreadableFileError: a file is damaged, exceeds a bound, or is of a format that cannot be read.
            UnavailableError: storage fails.
        """
        source = self._open(file)
        if self._most_decoded is not None and source.row_count > self._most_decoded // _ROW_BYTES:
            raise NeedsProcessError
        live, is_exact = self._deletes.live_rows(file, source)
        rows = source.row_count if live is None else int(np.count_nonzero(live))
        found = [id for id in self._columns if source.has(id)]
        groups = [[id] for id in found] if source.reads_single_columns else [found]
        work = [self._threads.submit(self._count, file, source, ids, live) for ids in groups if ids]
        columns = [summary for each in work for summary in each.result()]
        for id in self._columns:
            per_row = None if source.has(id) else self._projection.rows_without(source, id)
            if per_row is not None:
                value = self._projection.default(id, file.constants)
                counts = self._counts(id)
                counts.add_constant(value, rows * per_row)
                columns += counts.summaries()
        columns.sort(key=lambda column: column.field_id)
        return FileSummary(file.location, rows, tuple(columns), is_exact)

    def page_index(self, file: DataFile) -> PageIndex:
        """Makes the page-index sidecar of a data file, all columns; errors as of `summarize`."""
        source = self._open(file)
        if not isinstance(source, ParquetSource):
            raise UnreadableFileError(file.location, "only Parquet files have pages")
        return write_page_index(source, self._deletes.live_rows(file, source)[0])

    def _open(self, file: DataFile | DeleteFile) -> Source:
        if file.size_bytes < 0:
            raise UnreadableFileError(file.location, "its size is negative")
        match file.format.lower():
            case "parquet":
                return ParquetSource(
                    self._files,
                    file.location,
                    file.size_bytes,
                    names=self._names,
                    memory_bytes=self._column_bytes,
                    most_decoded_bytes=self._most_decoded,
                    bounds=self._bounds,
                )
            case "orc" | "avro" if self._most_decoded is not None:
                raise NeedsProcessError
            case "orc":
                return OrcSource(
                    self._files,
                    file.location,
                    file.size_bytes,
                    names=self._names,
                    memory_bytes=self._memory_bytes,
                    bounds=self._bounds,
                )
            case "avro":
                return AvroSource(
                    self._files, file.location, file.size_bytes, names=self._names, bounds=self._bounds
                )
        raise UnreadableFileError(file.location, "its format is not known")

    def _count(
        self, file: DataFile, source: Source, ids: Sequence[int], live: Rows | None
    ) -> list[ColumnSummary]:
        types = self._projection.types
        counts = {id: self._counts(id) for id in ids}
        start = 0
        for batch in source.read(ids):
            length = len(batch[ids[0]])
            chosen = None if live is None else live[start : start + length]
            start += length
            mask = None if chosen is None or chosen.all() else pa.array(chosen)
            for id, rows in batch.items():
                with reading(file.location):
                    kept = rows if mask is None else rows.filter(mask)
                    counts[id].add(leaf_values(kept, types[id], source.struct_path(id)))
        if start != source.row_count:
            raise UnreadableFileError(file.location, "its columns have other rows than its footer says")
        return [summary for id in ids for summary in counts[id].summaries()]

    def _counts(self, field_id: int) -> TermCounts:
        return TermCounts(field_id, self._projection.types[field_id], self._expressions)
