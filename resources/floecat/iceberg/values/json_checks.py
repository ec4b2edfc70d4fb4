"""Checks of JSON that parsers pass over: keys that an object has twice, and nesting."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from floecat.errors import IllegalArgumentError
from floecat.iceberg.values.bounds import document_bounds
from floecat.iceberg.values.json_keys import has_repeated_keys

__all__ = ["check_json", "has_keys", "is_nested_deeper"]

_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_SMALL_BYTES: Final = 64 << 10
_REPEATED: Final = "an object has a key more than once"
_BLOCK_BYTES: Final = 4 << 20
_NESTING_BLOCK_BYTES: Final = 256 << 10
"""Read without a pause in which other threads may run."""

_COLON, _QUOTE, _SPACE, _OPEN = b':" ['
_BRACKETS: Final = bytes.maketrans(b"{}", b"[]")


def check_json(data: bytes) -> None:
    """Refuses JSON with an object that has a key twice, of which readers take either value, and deep nesting.

    Args:
        data: valid JSON.

    Raises:
        IllegalArgumentError: there is such an object, or it exceeds a bound of `floecat.limits`. The message
            quotes nothing.
    """
    most = document_bounds.limits.nesting  # the interpreter fails at about 900 levels
    if is_nested_deeper(data, most):
        raise IllegalArgumentError(f"nested too deeply: more than {most} levels (floecat.limits.nesting)")
    if len(data) <= _SMALL_BYTES:
        json.loads(data, object_pairs_hook=_check_once, parse_int=_skip, parse_float=_skip)
    elif has_repeated_keys(data):
        raise IllegalArgumentError(_REPEATED)


def is_nested_deeper(data: bytes, levels: int) -> bool:
    """Whether JSON has more than this many levels of arrays and objects."""
    if data.count(b"[") + data.count(b"{") <= levels:
        return False
    import numpy as np

    depth = 0
    for brackets in _brackets(data):
        depths = depth + np.cumsum(np.where(np.frombuffer(brackets, np.uint8) == _OPEN, 1, -1))
        if depths.max() > levels:
            return True
        depth = int(depths[-1])
    return False


def _brackets(data: bytes) -> Iterator[bytes]:
    """What opens and closes arrays and objects, all of it as that of arrays, by blocks."""
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
        brackets = b"".join(parts[inside::2]).translate(_BRACKETS, _NO_BRACKETS)
        inside = (inside + len(parts) - 1) % 2
        if brackets:
            yield brackets


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
