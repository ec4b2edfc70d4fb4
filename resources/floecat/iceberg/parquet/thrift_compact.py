"""Structs in Thrift's compact protocol, as far as footers of Parquet files need it.

Fields are decoded by number (`read_struct`), or located (`field_places`), so that bytes can be put between
them while all others stay as they are. The bytes are untrusted: what does not fit raises `ThriftError`, and
no more is read or kept than the bytes hold.

Source: Apache Thrift, "Thrift compact protocol".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

__all__ = [
    "I32",
    "LIST",
    "STOP",
    "STRUCT",
    "FieldPlace",
    "Fields",
    "ThriftError",
    "field_header",
    "field_places",
    "list_header",
    "read_struct",
    "zigzag",
]

STOP: Final = 0
I32: Final = 5
_BINARY: Final = 8
LIST: Final = 9
STRUCT: Final = 12

Fields: TypeAlias = Mapping[int, "Fields | None"]
"""Numbers of the wanted fields of a struct, each with those of the struct that it is or has in its list."""

_TRUE, _FALSE, _BYTE, _I16, _I64, _DOUBLE, _SET, _MAP, _UUID = 1, 2, 3, 4, 6, 7, 10, 11, 13
_INTEGERS = frozenset({_I16, I32, _I64})
_DEEPEST = 32
_SIZES = {_TRUE: 0, _FALSE: 0, _BYTE: 1, _DOUBLE: 8, _UUID: 16}
_LONG_COUNT = 15
_ALWAYS_READ, _BYTES_OF_STRUCT = 100_000, 8
_LONGEST_SHIFT = 63


class ThriftError(ValueError):
    """The bytes are not what they should be."""


class _Room:
    """The number of structs that may be read: one takes at least 240 bytes of memory, and one byte of data.

    In footers of writers each has more than eight bytes on average; those of small files may be less.
    """

    def __init__(self, length: int) -> None:
        self._structs = _ALWAYS_READ + length // _BYTES_OF_STRUCT

    def take(self) -> None:
        self._structs -= 1
        if self._structs < 0:
            raise ThriftError("the data have more structs than a footer of their length")


class FieldPlace(NamedTuple):
    """The place of a field of a struct.

    Attributes:
        number: its number; 0 for the end of the struct.
        kind: type of its value, as the protocol numbers types; `STOP` for the end of the struct.
        start: where its header begins.
        value: where its value begins, which goes up to the start of the next field. For the end of the
            struct, the first byte after the struct.
    """

    number: int
    kind: int
    start: int
    value: int


def read_struct(data: bytes, fields: Fields, place: int = 0) -> dict[int, Any]:
    """Reads a struct.

    Args:
        data: holds the struct.
        fields: which fields are wanted.
        place: where the struct begins.

    Returns:
        The wanted fields that are there, by number: bool, int, float, bytes, a list of these or of structs,
        or a struct, again of its wanted fields.

    Raises:
        ThriftError: there is no such struct.
    """
    try:
        return _struct(data, place, fields, 0, _Room(len(data)))[0]
    except (IndexError, struct.error):
        raise ThriftError("the data end too early") from None


def field_places(data: bytes, place: int = 0) -> Iterator[FieldPlace]:
    """Yields the places of the fields of a struct and of its end, as it passes over them.

    Args:
        data: holds the struct.
        place: where the struct begins.

    Raises:
        ThriftError: there is no such struct.
    """
    number = 0
    try:
        while header := data[place]:
            start, kind = place, header & 0x0F
            place += 1
            if header > kind:
                number += header >> 4
            else:
                number, place = _zigzag(data, place)
            yield FieldPlace(number, kind, start, place)
            place = _skip(data, place, kind, 0)
    except IndexError:
        raise ThriftError("the data end too early") from None
    yield FieldPlace(0, STOP, place, place + 1)


def list_header(data: bytes, place: int) -> tuple[int, int, int]:
    """Number and type of the elements of a list, and where the first one begins.

    Raises:
        ThriftError: there is no such list.
    """
    try:
        return _list_header(data, place)
    except IndexError:
        raise ThriftError("the data end too early") from None


def zigzag(number: int) -> bytes:
    """A signed integer as the protocol writes it."""
    rest = number << 1 if number >= 0 else (-number << 1) - 1
    written = bytearray()
    while rest > 0x7F:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    written.append(rest)
    return bytes(written)


def field_header(number: int, kind: int, *, after: int) -> bytes:
    """The header of a field.

    Args:
        kind: type of its value.
        after: number of the field before it, 0 if it is the first.
    """
    delta = number - after
    if 0 < delta < 16:
        return bytes([delta << 4 | kind])
    return bytes([kind]) + zigzag(number)


def _struct(
    data: bytes, place: int, fields: Fields, depth: int, room: _Room | None
) -> tuple[dict[int, Any], int]:
    """Reads a struct; returns where the next value is, too.

    Most of a footer is passed over, in small integers and short texts: these are read here, without a call.
    `room` is None where nothing is wanted.
    """
    if room is not None:
        room.take()
    found: dict[int, Any] = {}
    number = 0
    while header := data[place]:
        place += 1
        kind = header & 0x0F
        if header > kind:
            number += header >> 4
        else:
            number, place = _zigzag(data, place)
        if kind in _INTEGERS:
            value = data[place]
            place += 1
            if value > 0x7F:
                value, place = _varint(data, place - 1)
            if number in fields:
                found[number] = (value >> 1) ^ -(value & 1)
        elif kind == _BINARY:
            length = data[place]
            place += 1
            if length > 0x7F:
                length, place = _varint(data, place - 1)
            end = place + length
            if number in fields:
                found[number] = data[place:end]
            place = end
        elif number in fields:
            found[number], place = _value(data, place, kind, fields[number] or {}, depth, room)
        else:
            place = _skip(data, place, kind, depth)
    return found, place + 1


def _value(
    data: bytes, place: int, kind: int, fields: Fields, depth: int, room: _Room | None
) -> tuple[Any, int]:
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, place
    if kind == STRUCT:
        return _struct(data, place, fields, _deeper(depth), room)
    if kind in (LIST, _SET):
        count, element, place = _list_header(data, place)
        values = []
        for _ in range(count):
            value, place = _element(data, place, element, fields, _deeper(depth), room)
            values.append(value)
        return values, place
    end = _skip(data, place, kind, depth)
    if kind == _DOUBLE:
        return struct.unpack_from("<d", data, place)[0], end
    if kind == _BYTE:
        return int.from_bytes(data[place:end], signed=True), end
    if kind in _INTEGERS:
        return _zigzag(data, place)
    if kind == _BINARY:
        _, place = _varint(data, place)
        return data[place:end], end
    raise ThriftError(f"a field has the type {kind}")


def _element(
    data: bytes, place: int, kind: int, fields: Fields, depth: int, room: _Room | None
) -> tuple[Any, int]:
    if kind in (_TRUE, _FALSE):
        # Alone, a boolean takes a byte.
        return data[place] == _TRUE, place + 1
    return _value(data, place, kind, fields, depth, room)


def _skip(data: bytes, place: int, kind: int, depth: int) -> int:
    if kind in _SIZES:
        end = place + _SIZES[kind]
    elif kind in _INTEGERS:
        end = _varint(data, place)[1]
    elif kind == _BINARY:
        length, place = _varint(data, place)
        end = place + length
    elif kind == STRUCT:
        end = _struct(data, place, {}, _deeper(depth), None)[1]
    elif kind in (LIST, _SET):
        count, element, place = _list_header(data, place)
        end = _skip_elements(data, place, count, (element,), depth)
    elif kind == _MAP:
        count, place = _varint(data, place)
        kinds = (data[place] >> 4, data[place] & 0x0F) if count else (_BYTE, _BYTE)
        _check_count(data, place, count)
        end = _skip_elements(data, place + (count > 0), count, kinds, depth)
    else:
        raise ThriftError(f"a field has the type {kind}")
    if end > len(data):
        raise ThriftError("a value is longer than the data")
    return end


def _skip_elements(data: bytes, place: int, count: int, kinds: tuple[int, ...], depth: int) -> int:
    for _ in range(count):
        for kind in kinds:
            place = place + 1 if kind in (_TRUE, _FALSE) else _skip(data, place, kind, _deeper(depth))
    return place


def _list_header(data: bytes, place: int) -> tuple[int, int, int]:
    header = data[place]
    count, place = header >> 4, place + 1
    if count == _LONG_COUNT:
        count, place = _varint(data, place)
    _check_count(data, place, count)
    return count, header & 0x0F, place


def _check_count(data: bytes, place: int, count: int) -> None:
    # Each element takes a byte at least.
    if count > len(data) - place:
        raise ThriftError("a list is longer than the data")


def _deeper(depth: int) -> int:
    if depth >= _DEEPEST:
        raise ThriftError("structs or lists are nested too deeply")
    return depth + 1


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while shift <= _LONGEST_SHIFT:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
    raise ThriftError("a number is too long")


def _zigzag(data: bytes, place: int) -> tuple[int, int]:
    value, place = _varint(data, place)
    return (value >> 1) ^ -(value & 1), place
