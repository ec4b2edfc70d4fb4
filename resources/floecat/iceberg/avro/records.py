"""Records of Avro files of any writer, column by column (Avro specification, "Object Container Files").

Fields are found by Iceberg field id (table specification, appendix A, "Avro"), in files without ids by name.
Only what is wanted is decoded. Blocks of up to `_CHUNK_BYTES` and `_CHUNK_ROWS` are decoded together.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence, Set
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np

from floecat.errors import BoundExceededError, InvalidMetadataError
from floecat.iceberg.avro.container import AvroHeader, read_blocks, read_header
from floecat.iceberg.avro.cursors import Chunk, DamagedRecordsError, RecordCursor, TooManyItemsError
from floecat.iceberg.avro.decoding import Column, Spans, decode, skip
from floecat.iceberg.avro.inflation import inflate_block
from floecat.iceberg.avro.record_starts import BlockPlace, RecordMarks, walk_records
from floecat.iceberg.avro.string_columns import Int64s
from floecat.iceberg.avro.writer_schema import SchemaError, SchemaField, leaf_fields, parse_writer_schema
from floecat.iceberg.values.bounds import DEFAULT_BOUNDS, Bounds, exceeded
from floecat.working_memory import take_memory

__all__ = ["RecordReader", "Records", "Wanted"]

_CHUNK_BYTES = 8 * 1024 * 1024
_CHUNK_ROWS = 24 * 1024

_larger_chunk = threading.Lock()
"""Held while a block beyond these is decoded, which takes many times its size: one at a time in a process."""

_KEPT_SCHEMA_BYTES = 64 * 1024
"""Longest schema that is kept parsed: all manifests of a table have the same."""

_parse_kept = lru_cache(maxsize=32)(parse_writer_schema)

Wanted: TypeAlias = "dict[int, Set[int] | None]"
"""Places in `RecordReader.fields`; for a map with integer keys the wanted keys, None for all."""


class Records(NamedTuple):
    """Some records of a file.

    Attributes:
        rows: how many.
        columns: by place in `RecordReader.fields`.
    """

    rows: int
    columns: dict[int, Column]


class _Blocks:
    """Blocks of a chunk, decompressed."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = self.rows = 0
        self.places: list[BlockPlace] = []

    def add(self, records: bytes, rows: int) -> None:
        start = self.size
        self.parts.append(records)
        self.size += len(records)
        self.rows += rows
        self.places.append(BlockPlace(start, self.size, rows))


