"""Reads JSON documents one by one, whatever they look like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["DocumentParser", "ParsedDocuments"]

_Path: TypeAlias = tuple[str, ...]

_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class ParsedDocuments:
    """The values of n documents.

    Attributes:
        longs: whole numbers, shape (paths, n); arbitrary where there is none.
        is_long: where there is one, likewise.
        tokens: the values of the other paths as they stand in the documents, strings in quotes; path by
            path, shape (paths * n,).
        is_document: whether the text is a document at all, shape (n,).
    """

    longs: npt.NDArray[np.int64]
    is_long: npt.NDArray[np.bool_]
    tokens: pa.StringArray
    is_document: npt.NDArray[np.bool_]


class _Number(str):
    """A number with a point or an exponent, as it stands in the document."""

    __slots__ = ()


class _Paths:
    """Paths, by the object that their values lie in."""

    def __init__(self, paths: Sequence[_Path]) -> None:
        slots: dict[_Path, list[int]] = {}
        for slot, path in enumerate(paths):
            slots.setdefault(path[:-1], []).append(slot)
        self._names = {parent: [paths[slot][-1] for slot in group] for parent, group in slots.items()}
        self.order = np.argsort([slot for group in slots.values() for slot in group]).astype(np.int64)

    def values(self, objects: dict[_Path, object]) -> list[object]:
        """The values of one document; None for what is not there.

        Args:
            objects: objects in the document that were found already, that of the empty path among them.
        """
        found: list[object] = []
        for parent, names in self._names.items():
            owner = _find(objects, parent)
            found += map(owner.get, names) if isinstance(owner, dict) else [None] * len(names)
        return found


class DocumentParser:
    """Reads values at given paths."""

    def __init__(self, longs: Sequence[_Path], tokens: Sequence[_Path]) -> None:
        """Takes the paths.

        Args:
            longs: paths of whole numbers of 64 bits.
            tokens: paths of others.
        """
        self._longs = _Paths(longs)
        self._tokens = _Paths(tokens)
        self._decoder = msgspec.json.Decoder(dict[str, object], float_hook=_Number)

    def parse(self, texts: Sequence[bytes]) -> ParsedDocuments:
        """Reads documents; a text that is none has no values."""
        is_document = np.ones(len(texts), dtype=bool)
        longs: list[int | None] = []
        tokens: list[str | None] = []
        for row, text in enumerate(texts):
            try:
                document = self._decoder.decode(text)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                document = {}
                is_document[row] = False
            objects: dict[_Path, object] = {(): document}
            longs += [value if type(value) is int else None for value in self._longs.values(objects)]
            tokens += [_token(value) for value in self._tokens.values(objects)]
        numbers = _as_longs(longs)
        shape = (len(texts), -1)
        return ParsedDocuments(
            longs=numbers.fill_null(0).to_numpy().reshape(shape)[:, self._longs.order].T,
            is_long=numbers.is_valid().to_numpy(zero_copy_only=False).reshape(shape)[:, self._longs.order].T,
            tokens=pa.array(
                np.array(tokens, dtype=object).reshape(shape)[:, self._tokens.order].T.ravel(), pa.string()
            ),
            is_document=is_document,
        )


def _find(objects: dict[_Path, object], path: _Path) -> object:
    if path not in objects:
        owner = _find(objects, path[:-1])
        objects[path] = owner.get(path[-1]) if isinstance(owner, dict) else None
    return objects[path]


def _as_longs(values: Sequence[int | None]) -> pa.Int64Array:
    try:
        return pa.array(values, pa.int64())
    except (OverflowError, pa.ArrowInvalid):
        fitting = [
            value if value is not None and _SMALLEST <= value <= _LARGEST else None for value in values
        ]
        return pa.array(fitting, pa.int64())


def _token(value: object) -> str | None:
    if isinstance(value, _Number):
        return value
    if isinstance(value, bool | str):
        return msgspec.json.encode(value).decode()
    return str(value) if isinstance(value, int) else None
