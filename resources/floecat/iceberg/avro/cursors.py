"""Cursors at many places in Avro's binary encoding, moved over values together.

Where a scalar decoder has one position, a `RecordCursor` has an array of them, one for each record that is
decoded. Each step reads the same field of all records in a few NumPy calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from floecat.iceberg.avro.string_columns import Bytes, Int64s

__all__ = ["Chunk", "DamagedRecordsError", "RecordCursor", "TooManyItemsError"]

_PADDING = 64
_WORD = 8
_MORE = np.uint64(0x8080808080808080)
_ONE = np.uint64(1)
_MAX_VARINT = 10

_Uint64s = npt.NDArray[np.uint64]


class DamagedRecordsError(Exception):
    """The bytes are not what the schema says."""


class TooManyItemsError(Exception):
    """Lists and maps have more items than may be decoded."""


class Chunk:
    """Bytes of records.

    Attributes:
        size: how many there are.
        padded: the bytes, and zeros behind them.
        data: the same as an array.
        words: the 8 bytes from every position on, as one number.
        items_left: how many items of lists and maps may still be decoded, counting those at the same place of
            several records once.
    """

    def __init__(self, parts: Sequence[bytes], max_items: int) -> None:
        self.items_left = max_items
        self.padded = b"".join((*parts, bytes(_PADDING)))
        self.size = len(self.padded) - _PADDING
        self.data: Bytes = np.frombuffer(self.padded, np.uint8)
        self.words: _Uint64s = np.ndarray(
            (self.size + _PADDING - _WORD + 1,), np.dtype("<u8"), self.data.data, strides=(1,)
        )

    def take_items(self, count: int) -> None:
        """Counts items that are about to be decoded.

        Raises:
            TooManyItemsError: there are more than may be.
        """
        self.items_left -= count
        if self.items_left < 0:
            raise TooManyItemsError

    def skip_varints(self, positions: Int64s, counts: Int64s) -> Int64s:
        """The ends of as many integers as `counts` says, all positive, from each of the positions."""
        ranks = self._rank(positions) + counts - 1
        words = np.searchsorted(self._ends_before_word, ranks, side="right") - 1
        bits = self._ends_as_bits[words]
        ends: Int64s = (words << 6) + _place_of_bit(bits, ranks - self._ends_before_word[words]) + 1
        return ends

    @cached_property
    def _ends_as_bits(self) -> _Uint64s:
        """A bit for each byte that ends an integer."""
        bits = np.packbits(self.data < 0x80, bitorder="little")
        return np.frombuffer(bits.tobytes() + bytes(-len(bits) % _WORD), np.dtype("<u8"))

    @cached_property
    def _ends_before_word(self) -> Int64s:
        counts = np.bitwise_count(self._ends_as_bits)
        return np.cumsum(counts, dtype=np.int64) - counts

    def _rank(self, positions: Int64s) -> Int64s:
        """The number of bytes before each position that end an integer."""
        places = np.minimum(positions, self.size)
        words = places >> 6
        below = (_ONE << (places & 63).astype(np.uint64)) - _ONE
        ranks: Int64s = self._ends_before_word[words] + np.bitwise_count(self._ends_as_bits[words] & below)
        return ranks


class RecordCursor:
    """A place in each of some records.

    Attributes:
        chunk: the bytes.
        positions: the places. In damaged data they may run past the record, and past the chunk: the caller
            compares them with the end of the record.
        limits: the end of the block that each record is in.
    """

    def __init__(self, chunk: Chunk, positions: Int64s, limits: Int64s) -> None:
        self.chunk = chunk
        self.positions = positions
        self.limits = limits

    def __len__(self) -> int:
        return len(self.positions)

    def at(self, rows: Int64s) -> RecordCursor:
        """A cursor of its own for some of the records."""
        return RecordCursor(self.chunk, self.positions[rows], self.limits[rows])

    def bytes(self) -> Bytes:
        """The byte at each place, without moving."""
        return self.chunk.data.take(self.positions, mode="clip")

    def words(self) -> _Uint64s:
        """The 8 bytes at each place, without moving."""
        return self.chunk.words[np.minimum(self.positions, self.chunk.size)]

    def advance(self, sizes: Int64s | int) -> None:
        """Moves over bytes.

        Raises:
            DamagedRecordsError: a size is negative, or leads out of the block.
        """
        moved = self.positions + sizes
        # a sum that overflows is negative
        if (moved > self.limits).any() or (moved < self.positions).any():
            raise DamagedRecordsError
        self.positions = moved

    def varints(self) -> Int64s:
        """Reads an integer.

        Raises:
            DamagedRecordsError: it has more than 10 bytes.
        """
        first = self.bytes()
        if first.max(initial=0) < 0x80:
            self.positions = self.positions + 1
            short: Int64s = (first >> 1).astype(np.int64)
            short ^= -(first & 1).astype(np.int64)
            return short
        naturals = self._naturals()
        return (naturals >> _ONE).view(np.int64) ^ -(naturals & _ONE).view(np.int64)

    def skip_varint(self) -> None:
        """Moves over an integer."""
        if self.bytes().max(initial=0) < 0x80:
            self.positions = self.positions + 1
        else:
            self._naturals()

    def same_byte(self) -> int | None:
        """Reads a byte that is the same in all records; None, unmoved, if it is not."""
        found = self.bytes()
        if not len(found) or (found != found[0]).any():
            return None
        self.positions = self.positions + 1
        return int(found[0])

    def _naturals(self) -> _Uint64s:
        words = self.words()
        stops = ~words & _MORE
        stop = stops & (~stops + _ONE)
        lengths = (np.bitwise_count(stop - _ONE).astype(np.int64) + 1) >> 3
        naturals = _seven_bits(words & ((stop << _ONE) - _ONE))
        longer = np.flatnonzero(stop == 0)
        if len(longer):
            tail = self.chunk.words[np.minimum(self.positions[longer] + _WORD, self.chunk.size)]
            low, high = tail & np.uint64(0xFF), (tail >> np.uint64(8)) & np.uint64(0xFF)
            has_more = low >= np.uint64(0x80)
            if np.any(has_more & (high >= np.uint64(0x80))):
                raise DamagedRecordsError
            # PyIceberg writes negative numbers with a bit beyond the 64, which other readers drop too
            naturals[longer] |= (low & np.uint64(0x7F)) << np.uint64(56)
            naturals[longer] |= np.where(has_more, high, np.uint64(0)) << np.uint64(63)
            lengths[longer] = _MAX_VARINT - 1 + has_more
        self.positions = self.positions + lengths
        return naturals


def _place_of_bit(words: _Uint64s, ranks: Int64s) -> Int64s:
    """The place of the bit with a number of set bits below it; 63 if there is none."""
    places = np.zeros(len(words), np.int64)
    for width in (32, 16, 8, 4, 2, 1):
        low = np.bitwise_count(words & np.uint64((1 << width) - 1))
        above = ranks >= low
        ranks = ranks - low * above
        steps = above * np.int64(width)
        places += steps
        words = words >> steps.view(np.uint64)
    return places


def _seven_bits(words: _Uint64s) -> _Uint64s:
    """Joins the low 7 bits of 8 bytes."""
    for shift, low in (
        (1, 0x007F007F007F007F),
        (2, 0x00003FFF00003FFF),
        (4, 0x000000000FFFFFFF),
    ):
        high = np.uint64(low << (8 * shift))
        words = (words & np.uint64(low)) | ((words & high) >> np.uint64(shift))
    return words
