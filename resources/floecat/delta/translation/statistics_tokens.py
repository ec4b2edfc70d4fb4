"""Values of JSON documents as they stand there, on their way from rows to columns."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["TokenCollector"]

_Ints: TypeAlias = npt.NDArray[np.int64]


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
