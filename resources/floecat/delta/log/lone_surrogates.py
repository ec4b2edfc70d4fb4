"""Halves of UTF-16 pairs in JSON: `\ud800` without its other half.

JSON may escape such a half, and parsers in Java and Python take it for text. No UTF-8 holds it, so that other
parsers refuse the whole line, even where nobody reads the member that has it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["without_lone_surrogates"]

_BLOCK_BYTES: Final = 1 << 20
_ESCAPE: Final = 6
"""Bytes of an escape with `u`."""

_BACKSLASH, _U, _D = b"\\ud"
_LOWER: Final = 0x20
_FIRST, _SECOND = 1, 2
_HALVES: Final = np.zeros(256, np.uint8)
_HALVES[list(b"89abAB")] = _FIRST
_HALVES[list(b"cdefCDEF")] = _SECOND


def without_lone_surrogates(line: bytes) -> bytes:
    r"""JSON of the same length with `\ufffd` in the place of each half, and everything else as it is."""
    if b"\0" in line:
        return line
    # where two backslashes are none, each one begins an escape
    text = bytearray(line.replace(rb"\\", b"\0\0") + bytes(2 * _ESCAPE))
    data = np.frombuffer(text, np.uint8)
    for start in range(0, len(line), _BLOCK_BYTES):
        at = start + np.flatnonzero(data[start : min(start + _BLOCK_BYTES, len(line))] == _BACKSLASH)
        halves = _half(data, at)
        is_lone = ((halves == _FIRST) & (_half(data, at + _ESCAPE) != _SECOND)) | (
            (halves == _SECOND) & (_half(data, at - _ESCAPE) != _FIRST)
        )
        for place, letter in enumerate(b"fffd", start=2):
            data[at[is_lone] + place] = letter
    return bytes(text[: len(line)]).replace(b"\0\0", rb"\\")


def _half(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """The half that an escape is, 0 for neither. Before the first byte are the zeros at the end."""
    is_surrogate = (data[at] == _BACKSLASH) & (data[at + 1] == _U) & (data[at + 2] | _LOWER == _D)
    found: npt.NDArray[np.uint8] = np.where(is_surrogate, _HALVES[data[at + 3]], 0)
    return found
