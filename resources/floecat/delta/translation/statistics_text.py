"""Values from many small JSON documents of the same kind: the statistics texts of files.

Values go into arrays at once, not into Python objects. Documents of one layout are read together, see
`floecat.delta.translation.statistics_layout`; others one by one, by a parser.

`pyarrow.json` with a schema would be less code, and a quarter slower. Files per second of processor time for
statistics of 100 columns of longs, on a busy machine of two cores (means of three and four runs, in turns):

| texts read by | reading alone | first materialisation of 30,000 files |
|---|---|---|
| this module | 35,300 | 9,200 |
| `pyarrow.json`, blocks of 1 MiB | 16,800 | 6,900 |
| `pyarrow.json`, blocks of 16 MiB | 19,600 | 6,900 |

It fails a whole block for one value of another type, which then needs a second pass; that is not measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from floecat.delta.translation.statistics_layout import (
    Layout,
    Match,
    Path,
    TextBatch,
    TokenCollector,
    learn_layout,
)
from floecat.delta.translation.statistics_numbers import parse_longs

__all__ = ["DocumentReader", "DocumentValues"]

_Ints: TypeAlias = npt.NDArray[np.int64]

# What is made of a batch of this size stays in the processor's cache.
_BATCH_BYTES = 1 << 18
_BATCH_ROWS = 4096

# A table has few layouts, or nearly as many as files. Beyond these limits parsing is cheaper.
_MOST_LAYOUTS = 16
_FEW_ROWS = 16
_MOST_FAILURES = 4


@dataclass(frozen=True)
class DocumentValues:
    """The values of n documents.

    Attributes:
        longs: whole numbers, shape (paths, n); arbitrary where `is_long` is false.
        is_long: where there is one, same shape.
        tokens: the values of the other paths.
    """

    longs: _Ints
    is_long: npt.NDArray[np.bool_]
    tokens: TokenCollector


@dataclass(frozen=True)
class _Wanted:
    """The keys of a layout to read, in order of the text, and the slots for their values."""

    layout: Layout
    long_keys: _Ints
    long_slots: _Ints
    token_keys: _Ints
    token_slots: _Ints


class DocumentReader:
    """Reads values at given paths."""

    def __init__(self, longs: Sequence[Path], tokens: Sequence[Path]) -> None:
        """Remembers the layouts that it finds.

        Args:
            longs: paths of whole numbers of 64 bits; other values count as absent.
            tokens: paths of other values.
        """
        self._longs = {path: slot for slot, path in enumerate(longs)}
        self._tokens = {path: slot for slot, path in enumerate(tokens)}
        self._known: list[_Wanted] = []
        self._parser = _DocumentParser(longs, tokens)

    def read(self, texts: pa.StringArray) -> DocumentValues:
        """Reads documents.

        Args:
            texts: the documents, none of them null.
        """
        count = len(texts)
        values = DocumentValues(
            longs=np.zeros((len(self._longs), count), dtype=np.int64),
            is_long=np.zeros((len(self._longs), count), dtype=bool),
            tokens=TokenCollector(count),
        )
        average = max(1, (texts.nbytes // count) if count else 1)
        step = max(1, min(_BATCH_ROWS, _BATCH_BYTES // average))
        for start in range(0, count, step):
            batch = TextBatch(texts.slice(start, step))
            rest = self._read_alike(batch, start, values)
            if len(rest):
                rows = rest + start
                parsed = self._parser.parse([batch.text(row) for row in rest])
                values.longs[:, rows], values.is_long[:, rows] = parsed.longs, parsed.is_long
                values.tokens.add(rows, np.arange(len(self._tokens)), parsed.tokens)
        return values

    def _read_alike(self, batch: TextBatch, start: int, values: DocumentValues) -> _Ints:
        """Reads the texts of a batch that share a layout, and returns the others."""
        rest = np.arange(len(batch.starts))
        failures = tried = 0
        while len(rest) and failures < _MOST_FAILURES:
            if tried == len(self._known) and not self._learn(batch.text(rest[0])):
                break
            wanted = self._known[tried]
            match = batch.match(wanted.layout, rest)
            tried += 1
            failures += len(match.rows) < _FEW_ROWS
            if not len(match.rows):
                continue
            rows = match.rows + start
            _store_longs(batch, match, wanted, rows, values)
            if len(wanted.token_keys):
                values.tokens.add(rows, wanted.token_slots, batch.cut(match, wanted.token_keys))
            rest = rest[~np.isin(rest, match.rows)] if len(match.rows) < len(rest) else rest[:0]
        return rest

    def _learn(self, text: bytes) -> bool:
        if len(self._known) >= _MOST_LAYOUTS or (layout := learn_layout(text)) is None:
            return False
        # A repeated key has its last value, as with parsers.
        keys = {path: key for key, path in enumerate(layout.paths) if layout.is_value[key]}
        self._known.append(_Wanted(layout, *_places(self._longs, keys), *_places(self._tokens, keys)))
        return True


def _places(slots: Mapping[Path, int], keys: Mapping[Path, int]) -> tuple[_Ints, _Ints]:
    found = sorted((keys[path], slot) for path, slot in slots.items() if path in keys)
    places: _Ints = np.array(found, dtype=np.int64).reshape(-1, 2)
    return places[:, 0], places[:, 1]


def _store_longs(
    batch: TextBatch, match: Match, wanted: _Wanted, rows: _Ints, values: DocumentValues
) -> None:
    if not len(wanted.long_keys):
        return
    starts, ends = match.starts[:, wanted.long_keys], match.ends[:, wanted.long_keys]
    longs, is_long = parse_longs(batch.data, starts, ends)
    # Consecutive rows are stored as a block, which is much cheaper.
    is_block = rows[-1] - rows[0] + 1 == len(rows)
    columns = slice(rows[0], rows[-1] + 1) if is_block else rows[None, :]
    slots = wanted.long_slots if is_block else wanted.long_slots[:, None]
    values.longs[slots, columns] = longs.T
    values.is_long[slots, columns] = is_long.T


_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class _ParsedDocuments:
    """The values of n documents.

    Attributes:
        longs: whole numbers, shape (paths, n); arbitrary where `is_long` is false.
        is_long: where there is one, same shape.
        tokens: the values of the other paths as they are in the documents, strings in quotes; path by path,
            shape (paths * n,).
    """

    longs: npt.NDArray[np.int64]
    is_long: npt.NDArray[np.bool_]
    tokens: pa.StringArray


class _Number(str):
    """A number with a point or an exponent, as it is in the document."""

    __slots__ = ()


class _Paths:
    """Paths, grouped by the object that holds their values."""

    def __init__(self, paths: Sequence[Path]) -> None:
        slots: dict[Path, list[int]] = {}
        for slot, path in enumerate(paths):
            slots.setdefault(path[:-1], []).append(slot)
        self._names = {parent: [paths[slot][-1] for slot in group] for parent, group in slots.items()}
        self.order = np.argsort([slot for group in slots.values() for slot in group]).astype(np.int64)

    def values(self, objects: dict[Path, object]) -> list[object]:
        """The values of one document; None where missing.

        Args:
            objects: objects of the document by path, at least the root at the empty path.
        """
        found: list[object] = []
        for parent, names in self._names.items():
            owner = _find(objects, parent)
            found += map(owner.get, names) if isinstance(owner, dict) else [None] * len(names)
        return found


class _DocumentParser:
    """Reads the same values one document at a time."""

    def __init__(self, longs: Sequence[Path], tokens: Sequence[Path]) -> None:
        self._longs = _Paths(longs)
        self._tokens = _Paths(tokens)
        self._decoder = msgspec.json.Decoder(dict[str, object], float_hook=_Number)

    def parse(self, texts: Sequence[bytes]) -> _ParsedDocuments:
        """Reads documents; a text that is not a JSON object has no values."""
        longs: list[int | None] = []
        tokens: list[str | None] = []
        for text in texts:
            try:
                document = self._decoder.decode(text)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                document = {}
            objects: dict[Path, object] = {(): document}
            longs += [value if type(value) is int else None for value in self._longs.values(objects)]
            tokens += [_token(value) for value in self._tokens.values(objects)]
        numbers = _as_longs(longs)
        shape = (len(texts), -1)
        return _ParsedDocuments(
            longs=numbers.fill_null(0).to_numpy().reshape(shape)[:, self._longs.order].T,
            is_long=numbers.is_valid().to_numpy(zero_copy_only=False).reshape(shape)[:, self._longs.order].T,
            tokens=pa.array(
                np.array(tokens, dtype=object).reshape(shape)[:, self._tokens.order].T.ravel(), pa.string()
            ),
        )


def _find(objects: dict[Path, object], path: Path) -> object:
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
