"""Data files in ORC and Avro."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Context, Decimal
from threading import Lock
from typing import Any, Final, TypeAlias

import msgspec
import pyarrow as pa
from pyarrow import orc

from floecat.errors import InvalidMetadataError
from floecat.fileio.base import FileIO
from floecat.iceberg.avro.container import read_blocks
from floecat.iceberg.avro.decoding import Numbers, Spans
from floecat.iceberg.avro.records import RecordReader
from floecat.iceberg.avro.writer_schema import Encoding, WriterNode
from floecat.iceberg.values.bounds import Bounds
from floecat.statistics.files.sources import (
    InputFile,
    NameMapping,
    UnreadableFileError,
    check_bound,
    check_memory,
    reading,
)

__all__ = ["AvroSource", "OrcSource"]

_ORC_ID: Final = b"iceberg.id"
_ORC_TAIL: Final = 256
"""The postscript and its length, of one byte."""

_EXACT: Final = Context(prec=77)
_EXACT_DIGITS: Final = 38

_ID_NAMES: Final = ("field-id", "element-id", "key-id", "value-id")

_Names: TypeAlias = tuple[str, ...]


class OrcSource:
    """An ORC file, stripe by stripe, whose columns are decoded one after the other."""

    reads_single_columns = True

    def __init__(
        self,
        files: FileIO,
        location: str,
        size_bytes: int,
        *,
        names: NameMapping | None = None,
        memory_bytes: int,
        bounds: Bounds,
    ) -> None:
        """Reads the footer.

        Args:
            files: where the file is read.
            location: where it is.
            names: ids of columns of files that have none.
            memory_bytes: bounds a column of a stripe.

        Raises:
            UnreadableFileError: the footer is damaged, or longer than its bound.
        """
        self._location = location
        self._memory_bytes = memory_bytes
        self._lock = Lock()
        self._input = InputFile(files, location, size_bytes)
        tail = files.read_range(location, max(size_bytes - _ORC_TAIL, 0), min(size_bytes, _ORC_TAIL))
        footer = min(_orc_footer_bytes(tail), size_bytes)  # what is longer than the file is damage
        problem = "its footer has more bytes than"
        check_bound(bounds, "data_file_footer_bytes", location, footer, problem)
        with reading(location, self._input):
            self._file = orc.ORCFile(pa.PythonFile(self._input, "r"))
        fields = list(_orc_fields(self._file.schema, (), ()))
        has_ids = any(_ORC_ID in (field.metadata or {}) for _, _, field in fields)
        self._places: dict[int, tuple[int, ...]] = {}
        for path, place, field in fields:
            id = int(field.metadata[_ORC_ID]) if has_ids and _ORC_ID in (field.metadata or {}) else None
            if not has_ids and names is not None:
                id = names.find(path)
            if id is not None and not pa.types.is_nested(field.type):
                self._places[id] = place
        self.row_count: int = self._file.nrows

    def has(self, field_id: int) -> bool:
        """See `Source`."""
        return field_id in self._places

    def hides(self, _field_id: int) -> bool:
        """See `Source`."""
        return False

    def struct_path(self, field_id: int) -> tuple[int, ...]:
        """See `Source`."""
        return self._places[field_id][1:]

    def read(self, field_ids: Sequence[int]) -> Iterator[Mapping[int, pa.Array]]:
        """See `Source`."""
        columns = sorted({self._places[id][0] for id in field_ids})
        for stripe in range(self._file.nstripes):
            with self._lock, reading(self._location, self._input):
                batch = self._file.read_stripe(stripe, columns)
            check_memory(self._location, batch.nbytes, self._memory_bytes)
            yield {id: batch.column(columns.index(self._places[id][0])) for id in field_ids}


def _orc_footer_bytes(tail: bytes) -> int:
    """Bytes of the footer and the statistics of stripes, as the postscript has them (ORC specification).

    What is no postscript is left to the library.
    """
    postscript = tail[-1 - tail[-1] : -1] if tail else b""
    lengths, at = {1: 0, 5: 0}, 0
    while at < len(postscript):
        key, at = _varint(postscript, at)
        value, at = _varint(postscript, at)
        if key & 7 == 2:  # bytes of this length
            at += value
        elif key >> 3 in lengths:
            lengths[key >> 3] = value
    return sum(lengths.values())


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data):
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 0x80:
            break
    return value, at


def _orc_fields(
    fields: Any, owner: _Names, place: tuple[int, ...]
) -> Iterator[tuple[_Names, tuple[int, ...], pa.Field]]:
    """Names, positions in structs, and each field that can have an id."""
    for index, field in enumerate(fields):
        yield from _orc_field(field, (*owner, field.name), (*place, index))


def _orc_field(
    field: pa.Field, path: _Names, place: tuple[int, ...]
) -> Iterator[tuple[_Names, tuple[int, ...], pa.Field]]:
    yield path, place, field
    kind = field.type
    if pa.types.is_struct(kind):
        yield from _orc_fields([kind.field(index) for index in range(kind.num_fields)], path, place)
    elif pa.types.is_map(kind):
        # The entries of a map are a struct.
        yield from _orc_field(kind.key_field, (*path, "key"), (*place, 0))
        yield from _orc_field(kind.item_field, (*path, "value"), (*place, 1))
    elif pa.types.is_list(kind):
        yield from _orc_field(kind.value_field, (*path, "element"), place)


class AvroSource:
    """An Avro file, which is held in memory. Columns in lists, maps and optional structs are not read."""

    reads_single_columns = False

    def __init__(
        self,
        files: FileIO,
        location: str,
        size_bytes: int,
        *,
        names: NameMapping | None = None,
        bounds: Bounds,
    ) -> None:
        """Reads the file.

        Raises:
            UnreadableFileError: it is damaged, or exceeds a bound of manifests.
        """
        self._location = location
        check_bound(bounds, "manifest_bytes", location, size_bytes, "it has more bytes than")
        data = files.read_range(location, 0, size_bytes)
        with self._reading():
            self._reader = RecordReader(data, location=location, what="data file", bounds=bounds)
            blocks = read_blocks(data, self._reader.header, location=location, what="data file")
            self.row_count = sum(block.rows for block in blocks)
        fields = self._reader.fields
        has_ids = any(field.id is not None for field in fields)
        self._places: dict[int, int] = {}
        for place, field in enumerate(fields):
            path = (field.name,) if field.parent is None else (field.parent.name, field.name)
            id = field.id if has_ids or names is None else names.find(path)
            if id is not None and _value_type(field.node) is not None:
                self._places[id] = place
        schema = msgspec.json.decode(self._reader.header.metadata["avro.schema"])
        # which columns fields without ids are cannot be told when they are nested
        self._all_ids = frozenset(_ids(schema)) if has_ids else None
        self._has_others = len(self._places) < len(fields)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            with reading(self._location):
                yield
        except InvalidMetadataError as error:
            raise UnreadableFileError(self._location, error.message.rpartition(": ")[2]) from None

    def has(self, field_id: int) -> bool:
        """See `Source`."""
        return field_id in self._places

    def hides(self, field_id: int) -> bool:
        """See `Source`."""
        if self.has(field_id):
            return False
        return self._has_others if self._all_ids is None else field_id in self._all_ids

    def struct_path(self, _field_id: int) -> tuple[int, ...]:
        """See `Source`."""
        return ()

    def read(self, field_ids: Sequence[int]) -> Iterator[Mapping[int, pa.Array]]:
        """See `Source`."""
        places = {id: self._places[id] for id in field_ids}
        types = {id: _value_type(self._reader.fields[place].node) for id, place in places.items()}
        with self._reading():
            for records in self._reader.read(dict.fromkeys(places.values())):
                found = {id: records.columns[place] for id, place in places.items()}
                yield {
                    id: _avro_array(column, types[id] or {})
                    for id, column in found.items()
                    if isinstance(column, Numbers | Spans)
                }


def _ids(schema: Any) -> Iterator[int]:
    """All field ids in a schema (table specification, Appendix A, "Avro")."""
    if isinstance(schema, dict):
        for name, value in schema.items():
            if name in _ID_NAMES and type(value) is int:
                yield value
            yield from _ids(value)
    elif isinstance(schema, list):
        for part in schema:
            yield from _ids(part)


def _value_type(node: WriterNode) -> Mapping[str, Any] | None:
    """Attributes of the type of a field; None for unions of several types, and for nested types."""
    parts = [part for part in node.parts if part.encoding is not Encoding.NULL] or [node]
    if node.encoding is not Encoding.UNION:
        parts = [node]
    is_plain = len(parts) == 1 and parts[0].encoding not in (Encoding.RECORD, Encoding.ARRAY, Encoding.UNION)
    return parts[0].attributes if is_plain else None


_AVRO_UNITS: Final[Mapping[str, pa.DataType]] = {
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms"),
    "timestamp-micros": pa.timestamp("us"),
    "timestamp-nanos": pa.timestamp("ns"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "local-timestamp-nanos": pa.timestamp("ns"),
}


def _avro_array(column: Numbers | Spans, attributes: Mapping[str, Any]) -> pa.Array:
    array = column.to_arrow()
    logical = attributes.get("logicalType", "")
    if logical == "decimal":
        scale = int(attributes.get("scale", 0))
        numbers = (
            None if value is None else int.from_bytes(value, "big", signed=True)
            for value in array.to_pylist()
        )
        decimals = [None if number is None else Decimal(number).scaleb(-scale, _EXACT) for number in numbers]
        return pa.array(decimals, pa.decimal128(_EXACT_DIGITS, scale))
    if logical == "date":
        return array.cast(pa.int32()).view(pa.date32())
    return array.cast(_AVRO_UNITS[logical]) if logical in _AVRO_UNITS else array
