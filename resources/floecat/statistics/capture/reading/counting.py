"""Statistics of files put together: groups, snapshots, and records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack
from typing import Final, NamedTuple, Self

from floecat.fileio.base import FileIO
from floecat.fileio.locations import AllowedLocations
from floecat.iceberg.schemas.schema import Schema
from floecat.iceberg.schemas.transforms import IDENTITY
from floecat.iceberg.schemas.types import PrimitiveType
from floecat.iceberg.values.bounds import Bounds, process_bounds
from floecat.logical_types import canonical_text, logical_type
from floecat.planning.filters.transforms import result_type
from floecat.statistics.capture.reading.expressions import expression_of
from floecat.statistics.capture.reading.sidecars import FilesSummary
from floecat.statistics.capture.reading.tables import CapturedTable
from floecat.statistics.files.data_files import FileSummaries
from floecat.statistics.files.merging import merge_columns
from floecat.statistics.files.page_index import PageIndex
from floecat.statistics.files.summaries import (
    ColumnSummary,
    CountedColumns,
    CountedTerm,
    DataFile,
    FileSummary,
)
from floecat.statistics.files.theta import ThetaSketch
from floecat.statistics.records import (
    THETA_SKETCH,
    ApproximateNdv,
    ColumnTarget,
    Completeness,
    Coverage,
    FileColumnStatistics,
    FileStatistics,
    FileTarget,
    Ndv,
    Producer,
    RecordMetadata,
    ScalarStatistics,
    StatisticsRecord,
    TableStatistics,
    TableTarget,
    Target,
)

__all__ = [
    "FileReader",
    "FileSource",
    "file_record",
    "is_null_before",
    "of_files",
    "of_parts",
    "records",
    "scalar_statistics",
]

NAME_MAPPING: Final = "schema.name-mapping.default"

_WITH_NAN: Final = frozenset({"float", "double"})
_NOTHING: Final = CountedColumns({})
_PARTS_AT_ONCE: Final = 16

_CONFIDENCE: Final = 0.954
"""Confidence of two standard deviations."""


class FileSource(NamedTuple):
    """The way to read the data files of one snapshot. It can be pickled, and holds no keys."""

    schema: Schema
    columns: CountedColumns
    name_mapping: str | None
    allowed: AllowedLocations
    bounds: Bounds

    @staticmethod
    def of(table: CapturedTable, snapshot_id: int, columns: CountedColumns = _NOTHING) -> FileSource:
        """The files of a snapshot."""
        return FileSource(
            table.schema_of(snapshot_id),
            columns,
            table.metadata.properties.get(NAME_MAPPING),
            table.storage.allowed,
            process_bounds.limits,
        )


class FileReader:
    """Reads data files of one snapshot. A context; used by one thread."""

    def __init__(
        self,
        source: FileSource,
        storage_of: Callable[[str], FileIO],
        memory_bytes: int,
        *,
        only_small: bool = False,
    ) -> None:
        """Prepares to read.

        Args:
            source: how files of the table are read.
            storage_of: the storage of a location.
            memory_bytes: what may be held of a file at a time.
            only_small: see `FileSummaries`.
        """
        self._source = source
        self._only_small = only_small
        self._storage_of = storage_of
        self._memory_bytes = memory_bytes
        self._stack = ExitStack()
        self._readers: dict[int, tuple[FileIO, FileSummaries]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def summary(self, file: DataFile) -> FileSummary:
        """Reads a data file with its deletes.

        Raises:
            LocationNotAllowedError: it, or a delete file, is outside the allowed locations.
            FloecatError, NeedsProcessError: as `FileSummaries.summarize`.
        """
        return self._opened(file).summarize(file)

    def page_index(self, file: DataFile) -> PageIndex:
        """Makes the page-index sidecar of a data file.

        Raises:
            LocationNotAllowedError: it, or a delete file, is outside the allowed locations.
            FloecatError: as `FileSummaries.page_index`.
        """
        return self._opened(file).page_index(file)

    def _opened(self, file: DataFile) -> FileSummaries:
        source = self._source
        for location in (file.location, *(delete.location for delete in file.deletes)):
            source.allowed.check(location)
        files = self._storage_of(file.location)
        held = self._readers.get(id(files))
        if held is None:
            reader = FileSummaries(
                files,
                source.schema,
                list(source.columns.types),
                expressions=source.columns.expressions,
                name_mapping=source.name_mapping,
                memory_bytes=self._memory_bytes,
                only_small=self._only_small,
                bounds=source.bounds,
            )
            held = self._readers[id(files)] = (files, self._stack.enter_context(reader))
        return held[1]


def is_null_before(schema: Schema, field_id: int) -> bool:
    """Whether rows that are older than a column have exactly one null in it."""
    field = schema.fields_by_id.get(field_id)
    if field is None or field.initial_default is not None:
        return False
    parent = schema.parents.get(field_id)
    return parent is None  # inside other columns the number of values differs from that of rows


def of_files(summaries: Collection[FileSummary], size_bytes: int, schema: Schema) -> FilesSummary:
    """Data files together.

    Args:
        summaries: of the files.
        size_bytes: of all the files.
        schema: of the snapshot.
    """
    return FilesSummary(
        files=len(summaries),
        row_count=sum(summary.row_count for summary in summaries),
        size_bytes=size_bytes,
        is_exact=all(summary.is_exact for summary in summaries),
        columns=_merged([summary.columns for summary in summaries], schema),
    )


def of_parts(parts: Iterable[FilesSummary], columns: CountedColumns, schema: Schema) -> FilesSummary:
    """Parts of a snapshot together, of which few are held at a time.

    Args:
        parts: no file is in two. One without one of the columns has nulls there.
        columns: the wanted columns; others are left out.
        schema: of the snapshot.
    """
    held: list[FilesSummary] = []
    for part in parts:
        held.append(part)
        if len(held) == _PARTS_AT_ONCE:
            held = [_together(held, columns, schema)]
    return _together(held, columns, schema)


def _together(parts: Sequence[FilesSummary], columns: CountedColumns, schema: Schema) -> FilesSummary:
    filled, terms = [], columns.terms
    for part in parts:
        held = {column.term: column for column in part.columns if column.term in terms}
        for term in terms - held.keys():
            if is_null_before(schema, term.field_id):
                id, transform = term
                nulls = part.row_count
                held[term] = ColumnSummary(id, nulls, nulls, 0, None, None, 0, None, transform)
        filled.append(tuple(held.values()))
    return FilesSummary(
        files=sum(part.files for part in parts),
        row_count=sum(part.row_count for part in parts),
        size_bytes=sum(part.size_bytes for part in parts),
        is_exact=all(part.is_exact for part in parts),
        columns=_merged(filled, schema),
    )


def records(
    summary: FilesSummary, schema: Schema, now_ms: int, *, is_partial: bool
) -> list[StatisticsRecord]:
    """The records of a table, of its columns, and of expressions.

    Args:
        summary: all files of the snapshot.
        schema: of the snapshot.
        is_partial: whether data files are missing.
    """
    metadata = RecordMetadata(
        producer=Producer.ENGINE_COMPUTED,
        completeness=Completeness.PARTIAL if is_partial else Completeness.COMPLETE,
        coverage=Coverage(rows_scanned=summary.row_count, files_scanned=summary.files),
        captured_at_ms=now_ms,
        refreshed_at_ms=now_ms,
    )
    properties = {} if summary.is_exact else {"upper-bound": "true"}
    table = TableStatistics(summary.row_count, summary.files, summary.size_bytes, properties=properties)
    found = [StatisticsRecord(TableTarget(), metadata, table=table)]
    for column in summary.columns:
        scalar = scalar_statistics(column, schema, properties)
        target: Target = ColumnTarget(column.field_id)
        if column.transform != IDENTITY:
            target = expression_of(column.term, schema).target
        found.append(StatisticsRecord(target, metadata, scalar=scalar))
    return found


def file_record(file: DataFile, summary: FileSummary, schema: Schema) -> StatisticsRecord:
    """The record of a data file."""
    properties = {} if summary.is_exact else {"upper-bound": "true"}
    return StatisticsRecord(
        FileTarget(file.location),
        RecordMetadata(
            producer=Producer.ENGINE_COMPUTED,
            coverage=Coverage(rows_scanned=summary.row_count, files_scanned=1, bytes_scanned=file.size_bytes),
        ),
        file=FileStatistics(
            file_path=file.location,
            file_format=file.format,
            row_count=summary.row_count,
            size_bytes=file.size_bytes,
            columns=tuple(
                FileColumnStatistics(column.field_id, scalar_statistics(column, schema, properties))
                for column in summary.columns
                if column.field_id in schema.fields_by_id and column.transform == IDENTITY
            ),
        ),
    )


def scalar_statistics(column: ColumnSummary, schema: Schema, properties: dict[str, str]) -> ScalarStatistics:
    """The record of a column or an expression."""
    type = _type_of(column.term, schema)
    if type is None:
        raise TypeError(f"column {column.field_id} is nested")
    width = max(1, -(-column.size_bytes // column.value_count)) if column.value_count else None
    return ScalarStatistics(
        display_name=schema.names_by_id[column.field_id]
        if column.transform == IDENTITY
        else str(expression_of(column.term, schema)),
        logical_type=str(logical_type(type)),
        row_count=column.value_count,
        null_count=column.null_count,
        nan_count=column.nan_count if type.name in _WITH_NAN else None,
        ndv=None if column.sketch is None else _ndv(column),
        min=None if column.lower is None else canonical_text(column.lower, type),
        max=None if column.upper is None else canonical_text(column.upper, type),
        avg_width_bytes=width,
        properties=properties,
    )


def _ndv(column: ColumnSummary) -> Ndv:
    sketch = ThetaSketch.from_bytes(column.sketch or b"")
    # An empty value is in no sketch, and the least of all.
    empty = int(column.lower == b"")
    if sketch.is_exact:
        return Ndv(exact=len(sketch.hashes) + empty)
    lower, upper = (bound + empty for bound in sketch.bounds())
    return Ndv(
        approx=ApproximateNdv(
            estimate=sketch.estimate + empty,
            relative_standard_error=sketch.relative_standard_error,
            confidence_lower=lower,
            confidence_upper=upper,
            confidence_level=_CONFIDENCE,
            rows_seen=column.value_count,
            rows_total=column.value_count,
            method=THETA_SKETCH,
        )
    )


def _merged(parts: Sequence[Sequence[ColumnSummary]], schema: Schema) -> tuple[ColumnSummary, ...]:
    """Columns and expressions that every part has, by field id."""
    by_term: dict[CountedTerm, list[ColumnSummary]] = {}
    for part in parts:
        for column in part:
            by_term.setdefault(column.term, []).append(column)
    return tuple(
        merge_columns(found, type)
        for term, found in sorted(by_term.items())
        if len(found) == len(parts) and (type := _type_of(term, schema)) is not None
    )


def _type_of(term: CountedTerm, schema: Schema) -> PrimitiveType | None:
    """The type of the values; None if the schema has no such column, or a nested one."""
    type = schema.find_type(term.field_id)
    return result_type(term.transform, type) if isinstance(type, PrimitiveType) else None
