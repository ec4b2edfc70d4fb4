"""Names as parameters of statements."""

from __future__ import annotations

__all__ = ["can_exist"]


def can_exist(name: str) -> bool:
    """Whether a row could have this name.

    No name has the character NUL. PostgreSQL refuses a parameter with one where SQLite finds nothing, so that
    neither is asked, and both answer the same.
    """
    return "\0" not in name
