"""Records of statistics, as clients put, get and list them (`TargetStatsRecord` of the RPC contract).

A record says something of one target in one snapshot: the table, a column, an expression of an engine, or a
data file. Targets have a storage id, which is stable across snapshots and processes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final, TypeAlias

import msgspec

from floecat.errors import IllegalArgumentError

__all__ = [
    "THETA_SKETCH",
    "ApproximateNdv",
    "CaptureMode",
    "ColumnTarget",
    "Completeness",
    "Coverage",
    "ExpressionTarget",
    "FileColumnStatistics",
    "FileContentKind",
    "FileStatistics",
    "FileTarget",
    "Ndv",
    "Producer",
    "RecordMetadata",
    "ScalarStatistics",
    "Sketch",
    "SketchRole",
    "StatisticsRecord",
    "TableStatistics",
    "TableTarget",
    "Target",
    "TargetKind",
    "UpstreamStamp",
    "check_numbers",
    "content_hash",
    "target_kind",
    "target_storage_id",
]

THETA_SKETCH: Final = "apache-datasketches-theta-v1"
"""Type of sketches of distinct values (Puffin specification, "Blob types")."""

_MOST: Final = 2**63 - 1
"""Numbers and times have 64 bits in the RPC contract."""

_SEPARATOR: Final = b"\x1f"


class TargetKind(Enum):
    """The kind of a record's subject."""

    TABLE = "table"
    COLUMN = "column"
    EXPRESSION = "expression"
    FILE = "file"


class TableTarget(msgspec.Struct, frozen=True, tag="table", tag_field="kind", forbid_unknown_fields=True):
    """The table."""


class ColumnTarget(
    msgspec.Struct, frozen=True, rename="kebab", tag="column", tag_field="kind", forbid_unknown_fields=True
):
    """A column, by its field id; leaves of nested columns have ids of their own."""

    column_id: int


class ExpressionTarget(
    msgspec.Struct,
    frozen=True,
    rename="kebab",
    tag="expression",
    tag_field="kind",
    forbid_unknown_fields=True,
):
    """An expression of an engine.

    Attributes:
        engine_kind: the engine, in lower case.
        engine_expression_key: what the engine calls the expression.
        engine_version: not part of the identity, so that statistics outlive an upgrade.
        properties: free.
    """

    engine_kind: str
    engine_expression_key: bytes
    engine_version: str = ""
    properties: dict[str, str] = {}

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "engine_kind", self.engine_kind.strip().lower())


class FileTarget(
    msgspec.Struct, frozen=True, rename="kebab", tag="file", tag_field="kind", forbid_unknown_fields=True
):
    """A data file, by its location."""

    file_path: str


Target: TypeAlias = TableTarget | ColumnTarget | ExpressionTarget | FileTarget
"""Subject of a record."""

_KINDS: Final[dict[type, TargetKind]] = {
    TableTarget: TargetKind.TABLE,
    ColumnTarget: TargetKind.COLUMN,
    ExpressionTarget: TargetKind.EXPRESSION,
    FileTarget: TargetKind.FILE,
}


def target_kind(target: Target) -> TargetKind:
    """The kind of a target."""
    return _KINDS[type(target)]


def target_storage_id(target: Target) -> str:
    """The id under which records of a target are stored.

    Raises:
        IllegalArgumentError: the target names nothing: a column id below 1, or an empty path, engine or key.
    """
    if isinstance(target, TableTarget):
        return "table"
    if isinstance(target, ColumnTarget):
        if target.column_id < 1:
            raise IllegalArgumentError("Invalid target: column-id must be positive")
        return f"column-{target.column_id:019d}"
    if isinstance(target, FileTarget):
        path = target.file_path.strip()
        if not path:
            raise IllegalArgumentError("Invalid target: file-path must not be blank")
        return f"file-{_digest(b'F', path.encode())}"
    engine = target.engine_kind
    if not engine or not target.engine_expression_key:
        raise IllegalArgumentError("Invalid target: engine-kind and engine-expression-key must not be empty")
    return f"expression-{engine}-{_digest(b'E', engine.encode(), target.engine_expression_key)}"


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(_SEPARATOR.join(parts)).hexdigest()


class Producer(Enum):
    """The source of numbers."""

    SOURCE_NATIVE = "source-native"
    UPSTREAM_METADATA_DERIVED = "upstream-metadata-derived"
    ENGINE_COMPUTED = "engine-computed"


