"""Limits on texts and numbers: what readers parse, what a property of type `int` holds, what stores keep."""

from __future__ import annotations

import re
from typing import Final

from floecat.errors import IllegalArgumentError

__all__ = [
    "check_numbers",
    "check_stored_text",
    "int32_of",
]

_MAX_NUMBER_LENGTH = 1000

_IN_NUMBERS = b"+-.0123456789Ee"
_DIGITS_ONLY = bytes(ord("0") if character in _IN_NUMBERS else ord(" ") for character in range(256))
_TOO_LONG = b"0" * (_MAX_NUMBER_LENGTH + 1)
_STRING_OR_NUMBER = re.compile(rb'"(?:[^"\\]|\\.)*+"|[+\-.0-9Ee]++', re.DOTALL)


def check_numbers(data: bytes, what: str) -> None:
    """Refuses JSON with a number of more than 1,000 characters.

    The JSON parser of the reference implementation cannot read such a document at all, whatever the field.

    Args:
        data: valid JSON. One fast pass looks for such a run of digits; only a match is examined further.
        what: the name of the value in messages, e.g. "snapshot".

    Raises:
        IllegalArgumentError: it has one.
    """
    if _TOO_LONG not in data.translate(_DIGITS_ONLY):
        return
    for match in _STRING_OR_NUMBER.finditer(data):
        if match[0][:1] != b'"' and len(match[0]) > _MAX_NUMBER_LENGTH:
            raise IllegalArgumentError(
                f"Invalid {what}: a number has more than {_MAX_NUMBER_LENGTH} characters"
            )


_DIGITS: Final = re.compile(r"[+-]?0*([0-9]{1,10})")


def int32_of(text: str) -> int | None:
    """The value of a property that is a Java `int`: ASCII digits with an optional sign, nothing else.

    Returns:
        None for any other text, and for values beyond 32 bits.
    """
    match = _DIGITS.fullmatch(text)
    if match is None:
        return None
    value = -int(match[1]) if text.startswith("-") else int(match[1])
    return value if -(2**31) <= value < 2**31 else None


_LONGEST_KEY: Final = 1024
"""Maximum UTF-8 bytes of a text that is indexed. An index entry of PostgreSQL holds about 2,700."""


def check_stored_text(text: str | None, what: str, max_bytes: int | None = _LONGEST_KEY) -> None:
    """Refuses a text that some stores cannot keep.

    Args:
        text: None is accepted.
        what: the name of the text in messages.
        max_bytes: maximum length in UTF-8 bytes; None for no limit.

    Raises:
        IllegalArgumentError: it holds the character NUL, or is too long.
    """
    if text is None:
        return
    if "\0" in text:
        raise IllegalArgumentError(f"Invalid {what}: holds the character NUL")
    if max_bytes is not None and len(text.encode()) > max_bytes:
        raise IllegalArgumentError(f"Invalid {what}: longer than {max_bytes} bytes")
