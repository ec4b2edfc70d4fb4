"""The Arrow stream of an index, checked before Arrow reads it (Arrow IPC format).

Arrow allocates what a compressed buffer says of its size, and builds every field of a schema, where any
number of fields may share one description. Messages are FlatBuffers; pyarrow verifies their offsets.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from struct import Struct
from typing import Any, Final, Self

import pyarrow as pa

__all__ = ["stream_size"]

_MOST_MESSAGES: Final = 64
_MOST_HEADER_BYTES: Final = 1 << 20
_LEAST_ITEM_BYTES: Final = 16
"""A field, or an item of metadata, takes more in a message that describes each for itself."""

_UINT16, _INT32, _UINT32, _INT64 = (Struct(f"<{code}") for code in "HiIq")
_BUFFER: Final = Struct("<qq")

# places in the tables of Arrow's Message.fbs and Schema.fbs
_MESSAGE_HEADER: Final = 2
_SCHEMA_FIELDS, _SCHEMA_METADATA = 1, 2
_FIELD_CHILDREN, _FIELD_METADATA = 5, 6
_BATCH_BUFFERS, _BATCH_COMPRESSION = 2, 3


def stream_size(stream: bytes) -> int:
    """The bytes of the buffers of all record batches when Arrow has read them.

    Raises:
        ValueError: damaged, or not of the kind that an index has: flat columns, or structs of these, without
            dictionaries.
    """
    try:
        messages = _read(pa.ipc.MessageReader.open_stream(pa.BufferReader(stream)))
        return sum(_message_size(number, message) for number, message in enumerate(messages))
    except (struct.error, IndexError, OSError, pa.ArrowException):
        raise ValueError("the stream is damaged") from None


def _read(messages: Any) -> Iterator[Any]:
    while True:
        try:
            yield messages.read_next_message()
        except StopIteration:
            return


def _message_size(number: int, message: Any) -> int:
    expected = "record batch" if number else "schema"
    if number >= _MOST_MESSAGES or message.type != expected or message.metadata.size > _MOST_HEADER_BYTES:
        raise ValueError("the stream has other messages than an index")
    header = _Table.root(memoryview(message.metadata)).table(_MESSAGE_HEADER)
    if number:
        return _batch_size(header, memoryview(message.body))
    _check_schema(header, message.metadata.size)
    return 0


def _check_schema(schema: _Table, size_bytes: int) -> None:
    items = schema.length(_SCHEMA_METADATA) + schema.length(_SCHEMA_FIELDS)
    for field in schema.tables(_SCHEMA_FIELDS):
        items += field.length(_FIELD_METADATA) + field.length(_FIELD_CHILDREN)
        if items * _LEAST_ITEM_BYTES > size_bytes:
            break
        for child in field.tables(_FIELD_CHILDREN):
            items += child.length(_FIELD_METADATA)
            if child.length(_FIELD_CHILDREN):
                raise ValueError("the columns of the stream are nested")
    if items * _LEAST_ITEM_BYTES > size_bytes:
        raise ValueError("the schema has more fields than its length allows")


def _batch_size(batch: _Table, body: memoryview) -> int:
    is_compressed = batch.has(_BATCH_COMPRESSION)
    size_bytes = 0
    for offset, length in batch.structs(_BATCH_BUFFERS, _BUFFER):
        if offset < 0 or length < 0 or offset + length > len(body):
            raise ValueError("a buffer lies outside the stream")
        if is_compressed and length:
            # -1 stands for a buffer that is not compressed
            (uncompressed,) = _INT64.unpack_from(body, offset)
            if uncompressed < -1:
                raise ValueError("a buffer has a negative size")
            size_bytes += length if uncompressed == -1 else uncompressed
        else:
            size_bytes += length
    return size_bytes


class _Table:
    """A table of a FlatBuffer that was verified."""

    def __init__(self, data: memoryview, at: int) -> None:
        self._data = data
        self._at = at
        self._fields = at - _INT32.unpack_from(data, at)[0]

    @classmethod
    def root(cls, data: memoryview) -> Self:
        return cls(data, _UINT32.unpack_from(data, 0)[0])

    def has(self, place: int) -> bool:
        return self._place(place) > 0

    def table(self, place: int) -> _Table:
        at = self._place(place)
        if not at:
            raise ValueError("a message is incomplete")
        return _Table(self._data, self._target(at))

    def length(self, place: int) -> int:
        at = self._place(place)
        return int(_UINT32.unpack_from(self._data, self._target(at))[0]) if at else 0

    def tables(self, place: int) -> Iterator[_Table]:
        first = self._first(place)
        for number in range(self.length(place)):
            yield _Table(self._data, self._target(first + number * _UINT32.size))

    def structs(self, place: int, layout: Struct) -> Iterator[tuple[Any, ...]]:
        first = self._first(place)
        end = first + self.length(place) * layout.size
        if end > len(self._data):
            raise ValueError("a message is incomplete")
        return layout.iter_unpack(self._data[first:end])

    def _first(self, place: int) -> int:
        at = self._place(place)
        return self._target(at) + _UINT32.size if at else 0

    def _target(self, at: int) -> int:
        return at + int(_UINT32.unpack_from(self._data, at)[0])

    def _place(self, place: int) -> int:
        """The place of a field; 0 if the table has none."""
        entry = (2 + place) * _UINT16.size
        if entry >= _UINT16.unpack_from(self._data, self._fields)[0]:
            return 0
        offset = int(_UINT16.unpack_from(self._data, self._fields + entry)[0])
        return self._at + offset if offset else 0
