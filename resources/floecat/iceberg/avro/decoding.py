"""Decodes one value of each of many records, or skips it (Avro specification, "Data Serialization").

Strings and bytes are not copied: until a column becomes an Arrow array, it is places in the chunk.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from floecat.iceberg.avro.cursors import Chunk, DamagedRecordsError, RecordCursor
from floecat.iceberg.avro.pair_layouts import Pair, PairLayout
from floecat.iceberg.avro.string_columns import Bools, Int64s
from floecat.iceberg.avro.writer_schema import Encoding, WriterNode

__all__ = ["Column", "Items", "Numbers", "Spans", "Struct", "as_arrow", "decode", "skip"]


def as_arrow(values: npt.NDArray[Any], valid: Bools | None = None) -> pa.Array:
    """Numbers or booleans as an Arrow array, which shares their memory.

    `pa.array` would import pandas where that is installed, which takes as long as a small plan.
    """
    mask = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    is_bool = values.dtype == np.bool_
    data = np.packbits(values, bitorder="little") if is_bool else np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [mask, pa.py_buffer(data)])


@dataclass(frozen=True, eq=False)
class Numbers:
    """Numbers or booleans.

    Attributes:
        values: one for each record.
        valid: which are not null; None if all are.
    """

    values: npt.NDArray[Any]
    valid: Bools | None = None

    def to_arrow(self) -> pa.Array:
        """The values as an Arrow array."""
        return as_arrow(self.values, self.valid)


@dataclass(frozen=True, eq=False)
class Spans:
    """Strings, bytes or fixed bytes.

    Attributes:
        chunk: the bytes.
        starts: where each value begins; ascending but for nulls.
        lengths: its bytes.
        valid: which are not null; None if all are.
    """

    chunk: Chunk
    starts: Int64s
    lengths: Int64s
    valid: Bools | None = None

    def to_arrow(self) -> pa.BinaryArray:
        """The values as Arrow bytes."""
        rows = slice(None) if self.valid is None else np.flatnonzero(self.valid)
        starts, lengths = self.starts[rows], self.lengths[rows]
        # an array of the values and of what is between them, from which Arrow takes every second one
        edges = np.empty(2 * len(starts), np.int32)
        edges[::2] = starts
        edges[1::2] = starts + lengths
        if not len(edges):
            return pa.nulls(len(self.starts), pa.binary())
        buffers = [None, pa.py_buffer(edges), pa.py_buffer(self.chunk.data)]
        values = pa.BinaryArray.from_buffers(pa.binary(), len(edges) - 1, buffers)
        if self.valid is None:
            return values.take(as_arrow(np.arange(0, len(edges), 2)))
        return values.take(as_arrow(2 * (np.cumsum(self.valid) - 1), self.valid))


@dataclass(frozen=True, eq=False)
class Struct:
    """Nested records: the columns of their fields, in order."""

    columns: tuple[Column, ...]
    valid: Bools | None = None


@dataclass(frozen=True, eq=False)
class Items:
    """Items of arrays, in no order but that of the items of one record.

    Attributes:
        size: number of records.
        rows: the record of each item.
        items: the items, or pieces of them one after the other.
        valid: of which records the array is not null; None if of all.
    """

    size: int
    rows: tuple[Int64s, ...]
    items: tuple[Column, ...]
    valid: Bools | None = None

    def to_lists(self, type: pa.DataType) -> pa.ListArray:
        """The values as Arrow lists of numbers.

        Raises:
            DamagedRecordsError: the items are something else.
        """
        values = [each.values for each in self.items if isinstance(each, Numbers) and each.valid is None]
        if len(values) < len(self.items):
            raise DamagedRecordsError
        rows = np.concatenate([np.zeros(0, np.int64), *self.rows])
        order = np.argsort(rows, kind="stable")
        flat = np.concatenate([np.zeros(0, np.int64), *values])[order]
        ends = np.cumsum(np.bincount(rows, minlength=self.size))
        offsets = as_arrow(np.concatenate([[0], ends]).astype(np.int32))
        mask = None if self.valid is None else as_arrow(~self.valid)
        return pa.ListArray.from_arrays(offsets, as_arrow(flat).cast(type.value_type), mask=mask)


Column: TypeAlias = Numbers | Spans | Struct | Items


def decode(cursor: RecordCursor, node: WriterNode, keys: Set[int] | None = None) -> Column:
    """Reads a value of each record.

    Args:
        cursor: where the values begin; moved to where they end.
        node: their type.
        keys: of a map with integer keys: which are wanted. None for all.

    Raises:
        DamagedRecordsError: the bytes are not of this type.
    """
    match node.encoding:
        case Encoding.VARINT:
            return Numbers(cursor.varints())
        case Encoding.BYTES:
            lengths = cursor.varints()
            return _span(cursor, lengths)
        case Encoding.FIXED:
            return _span(cursor, np.full(len(cursor), node.size, np.int64))
        case Encoding.BOOLEAN:
            values = cursor.bytes()
            if values.max(initial=0) > 1:
                raise DamagedRecordsError
            cursor.advance(1)
            return Numbers(values.view(np.bool_))
        case Encoding.FLOAT | Encoding.DOUBLE:
            bits = cursor.words()
            cursor.advance(node.min_size)
            is_float = node.encoding is Encoding.FLOAT
            return Numbers(bits.astype("<u4").view("<f4") if is_float else bits.view("<f8"))
        case Encoding.NULL:
            return Numbers(np.zeros(len(cursor), np.int64), np.zeros(len(cursor), np.bool_))
        case Encoding.RECORD:
            return Struct(tuple(decode(cursor, part) for part in node.parts))
        case Encoding.ARRAY:
            return _decode_array(cursor, node.parts[0], keys)
        case _:
            return _decode_union(cursor, node, keys)


def skip(cursor: RecordCursor, node: WriterNode) -> None:
    """Skips a value of each record.

    Raises:
        DamagedRecordsError: the bytes are not of this type.
    """
    match node.encoding:
        case Encoding.VARINT:
            cursor.skip_varint()
        case Encoding.BYTES:
            cursor.advance(cursor.varints())
        case Encoding.BOOLEAN | Encoding.FLOAT | Encoding.DOUBLE | Encoding.FIXED:
            cursor.advance(node.min_size)
        case Encoding.NULL:
            pass
        case Encoding.RECORD:
            for part in node.parts:
                skip(cursor, part)
        case Encoding.ARRAY:
            _skip_array(cursor, node.parts[0])
        case _:
            for rows, part in _branches(cursor, node):
                if rows is None:
                    skip(cursor, part)
                else:
                    inner = cursor.at(rows)
                    skip(inner, part)
                    cursor.positions[rows] = inner.positions


def _span(cursor: RecordCursor, lengths: Int64s) -> Spans:
    starts = cursor.positions
    cursor.advance(lengths)
    return Spans(cursor.chunk, starts, lengths)


def _branches(cursor: RecordCursor, node: WriterNode) -> Iterator[tuple[Int64s | None, WriterNode]]:
    """The records of each branch of a union; None for all of them."""
    same = cursor.same_byte()
    if same is not None and not same & 1 and same >> 1 < len(node.parts):
        yield None, node.parts[same >> 1]
        return
    if same is not None:
        raise DamagedRecordsError
    chosen = cursor.varints()
    if not len(chosen):
        return
    least, most = int(chosen.min()), int(chosen.max())
    if least < 0 or most >= len(node.parts):
        raise DamagedRecordsError
    if least == most:
        yield None, node.parts[least]
        return
    for index in range(least, most + 1):
        part = node.parts[index]
        rows = np.flatnonzero(chosen == index)
        if len(rows):
            yield rows, part


def _decode_union(cursor: RecordCursor, node: WriterNode, keys: Set[int] | None) -> Column:
    size = len(cursor)
    whole: Column | None = None
    for rows, part in _branches(cursor, node):
        if rows is None:
            return decode(cursor, part, keys) if part.encoding is not Encoding.NULL else _nulls(cursor, node)
        if part.encoding is Encoding.NULL:
            continue
        inner = cursor.at(rows)
        found = _spread(decode(inner, part, keys), rows, size)
        cursor.positions[rows] = inner.positions
        whole = found if whole is None else _overlay(whole, found, rows)
    return _nulls(cursor, node) if whole is None else whole


def _nulls(cursor: RecordCursor, node: WriterNode) -> Column:
    """A column of nulls, of the first type that is another one."""
    part = next((part for part in node.parts if part.encoding is not Encoding.NULL), node)
    none = np.zeros(0, np.int64)
    nothing = RecordCursor(cursor.chunk, none, none)
    if part.encoding is Encoding.UNION:
        part = replace(part, encoding=Encoding.NULL)
    return _spread(decode(nothing, part), none, len(cursor))


def _spread(column: Column, rows: Int64s, size: int) -> Column:
    """A column of some records as one of all; the others are null."""

    def full(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        spread = np.zeros(size, values.dtype)
        spread[rows] = values
        return spread

    valid = np.zeros(size, np.bool_)
    valid[rows] = True if column.valid is None else column.valid
    match column:
        case Numbers():
            return Numbers(full(column.values), valid)
        case Spans():
            return Spans(column.chunk, full(column.starts), full(column.lengths), valid)
        case Struct():
            return Struct(tuple(_spread(each, rows, size) for each in column.columns), valid)
        case Items():
            return Items(size, tuple(rows[each] for each in column.rows), column.items, valid)


def _overlay(first: Column, second: Column, rows: Int64s) -> Column:
    """Two columns of which the second has the values of some records.

    Raises:
        DamagedRecordsError: they are of different kinds.
    """
    valid = (
        np.zeros(0, np.bool_) if first.valid is None or second.valid is None else first.valid | second.valid
    )
    if isinstance(first, Numbers) and isinstance(second, Numbers):
        values = first.values.astype(np.result_type(first.values, second.values))
        values[rows] = second.values[rows]
        return Numbers(values, valid)
    if isinstance(first, Spans) and isinstance(second, Spans):
        starts, lengths = first.starts.copy(), first.lengths.copy()
        starts[rows], lengths[rows] = second.starts[rows], second.lengths[rows]
        return Spans(first.chunk, starts, lengths, valid)
    raise DamagedRecordsError


def _decode_array(cursor: RecordCursor, items: WriterNode, keys: Set[int] | None) -> Items:
    found = _Found(keys)
    for rows, count in _runs(cursor):
        inner = cursor if rows is None else cursor.at(rows)
        places = np.arange(len(cursor)) if rows is None else rows
        if items.is_pair:
            _decode_pairs(inner, items, count, places, found)
        else:
            for _ in range(count):
                found.add(places, decode(inner, items))
        if rows is not None:
            cursor.positions[rows] = inner.positions
    return Items(len(cursor), tuple(found.rows), tuple(found.items))


def _decode_pairs(cursor: RecordCursor, node: WriterNode, count: int, rows: Int64s, found: _Found) -> None:
    """Reads some pairs of each record."""
    steps = 1
    while count:
        layout = PairLayout(cursor, count, has_bytes=node.parts[1].encoding is Encoding.BYTES)
        matching = layout.pairs[: layout.matching(cursor)]
        for pair in matching:
            if found.is_wanted(pair.key):
                found.add(rows, _column(cursor, node, pair))
        if matching:
            cursor.advance(matching[-1].end)
        count -= len(matching)
        # where records differ in one pair after the other, layouts are only tried from time to time
        steps = 1 if len(matching) > 1 else 2 * steps
        for _ in range(min(steps, count)):
            _decode_pair(cursor, node, rows, found)
            count -= 1


def _decode_pair(cursor: RecordCursor, node: WriterNode, rows: Int64s, found: _Found) -> None:
    keys = cursor.varints()
    if found.is_wanted(int(keys[0])) or (keys != keys[0]).any():
        found.add(rows, Struct((Numbers(keys), decode(cursor, node.parts[1]))))
    else:
        skip(cursor, node.parts[1])


def _column(cursor: RecordCursor, node: WriterNode, pair: Pair) -> Struct:
    """A pair of all records that have it in the same places."""
    starts = cursor.positions + pair.start
    keys = Numbers(np.full(len(cursor), pair.key))
    if node.parts[1].encoding is Encoding.BYTES:
        lengths = np.full(len(cursor), pair.end - pair.start)
        return Struct((keys, Spans(cursor.chunk, starts, lengths)))
    return Struct((keys, Numbers(RecordCursor(cursor.chunk, starts, cursor.limits).varints())))


@dataclass
class _Found:
    keys: Set[int] | None
    rows: list[Int64s] = field(default_factory=list)
    items: list[Column] = field(default_factory=list)

    def is_wanted(self, key: int) -> bool:
        return self.keys is None or key in self.keys

    def add(self, rows: Int64s, items: Column) -> None:
        self.rows.append(rows)
        self.items.append(items)


def _skip_array(cursor: RecordCursor, items: WriterNode) -> None:
    if items.varints:
        _skip_varint_array(cursor, items, items.varints)
        return
    nothing = _Found(frozenset())
    for rows, count in _runs(cursor):
        inner = cursor if rows is None else cursor.at(rows)
        if items.is_pair:
            _decode_pairs(inner, items, count, inner.positions, nothing)
        else:
            for _ in range(count):
                skip(inner, items)
        if rows is not None:
            cursor.positions[rows] = inner.positions


def _skip_varint_array(cursor: RecordCursor, items: WriterNode, varints: int) -> None:
    rows: Int64s | None = None
    while True:
        inner = cursor if rows is None else cursor.at(rows)
        counts = _counts(inner)
        some = counts > 0
        if some.all():
            if not (items.is_pair and _skip_pairs(inner, counts)):
                inner.positions = cursor.chunk.skip_varints(inner.positions, counts * varints)
        elif some.any():
            moved = cursor.chunk.skip_varints(inner.positions[some], counts[some] * varints)
            inner.positions[some] = moved
        if rows is not None:
            cursor.positions[rows] = inner.positions
        more = np.flatnonzero(some)
        if not len(more):
            return
        rows = more if rows is None else rows[more]


def _skip_pairs(cursor: RecordCursor, counts: Int64s) -> bool:
    """Skips pairs of integers if those of all records are in the same places."""
    if not len(counts) or (counts != counts[0]).any():
        return False
    count = int(counts[0])
    layout = PairLayout(cursor, count, has_bytes=False)
    if layout.matching(cursor) < count:
        return False
    cursor.advance(layout.pairs[-1].end)
    return True


def _counts(cursor: RecordCursor) -> Int64s:
    """Numbers of items of the next blocks of arrays; 0 at the end of an array."""
    counts = cursor.varints()
    if counts.min(initial=0) < 0:
        # the form with the size of the block in bytes
        rows = np.flatnonzero(counts < 0)
        inner = cursor.at(rows)
        inner.skip_varint()
        cursor.positions[rows] = inner.positions
        counts = np.abs(counts)
    if np.any(counts > np.maximum(cursor.limits - cursor.positions, 0)) or counts.min(initial=0) < 0:
        # every item has a byte
        raise DamagedRecordsError
    return counts


def _runs(cursor: RecordCursor) -> Iterator[tuple[Int64s | None, int]]:
    """Yields records whose arrays have further items, None for all, and how many all of these have."""
    size = len(cursor)
    left = _counts(cursor)
    # most records have as many columns as the others
    while size and (left == left[0]).all():
        if not left[0]:
            return
        cursor.chunk.take_items(int(left[0]))
        yield None, int(left[0])
        left = _counts(cursor)
    rows = np.flatnonzero(left)
    while len(rows):
        common = int(left[rows].min())
        cursor.chunk.take_items(common)
        yield (None if len(rows) == size else rows), common
        left[rows] -= common
        ended = rows[left[rows] == 0]
        inner = cursor.at(ended)
        left[ended] = _counts(inner)
        cursor.positions[ended] = inner.positions
        rows = rows[left[rows] > 0]
