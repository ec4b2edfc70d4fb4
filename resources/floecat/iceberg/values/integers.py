"""Whole numbers that properties hold as text."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["int32_of"]

_DIGITS: Final = re.compile(r"[+-]?0*([0-9]{1,10})")


def int32_of(text: str) -> int | None:
    """What a property that is a Java `int` says: ASCII digits, with a sign or without one, and nothing else.

    Returns:
        None for anything else, and for what a Java `int` does not hold.
    """
    match = _DIGITS.fullmatch(text)
    if match is None:
        return None
    value = -int(match[1]) if text.startswith("-") else int(match[1])
    return value if -(2**31) <= value < 2**31 else None
