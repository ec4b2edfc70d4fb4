"""Suggestions for names that stand for nothing."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

__all__ = ["did_you_mean", "nearest"]

_MOST_SUGGESTED: Final = 3
_MOST_COMPARED: Final = 1000
"""A comparison takes some ten microseconds, and names come with requests."""


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The known name that is most like another, whatever their case; none if none is."""
    by_lower = {each.lower(): each for each in islice(known, _MOST_COMPARED)}
    return [by_lower[near] for near in difflib.get_close_matches(name.lower(), by_lower, n=1)]


def did_you_mean(near: Sequence[str]) -> str:
    """The end of a message: a question whether the user meant one of some names; empty without names."""
    return f"; did you mean {' or '.join(near[:_MOST_SUGGESTED])}?" if near else ""
