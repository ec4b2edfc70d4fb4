"""Search in large bytes, by blocks between which other threads run.

Methods of `bytes` hold the interpreter until they end: tens of milliseconds for a file of 50 MB, and a
request that comes meanwhile waits for several of them.
"""

from __future__ import annotations

from typing import Final

__all__ = ["count_byte", "find_bytes", "is_blank"]

_BLOCK_BYTES: Final = 1 << 20


def find_bytes(data: bytes, wanted: bytes, start: int = 0) -> int:
    """The first place of some bytes from `start` on, -1 if they are not there."""
    for at in range(start, len(data), _BLOCK_BYTES):
        place = data.find(wanted, at, at + _BLOCK_BYTES + len(wanted) - 1)
        if place >= 0:
            return place
    return -1


def count_byte(data: bytes, wanted: bytes, end: int | None = None) -> int:
    """The number of times that one byte is there before `end`."""
    end = len(data) if end is None else end
    return sum(data.count(wanted, at, min(at + _BLOCK_BYTES, end)) for at in range(0, end, _BLOCK_BYTES))


def is_blank(data: bytes) -> bool:
    """Whether there is nothing but blanks and line ends."""
    return all(data[at : at + _BLOCK_BYTES].isspace() for at in range(0, len(data), _BLOCK_BYTES))
