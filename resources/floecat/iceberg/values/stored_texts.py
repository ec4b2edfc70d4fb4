"""Texts of a metadata document that the catalog also keeps by themselves, outside the document."""

from __future__ import annotations

from typing import Final

from floecat.errors import IllegalArgumentError

__all__ = ["LONGEST_KEY", "check_stored_text"]

LONGEST_KEY: Final = 1024
"""UTF-8 bytes of a text that things are found by. An index entry of PostgreSQL takes some 2,700."""


def check_stored_text(text: str | None, what: str, max_bytes: int | None = LONGEST_KEY) -> None:
    """Refuses a text that not every store can keep.

    Args:
        text: the text; None is fine.
        what: how a message calls it.
        max_bytes: the longest one, in UTF-8 bytes; None for any.

    Raises:
        IllegalArgumentError: it holds the character NUL, or is too long.
    """
    if text is None:
        return
    if "\0" in text:
        raise IllegalArgumentError(f"Invalid {what}: holds the character NUL")
    if max_bytes is not None and len(text.encode()) > max_bytes:
        raise IllegalArgumentError(f"Invalid {what}: longer than {max_bytes} bytes")
