"""Structs of the Thrift compact protocol, read where they stand (Apache Thrift, "Thrift compact protocol").

Nothing is decoded but what a caller asks for: fields are found and passed over, so that bytes can be put
between them while all others stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

__all__ = [
    "BINARY",
    "I32",
    "LIST",
    "STRUCT",
    "CompactError",
    "CompactField",
    "CompactReader",
    "field_header",
    "zigzag",
]

I32: Final = 5
BINARY: Final = 8
LIST: Final = 9
STRUCT: Final = 12

_TRUE, _FALSE, _BYTE, _I16, _I64, _DOUBLE, _SET, _MAP, _UUID = 1, 2, 3, 4, 6, 7, 10, 11, 13
_FIXED_SIZES: Final = {_TRUE: 0, _FALSE: 0, _BYTE: 1, _DOUBLE: 8, _UUID: 16}
_MOST_VARINT_BYTES = 10
_MOST_NESTED = 32
_LONG_SIZE = 15


class CompactError(ValueError):
    """The bytes are no such struct."""


class CompactField(NamedTuple):
    """A field of a struct.

    Attributes:
        id: its number.
        type: of its value, as the protocol numbers types.
        start: where its header begins.
        value: where its value begins; the reader stands there.
    """

    id: int
    type: int
    start: int
    value: int


class CompactReader:
    """Reads forward from a place, never beyond the end. Its methods raise `CompactError` for damaged bytes.

    Attributes:
        at: where it stands.
    """

    def __init__(self, data: bytes, at: int = 0) -> None:
        """Takes the bytes."""
        self._data = data
        self.at = at

    def fields(self) -> Iterator[CompactField]:
        """The fields of the struct that begins here. Whoever takes one must read or skip its value.

        After the last one the reader stands behind the struct.
        """
        last = 0
        while True:
            start = self.at
            header = self._byte()
            if header == 0:
                return
            delta, type = header >> 4, header & 15
            last = last + delta if delta else self.integer()
            yield CompactField(last, type, start, self.at)

    def integer(self) -> int:
        """A signed integer of any size."""
        number = self._varint()
        return (number >> 1) ^ -(number & 1)

    def binary(self) -> bytes:
        """Bytes, or the bytes of a text."""
        length = self._varint()
        start = self.at
        self._pass(length)
        return self._data[start : self.at]

    def list_header(self) -> tuple[int, int]:
        """Type and number of the elements of a list; each takes a byte or more, so there are not too many."""
        header = self._byte()
        size, type = header >> 4, header & 15
        if size == _LONG_SIZE:
            size = self._varint()
        self._check_count(size)
        return type, size

    def skip(self, type: int, depth: int = 0) -> None:
        """Passes over a value.

        Args:
            type: of the value.
            depth: in how many others it lies.
        """
        if depth > _MOST_NESTED:
            raise CompactError("values are nested too deep")
        if type in _FIXED_SIZES:
            self._pass(_FIXED_SIZES[type])
        elif type in (_I16, I32, _I64):
            self._varint()
        elif type == BINARY:
            self.binary()
        elif type in (LIST, _SET):
            element, size = self.list_header()
            for _ in range(size):
                self._skip_element(element, depth)
        elif type == _MAP:
            self._skip_map(depth)
        elif type == STRUCT:
            for field in self.fields():
                self.skip(field.type, depth + 1)
        else:
            raise CompactError(f"there is no type {type}")

    def _skip_map(self, depth: int) -> None:
        size = self._varint()
        if size == 0:
            return
        self._check_count(size)
        types = self._byte()
        for _ in range(size):
            self._skip_element(types >> 4, depth)
            self._skip_element(types & 15, depth)

    def _skip_element(self, type: int, depth: int) -> None:
        # a field's header has the value of a boolean; in collections it takes a byte
        self.skip(_BYTE if type in (_TRUE, _FALSE) else type, depth + 1)

    def _check_count(self, count: int) -> None:
        if count > len(self._data) - self.at:
            raise CompactError("a collection is longer than the bytes")

    def _byte(self) -> int:
        self._pass(1)
        return self._data[self.at - 1]

    def _varint(self) -> int:
        number = 0
        for place in range(_MOST_VARINT_BYTES):
            byte = self._byte()
            number |= (byte & 127) << (7 * place)
            if byte < 128:
                return number
        raise CompactError("a number is too long")

    def _pass(self, length: int) -> None:
        if length > len(self._data) - self.at:
            raise CompactError("the bytes end early")
        self.at += length


def zigzag(number: int) -> bytes:
    """A signed integer as the protocol writes it."""
    rest = number << 1 if number >= 0 else (-number << 1) - 1
    written = bytearray()
    while rest > 127:
        written.append(rest & 127 | 128)
        rest >>= 7
    written.append(rest)
    return bytes(written)


def field_header(id: int, type: int, *, after: int) -> bytes:
    """The header of a field.

    Args:
        id: its number.
        type: of its value.
        after: number of the field before it, 0 if it is the first.
    """
    delta = id - after
    if 0 < delta < 16:
        return bytes([delta << 4 | type])
    return bytes([type]) + zigzag(id)
