"""Folders that a search leaves out, by patterns of their paths."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import translate
from typing import TypeAlias

from floecat.errors import BadRequestError

__all__ = ["Exclusions"]

_MOST_PATTERNS = 100
_ANY_FOLDERS = "**"
_CONTROL = re.compile("[\x00-\x1f\x7f]")

_Level: TypeAlias = re.Pattern[str] | None
"""What the name of a folder must match; `None` stands for any number of folders."""


class Exclusions:
    """Patterns of paths below the root of a search.

    `*`, `?` and `[…]` stand for characters within the name of one folder, `**` for any number of folders.
    Capital and small letters differ.
    """

    def __init__(self, text: str) -> None:
        """Takes patterns that are separated by commas; an empty text excludes nothing.

        Raises:
            BadRequestError: a pattern could never match a folder below the root, or there are too many.
        """
        parts = text.split(",") if text.strip() else []
        if len(parts) > _MOST_PATTERNS:
            raise BadRequestError(f"Invalid option exclude: more than {_MOST_PATTERNS} patterns")
        self._patterns = [_levels(part.strip()) for part in parts]

    def hold(self, path: Sequence[str]) -> bool:
        """Whether a folder is left out.

        Args:
            path: names of the folders from the root to this one, itself included.
        """
        return any(_matches(pattern, path) for pattern in self._patterns)


def _levels(pattern: str) -> list[_Level]:
    names = pattern.removesuffix("/").split("/")
    if not all(names):
        raise _invalid(pattern, "must be a path below the root, as staging/* or **/tmp")
    if any(name in (".", "..") for name in names):
        raise _invalid(pattern, "must not hold '.' or '..' as a folder")
    if any(_ANY_FOLDERS in name and name != _ANY_FOLDERS for name in names):
        raise _invalid(pattern, "'**' must stand between slashes")
    if _CONTROL.search(pattern):
        raise BadRequestError("Invalid option exclude: holds a control character")
    return [None if name == _ANY_FOLDERS else re.compile(translate(name)) for name in names]


def _matches(pattern: Sequence[_Level], path: Sequence[str]) -> bool:
    # how many folders of the path the levels so far may have taken
    taken = {0}
    for level in pattern:
        if level is None:
            taken = set(range(min(taken), len(path) + 1))
        else:
            taken = {count + 1 for count in taken if count < len(path) and level.match(path[count])}
        if not taken:
            return False
    return len(path) in taken


def _invalid(pattern: str, reason: str) -> BadRequestError:
    return BadRequestError(f"Invalid option exclude: {pattern[:80]!r} {reason}")
