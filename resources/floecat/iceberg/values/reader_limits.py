"""Limits of the JSON parser that the reference implementation reads documents with.

They hold for every field, those included that nobody knows: a document with one such number cannot be read
at all.
"""

from __future__ import annotations

import re

from floecat.errors import IllegalArgumentError

__all__ = ["check_numbers"]

_MAX_NUMBER_LENGTH = 1000

_IN_NUMBERS = b"+-.0123456789Ee"
_DIGITS_ONLY = bytes(ord("0") if character in _IN_NUMBERS else ord(" ") for character in range(256))
_TOO_LONG = b"0" * (_MAX_NUMBER_LENGTH + 1)
_STRING_OR_NUMBER = re.compile(rb'"(?:[^"\\]|\\.)*+"|[+\-.0-9Ee]++', re.DOTALL)


def check_numbers(data: bytes, what: str) -> None:
    """Refuses JSON that holds a number of more than 1,000 characters.

    Args:
        data: valid JSON. It is looked at as a whole once, and closer only if it has such a run of digits.
        what: how a message calls it, e.g. "snapshot".

    Raises:
        IllegalArgumentError: there is one.
    """
    if _TOO_LONG not in data.translate(_DIGITS_ONLY):
        return
    for match in _STRING_OR_NUMBER.finditer(data):
        if match[0][:1] != b'"' and len(match[0]) > _MAX_NUMBER_LENGTH:
            raise IllegalArgumentError(
                f"Invalid {what}: a number has more than {_MAX_NUMBER_LENGTH} characters"
            )
