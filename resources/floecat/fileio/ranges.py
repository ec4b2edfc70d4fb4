"""Parts of files that are read together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

__all__ = ["LARGEST_GAP", "check_range", "read_merged"]

LARGEST_GAP: Final = 1024 * 1024
"""Bytes between two ranges that are rather read along than spared by another request."""


def check_range(offset: int, length: int) -> None:
    """Refuses what is no range of a file.

    Raises:
        ValueError: offset or length is negative.
    """
    if offset < 0 or length < 0:
        raise ValueError("A range of a file has no negative offset and no negative length")


def read_merged(ranges: Sequence[tuple[int, int]], read: Callable[[int, int], bytes]) -> list[bytes]:
    """Reads ranges of one file, those that lie close to each other in one go.

    Args:
        ranges: offsets and lengths, in any order; they may overlap.
        read: reads one range; gives fewer bytes if the file ends before.

    Returns:
        The bytes of each range, in the order of `ranges`.
    """
    parts = [b""] * len(ranges)
    for span_offset, span_end, members in _spans(ranges):
        data = read(span_offset, span_end - span_offset)
        for member in members:
            start = ranges[member][0] - span_offset
            parts[member] = data[start : start + ranges[member][1]]
    return parts


def _spans(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int, list[int]]]:
    spans: list[tuple[int, int, list[int]]] = []
    for member in sorted(range(len(ranges)), key=ranges.__getitem__):
        offset, length = ranges[member]
        check_range(offset, length)
        if length == 0:
            continue
        if spans and offset - spans[-1][1] <= LARGEST_GAP:
            start, end, members = spans[-1]
            spans[-1] = (start, max(end, offset + length), [*members, member])
        else:
            spans.append((offset, offset + length, [member]))
    return spans
