"""Checks of JSON that parsers pass over: keys that an object has twice, nesting, and number of elements."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from floecat.errors import IllegalArgumentError
from floecat.iceberg.values.bounds import process_bounds
from floecat.iceberg.values.json_keys import has_repeated_keys
from floecat.iceberg.values.large_bytes import count_byte

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["check_elements", "check_json", "has_keys", "has_more_elements", "is_nested_deeper"]

_BRACKETS: Final = b"[]{}"
_SMALL_BYTES: Final = 64 << 10
_REPEATED: Final = "an object has a key more than once"
_IN_ALL: Final = 10
_DEEPEST: Final = 1000
"""The parser refuses more levels."""
_BLOCK_BYTES: Final = 4 << 20
_NESTING_BLOCK_BYTES: Final = 256 << 10
"""Read without a pause in which other threads may run."""

_COLON, _QUOTE, _SPACE, _OPEN, _CLOSE, _COMMA = b':" [],'
_AS_ARRAYS: Final = bytes.maketrans(b"{}", b"[]")


def check_json(data: bytes) -> None:
    """Refuses JSON with an object that has a key twice, of which readers take either value, and deep nesting.

    Args:
        data: valid JSON.

    Raises:
        IllegalArgumentError: there is such an object, or it exceeds a bound of `floecat.limits`. The message
            quotes nothing.
    """
    most = process_bounds.limits.nesting  # the interpreter fails at about 900 levels
    if is_nested_deeper(data, most):
        raise IllegalArgumentError(f"nested too deeply: more than {most} levels (floecat.limits.nesting)")
    if len(data) <= _SMALL_BYTES:
        _small_decoder.decode(data.decode(errors="surrogatepass"))
    elif has_repeated_keys(data):
        raise IllegalArgumentError(_REPEATED)


def is_nested_deeper(data: bytes, levels: int) -> bool:
    """Whether JSON has more than this many levels of arrays and objects."""
    if count_byte(data, b"[") + count_byte(data, b"{") <= levels:
        return False
    import numpy as np

    depth = 0
    for brackets in _marks(data, _BRACKETS):
        depths = depth + np.cumsum(np.where(np.frombuffer(brackets, np.uint8) == _OPEN, 1, -1))
        if depths.max() > levels:
            return True
        depth = int(depths[-1])
    return False


def check_elements(data: bytes) -> None:
    """Refuses JSON with too many elements, before it is decoded: that holds the interpreter.

    Args:
        data: JSON, valid or not.

    Raises:
        IllegalArgumentError: an array or object has more elements or keys than `floecat.limits.elements`, or
            all together have ten times as many.
    """
    most = process_bounds.limits.elements
    if has_more_elements(data, most, _IN_ALL * most):
        raise IllegalArgumentError(
            f"more than {most} elements in an array or object, or {_IN_ALL * most} in all"
            " (floecat.limits.elements)"
        )


def has_more_elements(data: bytes, of_one: int, in_all: int) -> bool:
    """Whether an array or object of JSON has more elements or keys, or all together have more commas.

    False if it is not valid.
    """
    if count_byte(data, b",") < of_one:
        return False
    import numpy as np

    # commas of the arrays that are open, outermost first; the first entry is for none
    commas: npt.NDArray[np.int64] = np.zeros(1, np.int64)
    for marks in _marks(data, _BRACKETS + b","):
        read = np.frombuffer(marks, np.uint8)
        depths = len(commas) - 1 + np.cumsum((read == _OPEN).astype(np.int64) - (read == _CLOSE))
        if depths.min() < 0 or depths.max() > _DEEPEST:
            return False
        kept = read != _CLOSE
        levels = np.concatenate([np.arange(len(commas)), depths[kept]])
        counts = np.concatenate([commas, read[kept] == _COMMA])
        opens = np.concatenate([np.ones(len(commas), np.bool_), read[kept] == _OPEN])
        # array by array
        order = np.argsort(levels, kind="stable")
        firsts = np.flatnonzero(opens[order])
        in_all -= int(np.count_nonzero(read == _COMMA))
        counts = np.add.reduceat(counts[order], firsts)
        if counts.max() >= of_one or in_all < 0:
            return True
        last = np.searchsorted(levels[order][firsts], np.arange(depths[-1] + 1), side="right") - 1
        commas = counts[last]
    return False


def _marks(data: bytes, wanted: bytes) -> Iterator[bytes]:
    """The wanted marks outside of strings, by blocks; braces as brackets."""
    others = bytes(set(range(256)) - set(wanted))
    inside, start = 0, 0
    while start < len(data):
        block = data[start : start + _NESTING_BLOCK_BYTES]
        if (len(block) - len(block.rstrip(b"\\"))) % 2:
            # what is escaped belongs to it
            block = data[start : start + len(block) + 1]
        start += len(block)
        if b"\\" in block:
            block = block.replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = block.split(b'"')
        marks = b"".join(parts[inside::2]).translate(_AS_ARRAYS, others)
        inside = (inside + len(parts) - 1) % 2
        if marks:
            yield marks


def has_keys(data: bytes, number: int) -> bool:
    """Whether JSON has exactly this many keys, counting one that an object has twice as two.

    One pass over the colons. False for other spellings too: blanks before a colon other than one space, and
    strings with a colon after a quote or a blank.
    """
    import numpy as np

    found = 0
    for start in range(0, len(data), _BLOCK_BYTES):
        block = np.frombuffer(data[max(start - 2, 0) : start + _BLOCK_BYTES], np.uint8)
        colons = np.flatnonzero(block == _COLON)
        colons = colons[colons >= min(start, 2)]
        before = block[colons - 1]
        blank = before <= _SPACE
        if (before[blank] != _SPACE).any() or (block[colons[blank] - 2] != _QUOTE).any():
            return False
        found += int(np.count_nonzero(before == _QUOTE)) + int(np.count_nonzero(blank))
    return found == number


def _skip(_: str) -> None:
    """Numbers are not made: one may have millions of digits."""


def _check_once(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise IllegalArgumentError(_REPEATED)


_small_decoder: Final = json.JSONDecoder(object_pairs_hook=_check_once, parse_int=_skip, parse_float=_skip)
