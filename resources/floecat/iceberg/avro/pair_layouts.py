"""Pairs of maps of many records, where most records have the same keys in the same order.

The pairs of the first record give a layout: at which places keys and lengths are. Whether the other records
have the same there takes one comparison, rather than a step for each integer.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from floecat.iceberg.avro.cursors import RecordCursor
from floecat.iceberg.avro.string_columns import Bytes

__all__ = ["Pair", "PairLayout"]

_MOST_BYTES: Final = 512
_LEAST_BYTES: Final = 64
_MOST_BYTES_OF_ALL: Final = 1 << 20
"""Most bytes of all records together, so that they fit into a processor's cache."""

_LAST_BYTE: Final = 0x80
"""A byte below this ends an integer."""


class Pair(NamedTuple):
    """A key, and places of its value.

    Attributes:
        key: the integer.
        start: of the value: of an integer, or of bytes after their length.
        end: of the value.
        fixed: how many places are compared up to the value's end.
    """

    key: int
    start: int
    end: int
    fixed: int


class PairLayout:
    """Pairs of an integer key and an integer or bytes, of the first record of a cursor.

    Attributes:
        pairs: as many as fit into a few hundred bytes, in places counted from the cursor's position.
    """

    def __init__(self, cursor: RecordCursor, count: int, *, has_bytes: bool) -> None:
        """Reads the first record.

        Args:
            cursor: where the pairs begin.
            count: how many there are.
            has_bytes: whether values are bytes rather than integers.
        """
        most = min(max(_MOST_BYTES_OF_ALL // len(cursor), _LEAST_BYTES), _MOST_BYTES)
        begin = int(cursor.positions[0])
        data = cursor.chunk.padded[begin : min(begin + most, int(cursor.limits[0]))]
        self.pairs: list[Pair] = []
        self._places: list[int] = []
        self._masks: list[int] = []
        at = 0
        for _ in range(count):
            key, key_end = _varint(data, at)
            number, start = _varint(data, key_end)
            end = start + number if has_bytes else start
            if not at < start <= end <= len(data):
                return
            self._places += range(at, start)
            # an integer may be another one of the same length
            self._masks += [0xFF] * (key_end - at) + [0xFF if has_bytes else _LAST_BYTE] * (start - key_end)
            self.pairs.append(Pair(key, start if has_bytes else key_end, end, len(self._places)))
            at = end

    def matching(self, cursor: RecordCursor) -> int:
        """The number of pairs that all records have in these places, without moving."""
        if not self.pairs:
            return 0
        data, size = cursor.chunk.data, self.pairs[-1].end
        if int(cursor.positions.max()) + size > len(data):
            return 0
        rows = np.ndarray((len(data) - size + 1,), np.dtype((np.void, size)), data.data, strides=(1,))
        records: Bytes = rows[cursor.positions].view(np.uint8).reshape(len(cursor), size)
        found = records.T[self._places]  # a row for each place
        found ^= found[:, :1].copy()
        found &= np.array(self._masks, np.uint8)[:, np.newaxis]
        different = np.flatnonzero(found.any(axis=1))
        if not len(different):
            return len(self.pairs)
        return sum(pair.fixed <= different[0] for pair in self.pairs)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """An integer and where it ends: past the data if it does not end there."""
    natural = shift = 0
    for place in range(at, min(at + 10, len(data))):
        byte = data[place]
        natural |= (byte & 0x7F) << shift
        if byte < _LAST_BYTE:
            return (natural >> 1) ^ -(natural & 1), place + 1
        shift += 7
    return 0, len(data) + 1
