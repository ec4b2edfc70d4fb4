"""Files of checkpoints of every kind (Delta protocol, "Checkpoints", "Checkpoint Schema").

A classic checkpoint is one Parquet file, a multi-part checkpoint several. A V2 checkpoint may be JSON, and
may keep its adds in sidecars, which are Parquet files of the same form. Removes in checkpoints serve VACUUM
and are not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from floecat.delta.log.commit_files import LogText, read_file_actions
from floecat.delta.log.file_tables import DESCRIPTOR, files_table
from floecat.delta.log.headers import LogHeader, check_header_bytes, header_of_rows, read_header
from floecat.delta.log.log_bounds import ReadMeter
from floecat.delta.log.partition_values import texts_of_map, texts_of_struct
from floecat.delta.protocol.paths import PathReader
from floecat.errors import InvalidDeltaTableError, PayloadTooLargeError
from floecat.iceberg.parquet.column_chunks import read_row_groups
from floecat.iceberg.parquet.decoded_pages import meter_column
from floecat.iceberg.parquet.field_ids import footer_schema
from floecat.iceberg.parquet.thrift_compact import ThriftError
from floecat.working_memory import take_memory

__all__ = ["CheckpointFile", "open_checkpoint_file"]

_HEADER_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "protocol": ("minReaderVersion", "minWriterVersion", "readerFeatures", "writerFeatures"),
    "metaData": (
        "id",
        "name",
        "description",
        "format",
        "schemaString",
        "partitionColumns",
        "createdTime",
        "configuration",
    ),
    "sidecar": ("path",),
    "checkpointMetadata": ("version",),
}

_ADD_FIELDS: Final = ("path", "partitionValues", "size", "modificationTime", "stats", "deletionVector")


class CheckpointFile(Protocol):
    """A file of a checkpoint, or a sidecar."""

    def header(self) -> LogHeader:
        """Protocol, metadata and names of sidecars.

        Raises:
            InvalidDeltaTableError: one of them is malformed.
        """
        ...

    def has_columns(self, action: str, names: Iterable[str]) -> bool:
        """Whether it can hold an action with these fields; JSON always can."""
        ...

    def files(self, partition_names: Sequence[str], paths: PathReader) -> list[pa.Table]:
        """The adds, in tables of `floecat.delta.log.file_tables.files_schema`.

        Args:
            partition_names: physical names of the partition columns.
            paths: reads paths.

        Raises:
            InvalidDeltaTableError: an add is broken.
        """
        ...


def open_checkpoint_file(data: bytes, *, location: str, meter: ReadMeter) -> CheckpointFile:
    """Opens a file of a checkpoint, or a sidecar.

    Args:
        location: where it is; the extension distinguishes JSON from Parquet.
        meter: counts what is decoded.

    Raises:
        InvalidDeltaTableError: it is not such a file, or is truncated.
        PayloadTooLargeError: its footer is too long.
        TooLargeError, UnsupportedDeltaTableError: see `ReadMeter.add`; may also be raised later.
    """
    if location.endswith(".json"):
        return _JsonFile(LogText(location, data), meter)
    return _ParquetFile(data, location, meter)


class _JsonFile:
    def __init__(self, text: LogText, meter: ReadMeter) -> None:
        meter.add_lines(text.data)
        self._text = text
        self._bounds = meter.bounds

    def header(self) -> LogHeader:
        return read_header(self._text.data, location=self._text.location, bounds=self._bounds)

    def has_columns(self, action: str, names: Iterable[str]) -> bool:  # noqa: ARG002
        return True

    def files(self, partition_names: Sequence[str], paths: PathReader) -> list[pa.Table]:
        return [part.adds for part in read_file_actions([self._text], partition_names, paths)]


class _ParquetFile:
    """Decodes only the requested columns."""

    def __init__(self, data: bytes, location: str, meter: ReadMeter) -> None:
        take_memory(len(data))
        self._location = location
        self._data = data
        self._meter = meter
        self._metered: set[tuple[int, int]] = set()
        self._check_footer()
        try:
            footer = footer_schema(data, location)
            # Nanoseconds, the default, cannot represent every INT96 time.
            self._file = pq.ParquetFile(pa.BufferReader(data), coerce_int96_timestamp_unit="us")
            self._schema = self._file.schema_arrow
            self._row_groups = read_row_groups(footer.metadata, len(self._file.schema))
        except (InvalidDeltaTableError, pa.ArrowException, OSError, ValueError):
            raise self._broken() from None

    def header(self) -> LogHeader:
        rows: list[dict[str, Any]] = []
        for action, names in _HEADER_FIELDS.items():
            column = self._read(action, names)
            column = column.filter(column.is_valid())
            check_header_bytes(column.nbytes, self._location, self._meter.bounds.limits)
            try:
                values = column.to_pylist()
            except (pa.ArrowException, ValueError, OverflowError):
                # For example times that Python cannot represent.
                raise self._broken() from None
            # Some writers write a struct of nulls for null.
            rows += [{action: value} for value in values if any(each is not None for each in value.values())]
        return header_of_rows(rows, location=self._location)

    def has_columns(self, action: str, names: Iterable[str]) -> bool:
        return self._fields(action) >= set(names)

    def files(self, partition_names: Sequence[str], paths: PathReader) -> list[pa.Table]:
        if "path" not in self._fields("add"):
            return []
        # One row group at a time: what is read is copied once more, without the rows of other actions.
        groups = range(len(self._row_groups))
        try:
            return [self._table(group, partition_names, paths) for group in groups]
        except (pa.ArrowException, ValueError):
            raise self._broken() from None

    def _table(self, group: int, partition_names: Sequence[str], paths: PathReader) -> pa.Table:
        adds = self._read("add", _ADD_FIELDS, group)
        held = pc.struct_field(adds, "path").is_valid()
        adds = adds.filter(held)
        stats = _field(adds, "stats", pa.string())

        def more(name: str) -> pa.ChunkedArray:
            return pc.struct_field(self._read("add", [name], group).filter(held), name)

        return files_table(
            path=paths.read(_field(adds, "path", pa.string()), location=self._location),
            partition_values=self._partition_values(adds, partition_names, more),
            size=_field(adds, "size", pa.int64()),
            modification_time=_field(adds, "modificationTime", pa.int64()),
            stats=stats,
            stats_parsed=self._stats_parsed(stats, more),
            descriptors=self._descriptors(adds),
            location=self._location,
        )

    def _stats_parsed(
        self, stats: pa.ChunkedArray, more: Callable[[str], pa.ChunkedArray]
    ) -> pa.ChunkedArray | None:
        """Struct statistics of the files that have no statistics text; None if there are none."""
        if not stats.null_count or not self._is_struct("add", "stats_parsed"):
            return None
        parsed = more("stats_parsed")
        if stats.null_count < len(stats):
            parsed = pc.if_else(stats.is_null(), parsed, pa.scalar(None, parsed.type))
        return parsed if parsed.null_count < len(parsed) else None

    def _partition_values(
        self, adds: pa.ChunkedArray, names: Sequence[str], more: Callable[[str], pa.ChunkedArray]
    ) -> pa.ChunkedArray:
        maps = _field(adds, "partitionValues", pa.map_(pa.string(), pa.string()))
        if not names or not maps.null_count or not self._is_struct("add", "partitionValues_parsed"):
            return texts_of_map(maps, names)
        utc = self._int96_fields("partitionValues_parsed")
        return texts_of_struct(more("partitionValues_parsed"), names, utc=utc)

    def _descriptors(self, adds: pa.ChunkedArray) -> pa.ChunkedArray:
        """Deletion vectors as `DESCRIPTOR`; fields that the file lacks are null."""
        if adds.type.get_field_index("deletionVector") < 0:
            return _field(adds, "deletionVector", DESCRIPTOR)
        vectors = pc.struct_field(adds, ["deletionVector"])
        if vectors.null_count == len(vectors):
            return pa.chunked_array(
                [pa.nulls(len(chunk), DESCRIPTOR) for chunk in vectors.chunks], DESCRIPTOR
            )
        if not pa.types.is_struct(vectors.type):
            raise self._broken()
        fields = [_field(vectors, field.name, field.type) for field in DESCRIPTOR]
        chunks = []
        for number in range(vectors.num_chunks):
            parts = [field.chunk(number) for field in fields]
            # Some writers write a struct of nulls for null.
            absent = reduce(pc.and_, [part.is_null() for part in parts])
            chunks.append(pa.StructArray.from_arrays(parts, fields=list(DESCRIPTOR), mask=absent))
        return pa.chunked_array(chunks, DESCRIPTOR)

    def _read(self, action: str, names: Iterable[str], group: int | None = None) -> pa.ChunkedArray:
        """Some fields of a column, of one row group or of all; no rows if it has none of the fields."""
        fields = self._fields(action)
        columns = [f"{action}.{name}" for name in names if name in fields]
        if not columns:
            return pa.chunked_array([], pa.struct([]))
        groups = range(len(self._row_groups)) if group is None else [group]
        try:
            self._count(groups, columns)
            read = self._file.read_row_groups(list(groups), columns=columns)[action]
            # Otherwise invalid UTF-8 fails wherever it is read first.
            read.validate(full=True)
        except (pa.ArrowException, OSError, ThriftError):
            raise self._broken() from None
        return read

    def _count(self, groups: Iterable[int], columns: Sequence[str]) -> None:
        """Counts columns before they are read, each once."""
        schema = self._file.schema
        paths = [schema.column(number).path for number in range(len(schema))]
        wanted = [
            number
            for number, path in enumerate(paths)
            if any(path == column or path.startswith(f"{column}.") for column in columns)
        ]
        for place in ((group, number) for group in groups for number in wanted):
            if place not in self._metered:
                self._metered.add(place)
                meter_column(self._data, self._row_groups[place[0]].columns[place[1]], self._meter.add)

    def _check_footer(self) -> None:
        most = self._meter.bounds.limits.checkpoint_footer_bytes
        length = int.from_bytes(self._data[-8:-4], "little")
        # what cannot be a footer is damage
        if most < length < len(self._data):
            raise PayloadTooLargeError(
                f"The footer of {self._location} is longer than {most} bytes"
                " (floecat.limits.checkpoint-footer-bytes)"
            )

    def _fields(self, action: str) -> set[str]:
        kind = self._type(action)
        return {field.name for field in kind} if pa.types.is_struct(kind) else set()

    def _type(self, action: str) -> pa.DataType:
        place = self._schema.get_field_index(action)
        return self._schema.field(place).type if place >= 0 else pa.null()

    def _is_struct(self, action: str, name: str) -> bool:
        place = self._type(action).get_field_index(name) if self._fields(action) else -1
        return place >= 0 and pa.types.is_struct(self._type(action).field(place).type)

    def _int96_fields(self, name: str) -> set[str]:
        """Fields whose times have no zone in Arrow although they are in UTC."""
        start = f"add.{name}."
        columns = [self._file.schema.column(number) for number in range(len(self._file.schema))]
        return {
            column.path.removeprefix(start)
            for column in columns
            if column.physical_type == "INT96" and column.path.startswith(start)
        }

    def _broken(self) -> InvalidDeltaTableError:
        return InvalidDeltaTableError(f"Checkpoint file {self._location} is damaged or is not a Parquet file")


def _field(adds: pa.ChunkedArray, name: str, kind: pa.DataType) -> pa.ChunkedArray:
    """A field cast to a type; nulls if the field is missing."""
    if adds.type.get_field_index(name) < 0:
        return pa.chunked_array([pa.nulls(len(chunk), kind) for chunk in adds.chunks], kind)
    return pc.struct_field(adds, [name]).cast(kind)
