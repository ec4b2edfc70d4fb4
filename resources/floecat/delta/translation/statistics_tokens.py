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
        self._groups: dict[bytes, list[tuple[_Ints, _Ints, pa.StringArray]]] = {}

    def add(self, rows: _Ints, slots: _Ints, tokens: pa.StringArray) -> None:
        """Adds tokens.

        Args:
            rows: the documents, shape (n,).
            slots: the paths, shape (m,).
            tokens: strings in quotes, null for what is not there; document by document, shape (n * m,).
        """
        self._groups.setdefault(slots.tobytes(), []).append((rows, slots, tokens))

    def column(self, slot: int) -> pa.StringArray:
        """The tokens of one path in all documents, null where there is none and for JSON's null."""
        all_rows: list[_Ints] = []
        all_tokens: list[pa.StringArray] = []
        for group in self._groups.values():
            slots = group[0][1]
            places = np.flatnonzero(slots == slot)
            if len(places):
                rows, tokens = self._joined(group)
                all_rows.append(rows)
                all_tokens.append(tokens.take(pa.array(np.arange(len(rows)) * len(slots) + places[0])))
        if not all_rows:
            return pa.nulls(self._count, pa.string())
        tokens = self._in_order(np.concatenate(all_rows), pa.concat_arrays(all_tokens))
        is_null = pc.equal(tokens, "null")
        return (
            pc.if_else(is_null, pa.scalar(None, pa.string()), tokens) if pc.any(is_null).as_py() else tokens
        )

    def _in_order(self, rows: _Ints, tokens: pa.StringArray) -> pa.StringArray:
        if np.array_equal(rows, np.arange(self._count)):
            return tokens
        places = np.full(self._count, -1, dtype=np.int64)
        places[rows] = np.arange(len(rows))
        return tokens.take(pa.array(places, mask=places < 0))

    @staticmethod
    def _joined(group: list[tuple[_Ints, _Ints, pa.StringArray]]) -> tuple[_Ints, pa.StringArray]:
        """Documents and tokens of a group; joined once, and kept so."""
        if len(group) > 1:
            rows = np.concatenate([rows for rows, _, _ in group])
            group[:] = [(rows, group[0][1], pa.concat_arrays([tokens for _, _, tokens in group]))]
        return group[0][0], group[0][2]


def is_quoted(tokens: pa.StringArray) -> bool:
    """Whether all tokens are strings without escapes; told by their bytes, which is quicker than by patterns."""
    starts, ends, data = _places(tokens)
    if (
        (ends - starts < 2).any()
        or not (data[starts] == _QUOTE).all()
        or not (data[ends - 1] == _QUOTE).all()
    ):
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
    return (
        starts.astype(np.int64),
        ends.astype(np.int64),
        np.frombuffer(tokens.buffers()[2] or b"", dtype=np.uint8),
    )
