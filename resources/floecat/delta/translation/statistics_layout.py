"""Statistics texts of one layout, read all at once, and the values cut out of them.

A writer gives the statistics of all files of a table the same keys in the same order, as long as the
columns stay the same and none of them is all null. Such texts differ only in their values. A layout is what
they share: the segments of text before, between and after the values. Reading means comparing segments and
slicing what is between them: a few array operations for thousands of files, without a parser.

Other texts are left to a parser (`floecat.delta.translation.statistics_text`): other layouts, keys with
escapes, and values that are lists.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = [
    "LEAD",
    "Layout",
    "Match",
    "Path",
    "TextBatch",
    "TokenCollector",
    "is_plain_number",
    "is_quoted",
    "learn_layout",
    "window",
]

LEAD: Final = 32
"""Number of bytes required before the first and after the last number."""

Path: TypeAlias = tuple[str, ...]
"""Keys from the root of a document to a value, e.g. `("minValues", "address", "city")`."""

_Ints: TypeAlias = npt.NDArray[np.int64]
_Words: TypeAlias = npt.NDArray[np.uint64]

# What one comparison covers of a segment, in bytes and in words of 8 bytes.
_WINDOW = 16
_WINDOW_WORDS = _WINDOW // 8

_MOST_BYTES = 1 << 24
"""A layout keeps all segments in the length of the longest one."""

_SEGMENT = re.compile(rb'[\s{},]*"([^"\\]*)":\s*')
_VALUE = re.compile(rb'"[^"\\]*"|[^\s{}\[\]",:]+')
_TAIL = re.compile(rb"[\s}]+")

_QUOTE, _BACKSLASH = ord('"'), ord("\\")
_IS_PLAIN = np.isin(np.arange(256), list(b"0123456789.-"))


@dataclass(frozen=True)
class Layout:
    """The common part of texts.

    Attributes:
        paths: of each key, in order of the text, including keys whose value is an object.
        is_value: of each key, whether its value is not an object.
        gaps: of each key, bytes of white space between the colon and the value.
        segments: length of the text before each value and after the last one, keys included, in bytes.
        windows: the segments from their ends, 16 bytes at a time, as words: (windows, segments, 2).
        masks: which bits of them belong to the segment, same shape.
    """

    paths: tuple[Path, ...]
    is_value: npt.NDArray[np.bool_]
    gaps: _Ints
    segments: _Ints
    windows: _Words
    masks: _Words


@dataclass(frozen=True)
class Match:
    """Texts of a batch that have a layout.

    Attributes:
        rows: their numbers, ascending; shape (n,).
        starts: where in the batch the value of each key starts, shape (n, keys).
        ends: where it ends, same shape.
    """

    rows: _Ints
    starts: _Ints
    ends: _Ints


def learn_layout(text: bytes) -> Layout | None:
    """Finds the layout of a text.

    Returns:
        None if it has none, because of a list, an escape or an error.
    """
    try:
        # Validates the text as a whole, and with it all texts with the same segments.
        msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    paths: list[Path] = []
    segments: list[bytes] = []
    is_value: list[bool] = []
    gaps: list[int] = []
    parent: Path = ()
    depth = position = 0
    while found := _SEGMENT.match(text, position):
        segment = found[0]
        before = text[position : found.start(1)]
        depth += before.count(b"{") - before.count(b"}")
        path = (*parent[: depth - 1], found[1].decode())
        position = found.end()
        value = _VALUE.match(text, position)
        if value is None and text[position : position + 1] != b"{":
            return None
        position = found.end() if value is None else value.end()
        parent = path
        paths.append(path)
        segments.append(segment)
        is_value.append(value is not None)
        gaps.append(len(segment) - len(segment.rstrip()))
    tail = _TAIL.fullmatch(text, position)
    if tail is None or not paths:
        return None
    segments.append(tail[0])
    if len(segments) * max(map(len, segments)) > _MOST_BYTES:
        return None
    windows, masks = _windows(segments)
    return Layout(
        paths=tuple(paths),
        is_value=np.array(is_value),
        gaps=np.array(gaps, dtype=np.int64),
        segments=np.array([len(segment) for segment in segments], dtype=np.int64),
        windows=windows,
        masks=masks,
    )


def _windows(segments: list[bytes]) -> tuple[_Words, _Words]:
    count = -(-max(map(len, segments)) // _WINDOW)
    width = count * _WINDOW
    text = b"".join(segment.rjust(width, b"\0") for segment in segments)
    mask = b"".join((b"\xff" * len(segment)).rjust(width, b"\0") for segment in segments)
    shape = (len(segments), count, _WINDOW_WORDS)
    # Windows are ordered from the end of a segment.
    arrays = [np.frombuffer(part, dtype=np.uint64).reshape(shape)[:, ::-1] for part in (text, mask)]
    return np.ascontiguousarray(arrays[0].swapaxes(0, 1)), np.ascontiguousarray(arrays[1].swapaxes(0, 1))


class TextBatch:
    """Some texts, laid out for comparison.

    Attributes:
        data: the texts one after the other, with `LEAD` bytes before and behind.
        starts: where in it each text starts, shape (n,).
        ends: where it ends, same shape.
        key_counts: how many keys each has, as far as can be told without parsing, likewise.
    """

    def __init__(self, texts: pa.StringArray) -> None:
        """Takes texts, none of them null, of less than 2 GiB in all."""
        offsets = np.frombuffer(texts.buffers()[1], dtype=np.int32)
        offsets = offsets[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
        size = int(offsets[-1] - offsets[0])
        source = np.frombuffer(texts.buffers()[2] or b"", dtype=np.uint8)
        self.data = np.zeros(size + 2 * LEAD, dtype=np.uint8)
        self.data[LEAD : LEAD + size] = source[offsets[0] : offsets[-1]]
        self.starts: _Ints = offsets[:-1] - offsets[0] + LEAD
        self.ends: _Ints = offsets[1:] - offsets[0] + LEAD
        # In JSON a quote before a colon ends a key. An escaped quote looks the same: no layout then.
        is_key_end = self.data == ord('"')
        is_key_end[:-1] &= self.data[1:] == ord(":")
        self._key_ends: _Ints = np.flatnonzero(is_key_end)
        self._first_keys: _Ints = np.searchsorted(self._key_ends, self.starts)
        self.key_counts: _Ints = np.searchsorted(self._key_ends, self.ends) - self._first_keys

    def text(self, row: int) -> bytes:
        """The text of a row."""
        return self.data[self.starts[row] : self.ends[row]].tobytes()

    def match(self, layout: Layout, rows: _Ints) -> Match:
        """Finds the texts that have a layout.

        Args:
            rows: where to look, ascending.
        """
        count = len(layout.paths)
        rows = rows[self.key_counts[rows] == count]
        # The ends of all segments: the starts of all values, and the end of the text.
        segment_ends = np.empty((len(rows), count + 1), dtype=np.int64)
        np.add(self._keys_of(rows, count), 2 + layout.gaps, out=segment_ends[:, :count])
        segment_ends[:, count] = self.ends[rows]
        segment_starts = segment_ends - layout.segments
        lengths = segment_starts[:, 1:] - segment_ends[:, :-1]
        fits = segment_starts[:, 0] == self.starts[rows]
        fits &= np.where(layout.is_value, lengths > 0, lengths == 0).all(axis=1)
        if not fits.all():
            rows, segment_ends, segment_starts = rows[fits], segment_ends[fits], segment_starts[fits]
        is_same = self._is_same(layout, segment_ends)
        starts, ends = segment_ends[:, :-1], segment_starts[:, 1:]
        if is_same.all():
            return Match(rows, starts, ends)
        return Match(rows[is_same], starts[is_same], ends[is_same])

    def cut(self, match: Match, keys: _Ints) -> pa.StringArray:
        """Extracts the values of some keys.

        Args:
            match: the texts.
            keys: which keys, ascending, shape (m,).

        Returns:
            The values as they are in the text, strings in quotes; key by key, shape (m * n,).
        """
        # An array whose items are the values and the texts between them in turn, without a copy.
        offsets = np.stack([match.starts[:, keys], match.ends[:, keys]], axis=-1)
        offsets = offsets.astype(np.int32, order="C")
        count = offsets.size - 1
        parts = pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(self.data))
        by_key = np.arange(0, count, 2).reshape(-1, len(keys)).T
        return parts.take(pa.array(by_key.ravel()))

    def _keys_of(self, rows: _Ints, count: int) -> _Ints:
        if len(rows) == len(self.starts):
            return self._key_ends.reshape(-1, count)
        found: _Ints = self._key_ends[self._first_keys[rows][:, None] + np.arange(count)]
        return found

    def _is_same(self, layout: Layout, segment_ends: _Ints) -> npt.NDArray[np.bool_]:
        is_same = np.ones(len(segment_ends), dtype=bool)
        for number, (words, masks) in enumerate(zip(layout.windows, layout.masks, strict=True)):
            columns: Any = np.flatnonzero(layout.segments > number * _WINDOW)
            if len(columns) == len(layout.segments):
                columns = slice(None)
            # A window may begin before the segment, even in the lead: that part is masked.
            found = window(self.data, segment_ends[:, columns] - (number + 1) * _WINDOW, _WINDOW)
            found ^= words[columns]
            found &= masks[columns]
            is_same &= ~found.any(axis=(1, 2))
        return is_same


def window(data: npt.NDArray[np.uint8], places: _Ints, width: int) -> _Words:
    """Bytes of a text at many places, as words of 8 bytes.

    Args:
        data: the text.
        places: where each window starts, of any shape. Negative places count from the end.
        width: bytes of a window, a multiple of 8.

    Returns:
        The words, of shape (*places.shape, width / 8).
    """
    # A type of opaque bytes needs no alignment, so that a window may start anywhere.
    windows = np.ndarray((len(data) - width + 1,), dtype=f"V{width}", buffer=data, strides=(1,))
    # The result is laid out as the places are.
    found = windows[np.ascontiguousarray(places)]
    return found.view("<u8").reshape(*places.shape, width // 8)


class TokenCollector:
    """Collects tokens of `count` documents, some documents at a time, and returns those of one path."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._pieces: list[tuple[_Ints, dict[int, int], pa.StringArray]] = []

    def add(self, rows: _Ints, slots: _Ints, tokens: pa.StringArray) -> None:
        """Adds tokens.

        Args:
            rows: the documents, shape (n,).
            slots: the paths, shape (m,).
            tokens: strings in quotes, null where missing; path by path, shape (m * n,).
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
    """Whether all tokens are strings without escapes, by comparing bytes, which is faster than a regex."""
    starts, ends, data = _places(tokens)
    if (ends - starts < 2).any() or (data[starts] != _QUOTE).any() or (data[ends - 1] != _QUOTE).any():
        return False
    text = data[starts[0] : ends[-1]] if len(starts) else data[:0]
    return np.count_nonzero(text == _QUOTE) == 2 * len(starts) and not (text == _BACKSLASH).any()


def is_plain_number(tokens: pa.StringArray, most_bytes: int) -> bool:
    """Whether all tokens have only digits, signs and points, and at most `most_bytes` bytes."""
    starts, ends, data = _places(tokens)
    if not len(starts):
        return True
    return bool((ends - starts).max() <= most_bytes and _IS_PLAIN[data[starts[0] : ends[-1]]].all())


def _places(tokens: pa.StringArray) -> tuple[_Ints, _Ints, npt.NDArray[np.uint8]]:
    """The starts and the ends of tokens that are not null, and their data."""
    offsets = np.frombuffer(tokens.buffers()[1] or bytes(4), dtype=np.int32)
    offsets = offsets[tokens.offset : tokens.offset + len(tokens) + 1]
    starts, ends = offsets[:-1], offsets[1:]
    if tokens.null_count:
        is_valid = tokens.is_valid().to_numpy(zero_copy_only=False)
        starts, ends = starts[is_valid], ends[is_valid]
    data = np.frombuffer(tokens.buffers()[2] or b"", dtype=np.uint8)
    return starts.astype(np.int64), ends.astype(np.int64), data