class Completeness(Enum):
    """Whether all rows of the target were looked at."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    UNAVAILABLE = "unavailable"


class CaptureMode(Enum):
    """Whether a caller waited for the numbers."""

    SYNC = "sync"
    ASYNC = "async"


class SketchRole(Enum):
    """The quantity that a sketch estimates."""

    NDV = "ndv"
    TUPLE_NDV = "tuple-ndv"
    MCV = "mcv"
    QUANTILES = "quantiles"


class Coverage(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True, forbid_unknown_fields=True):
    """The rows, files and bytes that were read; None is unknown."""

    rows_scanned: int | None = None
    files_scanned: int | None = None
    row_groups_sampled: int | None = None
    bytes_scanned: int | None = None
    properties: dict[str, str] = {}


class RecordMetadata(
    msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True, forbid_unknown_fields=True
):
    """The origin of a record.

    Attributes:
        producer: where the numbers come from.
        completeness: whether all rows were looked at.
        confidence_level: from 0 to 1; None where it does not apply.
        coverage: what was read.
        captured_at_ms: when the numbers were first made.
        refreshed_at_ms: when they were last made.
        capture_mode: whether a caller waited.
        properties: free.
    """

    producer: Producer = Producer.ENGINE_COMPUTED
    completeness: Completeness = Completeness.COMPLETE
    confidence_level: float | None = None
    coverage: Coverage = Coverage()
    captured_at_ms: int = 0
    refreshed_at_ms: int = 0
    capture_mode: CaptureMode = CaptureMode.ASYNC
    properties: dict[str, str] = {}


class Sketch(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True, forbid_unknown_fields=True):
    """A sketch.

    Attributes:
        role: what it estimates.
        sketch_type: its exact format.
        data: its bytes.
        params: of its construction.
        captured_at_ms: when it was made.
        completeness: whether it holds all rows.
    """

    role: SketchRole
    sketch_type: str
    data: bytes
    params: dict[str, str] = {}
    captured_at_ms: int = 0
    completeness: Completeness = Completeness.COMPLETE


class ApproximateNdv(
    msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True, forbid_unknown_fields=True
):
    """An estimated number of distinct values.

    Attributes:
        estimate: the estimate.
        relative_standard_error: of the estimate; 0 if it is exact.
        confidence_lower: the number is not below this, with `confidence_level`.
        confidence_upper: the number is not above this, with `confidence_level`.
        confidence_level: from 0 to 1.
        rows_seen: rows behind the estimate.
        rows_total: rows of the target.
        method: how it was made.
        properties: free.
    """

    estimate: float
    relative_standard_error: float = 0.0
    confidence_lower: float = 0.0
    confidence_upper: float = 0.0
    confidence_level: float = 0.0
    rows_seen: int = 0
    rows_total: int = 0
    method: str = ""
    properties: dict[str, str] = {}


class Ndv(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True, forbid_unknown_fields=True):
    """Distinct values, nulls not counted. A sketch may come without a number."""

    exact: int | None = None
    approx: ApproximateNdv | None = None
    sketches: tuple[Sketch, ...] = ()


class UpstreamStamp(
    msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True, forbid_unknown_fields=True
):
    """The state of another catalog that numbers come from."""

    system: str = ""
    table_native_id: str = ""
    commit_ref: str = ""
    fetched_at_ms: int = 0
    properties: dict[str, str] = {}


class ScalarStatistics(
    msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True, forbid_unknown_fields=True
):
    """Statistics of a column or an expression. None is unknown.

    Attributes:
        display_name: full name of the column.
        logical_type: text of its `LogicalType`.
        row_count: values, nulls and NaNs included. Inside lists and maps each element is one.
        null_count: nulls.
        nan_count: NaNs; None for types without, as in manifests.
        ndv: distinct values.
        min: no value is below it, in canonical text; NaN is left out.
        max: no value is above it.
        avg_width_bytes: mean bytes of a value, neither encoded nor compressed, rounded up; at least 1. Nulls
            count as values without bytes.
        sketches: others than those of distinct values.
        upstream: where the numbers come from.
        properties: free; `upper-bound` is `true` where deleted rows may be counted.
    """

    display_name: str = ""
    logical_type: str = ""
    row_count: int = 0
    null_count: int | None = None
    nan_count: int | None = None
    ndv: Ndv | None = None
    min: str | None = None
    max: str | None = None
    avg_width_bytes: int | None = None
    sketches: tuple[Sketch, ...] = ()
    upstream: UpstreamStamp | None = None
    properties: dict[str, str] = {}


class FileContentKind(Enum):
    """The content of a file."""

    DATA = "data"
    POSITION_DELETES = "position-deletes"
    EQUALITY_DELETES = "equality-deletes"


class FileColumnStatistics(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """Statistics of a column in one file."""

    column_id: int
    scalar: ScalarStatistics


class FileStatistics(
    msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True, forbid_unknown_fields=True
):
    """Statistics of a file.

    Attributes:
        file_path: its location, as manifests have it.
        file_format: `parquet`, `orc` or `avro`.
        row_count: live rows.
        size_bytes: of the file.
        columns: by column id, ascending.
        file_content: what it holds.
        partition_data_json: partition values.
        partition_spec_id: the partition spec.
        equality_field_ids: columns of equality deletes.
        sequence_number: the data sequence number.
    """

    file_path: str
    file_format: str = "parquet"
    row_count: int = 0
    size_bytes: int = 0
    columns: tuple[FileColumnStatistics, ...] = ()
    file_content: FileContentKind = FileContentKind.DATA
    partition_data_json: str = ""
    partition_spec_id: int = 0
    equality_field_ids: tuple[int, ...] = ()
    sequence_number: int | None = None


class TableStatistics(
    msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True, forbid_unknown_fields=True
):
    """Statistics of a table.

    Attributes:
        row_count: live rows.
        data_file_count: live data files.
        total_size_bytes: of the data files.
        upstream: where the numbers come from.
        properties: free; `upper-bound` is `true` where deleted rows may be counted.
    """

    row_count: int = 0
    data_file_count: int = 0
    total_size_bytes: int = 0
    upstream: UpstreamStamp | None = None
    properties: dict[str, str] = {}


class StatisticsRecord(
    msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True, forbid_unknown_fields=True
):
    """The statistics of one target in one snapshot: one of `table`, `scalar` and `file` fits the target.

    Attributes:
        target: what it is about.
        metadata: how it was made.
        table: of a table.
        scalar: of a column or an expression.
        file: of a file.
        properties: free.
    """

    target: Target
    metadata: RecordMetadata = RecordMetadata()
    table: TableStatistics | None = None
    scalar: ScalarStatistics | None = None
    file: FileStatistics | None = None
    properties: dict[str, str] = {}

    def check(self) -> None:
        """Checks that the record can be stored.

        Raises:
            IllegalArgumentError: the value does not fit the target, the target names nothing, or a number is
                out of range.
        """
        target_storage_id(self.target)
        kind = target_kind(self.target)
        wanted = "scalar" if kind in (TargetKind.COLUMN, TargetKind.EXPRESSION) else kind.value
        given = [name for name in ("table", "scalar", "file") if getattr(self, name) is not None]
        if given != [wanted]:
            raise IllegalArgumentError(f"Invalid statistics: a {kind.value} target takes a {wanted} value")
        if self.file is not None and FileTarget(self.file.file_path.strip()) != self.target:
            raise IllegalArgumentError("Invalid statistics: the file is not the one of the target")
        level = self.metadata.confidence_level
        if level is not None and not 0 <= level <= 1:
            raise IllegalArgumentError("Invalid statistics: confidence-level must be between 0 and 1")
        check_numbers(self, "statistics")


def check_numbers(value: Any, what: str) -> None:
    """Checks that the whole numbers in a struct, all of them counts, ids and times, can be of 64 bits.

    Raises:
        IllegalArgumentError: one is negative, or too large.
    """
    for name, number in _numbers(msgspec.to_builtins(value), ""):
        if not 0 <= number <= _MOST:
            raise IllegalArgumentError(f"Invalid {what}: {name} must be between 0 and {_MOST}")


def _numbers(value: Any, name: str) -> Iterator[tuple[str, int]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _numbers(inner, key)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _numbers(inner, name)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield name, value


_TIMES: Final = frozenset({"captured-at-ms", "refreshed-at-ms", "fetched-at-ms"})


def content_hash(record: StatisticsRecord) -> str:
    """SHA-256 of a record without its times: equal for a capture that found the same numbers."""
    content = _without_times(msgspec.to_builtins(record))
    return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(inner) for key, inner in value.items() if key not in _TIMES}
    if isinstance(value, list | tuple):
        return [_without_times(inner) for inner in value]
    return value