class RecordReader:
    """Reads one file.

    Attributes:
        header: of the file.
        fields: those of a record in the order of the file, each nested record replaced by its own fields.
    """

    def __init__(
        self,
        data: bytes,
        *,
        location: str,
        what: str,
        bounds: Bounds = DEFAULT_BOUNDS,
        is_metered: bool = False,
    ) -> None:
        """Reads header and schema.

        Args:
            location: where it is, for messages.
            what: what the file is, for messages, e.g. "manifest".
            is_metered: whether inflated blocks count as memory of the request (`take_memory`).

        Raises:
            BoundExceededError: a bound is exceeded.
            InvalidMetadataError: not an Avro file of records.
        """
        self._data = data
        self._location = location
        self._what = what
        self._bounds = bounds
        self._is_metered = is_metered
        self._items_left = bounds.manifest_items
        if len(data) > bounds.manifest_bytes:
            raise self._exceeded("manifest_bytes", "it has more bytes than")
        self.header: AvroHeader = read_header(data, location=location, what=what)
        self._codec = self.header.metadata.get("avro.codec", b"null").decode(errors="replace")
        try:
            schema = self.header.metadata.get("avro.schema", b"")
            parse = _parse_kept if len(schema) <= _KEPT_SCHEMA_BYTES else parse_writer_schema
            self._schema = parse(schema, bounds)
        except SchemaError as error:
            if error.bound is not None:
                raise self._exceeded(error.bound, str(error)) from None
            raise self.invalid(str(error)) from None
        self.fields: Sequence[SchemaField] = tuple(leaf_fields(self._schema))
        self._marks = RecordMarks(self.fields)

    def place(self, id: int, name: str) -> int | None:
        """The place of a field in `fields`; by its name if the file has no ids. None if it is missing."""
        for place, field in enumerate(self.fields):
            if field.id == id or (field.id is None and field.name == name):
                return place
        return None

    def parts(self, id: int, name: str) -> list[tuple[int, SchemaField]]:
        """Places in `fields` of what a nested record consists of, found as by `place`."""
        found = []
        for place, field in enumerate(self.fields):
            parent = field.parent
            if parent is not None and (parent.id == id or (parent.id is None and parent.name == name)):
                found.append((place, field))
        return found

    def check_location(self, column: Column) -> None:
        """Refuses locations that nothing reads or deletes: a few of them take all the memory of a list.

        Raises:
            BoundExceededError: one is longer than the bound.
        """
        if isinstance(column, Spans) and column.lengths.max(initial=0) > self._bounds.location_bytes:
            raise self._exceeded("location_bytes", "a location has more bytes than")

    def invalid(self, problem: str) -> InvalidMetadataError:
        """The error for a file with a problem."""
        return InvalidMetadataError(f"Cannot read {self._what} {self._location}: {problem}")

    def _exceeded(self, bound: str, problem: str) -> BoundExceededError:
        return exceeded(self._bounds, bound, f"{self._what} {self._location}", problem)

    def read(self, wanted: Wanted) -> Iterator[Records]:
        """Yields the records in the order of the file.

        Raises:
            BoundExceededError: a bound is exceeded.
            InvalidMetadataError: the file is damaged. Records before the damage were yielded.
        """
        blocks = _Blocks()
        try:
            for records, rows in self._inflated():
                fits = blocks.size + len(records) <= _CHUNK_BYTES and blocks.rows + rows <= _CHUNK_ROWS
                if blocks.places and not fits:
                    yield from self._decode(blocks, wanted)
                    blocks = _Blocks()
                blocks.add(records, rows)
        except InvalidMetadataError:
            yield from self._decode(blocks, wanted)
            raise
        yield from self._decode(blocks, wanted)

    def _inflated(self) -> Iterator[tuple[bytes, int]]:
        bounds = self._bounds
        size = entries = 0
        for block in read_blocks(self._data, self.header, location=self._location, what=self._what):
            entries += max(block.rows, 1)
            if block.rows > bounds.manifest_block_entries:
                raise self._exceeded("manifest_block_entries", "a block has more entries than")
            if entries > bounds.manifest_entries:
                raise self._exceeded("manifest_entries", "it has more entries than")
            if not block.rows:
                continue
            records = inflate_block(
                block.data, self._codec, location=self._location, what=self._what, bounds=bounds
            )
            size += len(records)
            if size > bounds.inflated_file_bytes:
                raise self._exceeded("inflated_file_bytes", "it inflates to more bytes than")
            if self._is_metered:
                take_memory(len(records))
            yield records, block.rows

    def _decode(self, blocks: _Blocks, wanted: Wanted) -> Iterator[Records]:
        if not blocks.places:
            return
        chunk = Chunk(blocks.parts, self._items_left)
        try:
            if blocks.size <= _CHUNK_BYTES and blocks.rows <= _CHUNK_ROWS:
                yield from self._decode_chunk(chunk, blocks, wanted)
            else:
                with _larger_chunk:
                    found = list(self._decode_chunk(chunk, blocks, wanted))
                yield from found
        except TooManyItemsError:
            raise self._exceeded("manifest_items", "its lists and maps have more items than") from None
        self._items_left = chunk.items_left

    def _decode_chunk(self, chunk: Chunk, blocks: _Blocks, wanted: Wanted) -> Iterator[Records]:
        places = blocks.places
        try:
            if all(place.rows == 1 for place in places):
                yield self._from_starts(chunk, places, _starts(places), wanted)
                return
            marks = self._marks.find(chunk, places)
            if marks is not None:
                yield self._from_marks(chunk, places, marks, wanted)
                return
        except DamagedRecordsError:
            pass
        yield from self._walked(chunk, blocks, wanted)

    def _walked(self, chunk: Chunk, blocks: _Blocks, wanted: Wanted) -> Iterator[Records]:
        """Decodes records whose starts are unknown."""
        starts: list[int] = []
        places: list[BlockPlace] = []
        whole = True
        for place, data in zip(blocks.places, blocks.parts, strict=True):
            found, whole = walk_records(self._schema, data, place.rows)
            starts += [place.start + start for start in found]
            if found:
                places.append(place._replace(rows=len(found)))
            if not whole:
                break
        if starts:
            try:
                yield self._from_starts(chunk, places, np.array(starts), wanted, whole=whole)
            except DamagedRecordsError:
                whole = False
        if not whole:
            raise self.invalid("not a valid Avro file (a block is damaged)")

    def _from_starts(
        self,
        chunk: Chunk,
        places: Sequence[BlockPlace],
        starts: Int64s,
        wanted: Wanted,
        *,
        whole: bool = True,
    ) -> Records:
        cursor = RecordCursor(chunk, starts, _limits(places))
        columns = self._decode_fields(cursor, 0, len(self.fields), wanted)
        nexts = _ends(places, starts)
        # after the last record before the damage there may be anything
        until = len(starts) if whole else -1
        if not np.array_equal(cursor.positions[:until], nexts[:until]):
            raise DamagedRecordsError
        return Records(len(starts), columns)

    def _from_marks(
        self, chunk: Chunk, places: Sequence[BlockPlace], marks: Int64s, wanted: Wanted
    ) -> Records:
        """Decodes each record from its mark to its end, then from the end of the one before to its mark."""
        place = self._marks.place or 0
        limits = _limits(places)
        tail = RecordCursor(chunk, marks, limits)
        columns = self._decode_fields(tail, place, len(self.fields), wanted)
        starts = np.concatenate([[0], tail.positions[:-1]])
        if not np.array_equal(_ends(places, starts), tail.positions):
            raise DamagedRecordsError
        firsts = _firsts(places)
        if not np.array_equal(starts[firsts], _starts(places)):
            raise DamagedRecordsError
        head = RecordCursor(chunk, starts, limits)
        columns |= self._decode_fields(head, 0, place, wanted)
        if not np.array_equal(head.positions, marks):
            raise DamagedRecordsError
        return Records(len(marks), columns)

    def _decode_fields(
        self, cursor: RecordCursor, start: int, stop: int, wanted: Wanted
    ) -> dict[int, Column]:
        columns: dict[int, Column] = {}
        for place in range(start, stop):
            node = self.fields[place].node
            if place in wanted:
                columns[place] = decode(cursor, node, wanted[place])
            else:
                skip(cursor, node)
        return columns


def _starts(places: Sequence[BlockPlace]) -> Int64s:
    return np.array([place.start for place in places])


def _firsts(places: Sequence[BlockPlace]) -> Int64s:
    """The number of the first record of each block."""
    rows = np.array([place.rows for place in places])
    firsts: Int64s = np.cumsum(rows) - rows
    return firsts


def _limits(places: Sequence[BlockPlace]) -> Int64s:
    stops = np.array([place.stop for place in places])
    limits: Int64s = np.repeat(stops, [place.rows for place in places])
    return limits


def _ends(places: Sequence[BlockPlace], starts: Int64s) -> Int64s:
    """The end of each record: the start of the next one, or the end of the block."""
    ends = np.append(starts[1:], 0)
    ends[np.cumsum([place.rows for place in places]) - 1] = [place.stop for place in places]
    return ends
