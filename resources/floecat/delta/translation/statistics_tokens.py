"""Values of JSON documents as they stand there, on their way from rows to columns."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["TokenCollector", "is_plain_number", "is_quoted"]

_Ints: TypeAlias = npt.NDArray[np.int64]

_QUOTE, _BACKSLASH = ord('"'), ord("\\")
_IS_PLAIN = np.isin(np.arange(256), list(b"0123456789.-"))


class TokenCollector:
    """Collects the tokens of some documents at a time, and gives those of one path at a time."""

    def __init__(self, count: int) -> None:
        """Begins with none.

        Args:
            count: how many documents there are.
        """
        self._count = count
        self._pieces: list[tuple[_Ints, dict[int, int], pa.StringArray]] = []

    def add(self, rows: _Ints, slots: _Ints, tokens: pa.StringArray) -> None:
        """Adds tokens.

        Args:
            rows: the documents, shape (n,).
            slots: the paths, shape (m,).
            tokens: strings in quotes, null for what is not there; path by path, shape (m * n,).
        """
        self._pieces.append((rows, {slot: place for place, slot in enumerate(slots.tolist())}, tokens))

    def column(self, slot: int) -> pa.StringArray:
        """The tokens of one path in all documents, null where there is none and for JSON's null."""
        pieces = [(rows, places[slot], tokens) for rows, places, tokens in self._pieces if slot in places]
        if not pieces:
            return pa.nulls(self._count, pa.string())
        column = pa.concat_arrays(
            [tokens.slice(place * len(rows), len(rows)) for rows, place, tokens in pieces]
        )
        column = self._in_order(np.concatenate([rows for rows, _, _ in pieces]), column)
        is_null = pc.equal(column, "null")
        if not pc.any(is_null).as_py():
            return column
        return pc.if_else(is_null, pa.scalar(None, pa.string()), column)

    def _in_order(self, rows: _Ints, tokens: pa.StringArray) -> pa.StringArray:
        if np.array_equal(rows, np.arange(self._count)):
            return tokens
        places = np.full(self._count, -1, dtype=np.int64)
        places[rows] = np.arange(len(rows))
        return tokens.take(pa.array(places, mask=places < 0))


def is_quoted(tokens: pa.StringArray) -> bool:
    """Whether all tokens are strings without escapes, told by their bytes, which is quicker than patterns."""
    starts, ends, data = _places(tokens)
    if (ends - starts < 2).any() or (data[starts] != _QUOTE).any() or (data[ends - 1] != _QUOTE).any():
        return False
    text = data[starts[0] : ends[-1]] if len(starts) else data[:0]
    return np.count_nonzero(text == _QUOTE) == 2 * len(starts) and not (text == _BACKSLASH).any()


def is_plain_number(tokens: pa.StringArray, most_bytes: int) -> bool:
    """Whether all tokens are of digits, signs and points only, and none is longer than `most_bytes`."""
    starts, ends, data = _places(tokens)
    if not len(starts):
        return True
    return bool((ends - starts).max() <= most_bytes and _IS_PLAIN[data[starts[0] : ends[-1]]].all())


def _places(tokens: pa.StringArray) -> tuple[_Ints, _Ints, npt.NDArray[np.uint8]]:
    """Where tokens that are not null start and end, and in what."""
    offsets = np.frombuffer(tokens.buffers()[1] or bytes(4), dtype=np.int32)
    offsets = offsets[tokens.offset : tokens.offset + len(tokens) + 1]
    starts, ends = offsets[:-1], offsets[1:]
    if tokens.null_count:
        is_valid = tokens.is_valid().to_numpy(zero_copy_only=False)
        starts, ends = starts[is_valid], ends[is_valid]
    data = np.frombuffer(tokens.buffers()[2] or b"", dtype=np.uint8)
    return starts.astype(np.int64), ends.astype(np.int64), data
