"""How names are written in URLs, in the store and in default locations.

Three encodings that must not be mixed up:

- a *segment* of a URL path: percent-encoding, with the ambiguity of a raw ``+`` (RFC 3986 keeps it, HTML
  forms and so Java's ``URLEncoder`` mean a space);
- the *physical name* of a namespace: reversible, one text per namespace, what the store keeps unique;
- a *safe path segment*: readable and one-way, for default locations.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final, NamedTuple
from urllib.parse import quote, unquote_to_bytes

from floecat.errors import BadRequestError
from floecat.identifiers.namespace import Namespace

__all__ = [
    "MAX_PHYSICAL_NAME_LENGTH",
    "SegmentReading",
    "decode_segment",
    "encode_segment",
    "parse_physical_name",
    "physical_name",
    "safe_path_segment",
]

MAX_PHYSICAL_NAME_LENGTH: Final = 2000
"""Longest physical name, in UTF-8 bytes: an index entry of PostgreSQL holds no more than about 2,700."""

MAX_SAFE_SEGMENT_LENGTH: Final = 64

_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_NOT_SAFE = re.compile(r"[^A-Za-z0-9._-]+")
# What is kept sorts after '.', so that a namespace is followed by what is in it. Hence also '-' is escaped.
_TO_ESCAPE = re.compile(r"[\x00-/:-@\[-^`{-\x7f]")
_ESCAPED = re.compile(r"~([0-9A-F]{2})")


class SegmentReading(NamedTuple):
    """What one segment of a URL path may mean."""

    literal: str
    """The name by RFC 3986: a raw ``+`` is a plus."""

    form: str | None
    """The name by HTML form encoding: a raw ``+`` is a space. None if there is no raw ``+``."""


def decode_segment(raw: str) -> SegmentReading:
    """Reads one percent-encoded segment. ``%2520`` is the text ``%20``: nothing is decoded twice.

    Args:
        raw: the segment as it came over the wire, ASCII.

    Raises:
        BadRequestError: it is not ASCII, has an incomplete percent sequence, or its bytes are not UTF-8.
    """
    if not raw.isascii():
        raise BadRequestError("Invalid path: characters outside ASCII must be percent-encoded")
    literal = _unquote(raw)
    return SegmentReading(literal, _unquote(raw.replace("+", " ")) if "+" in raw else None)


def _unquote(raw: str) -> str:
    if "%" not in raw:
        return raw
    if _BAD_ESCAPE.search(raw):
        raise BadRequestError("Invalid path: incomplete percent-encoding")
    try:
        return unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        raise BadRequestError("Invalid path: percent-encoded bytes are not UTF-8") from None


def encode_segment(name: str) -> str:
    """The name as one segment of a URL path: everything but unreserved characters is percent-encoded."""
    return quote(name, safe="")


def physical_name(namespace: Namespace) -> str:
    """The one text that stands for a namespace in the store.

    Levels are joined by ``.``; what is not an ASCII letter, digit, ``_`` or beyond ASCII is written ``~XX``.
    By code points a namespace sorts right before everything in it.

    Raises:
        BadRequestError: the text would be longer than `MAX_PHYSICAL_NAME_LENGTH`, or is not Unicode text.
    """
    text = ".".join([_TO_ESCAPE.sub(_escape, level) for level in namespace])
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise BadRequestError("Invalid namespace: not valid Unicode text") from None
    if size > MAX_PHYSICAL_NAME_LENGTH:
        raise BadRequestError("Invalid namespace: the name with all its levels is too long")
    return text


def parse_physical_name(text: str) -> Namespace:
    """The inverse of `physical_name`.

    Raises:
        BadRequestError: `physical_name` writes no such text.
    """
    namespace = tuple([_ESCAPED.sub(_unescape, level) for level in text.split(".")])
    if not all(namespace) or physical_name(namespace) != text:
        raise BadRequestError("Invalid physical name of a namespace")
    return namespace


def _escape(match: re.Match[str]) -> str:
    return f"~{ord(match[0]):02X}"


def _unescape(match: re.Match[str]) -> str:
    return chr(int(match[1], 16))


def safe_path_segment(name: str) -> str:
    """The name as a readable folder of a default location: ``[A-Za-z0-9._-]``, 1 to 64 characters.

    Different names may give the same segment. It starts with a letter or a digit, since engines take a
    leading ``_`` or ``.`` for a hidden file.
    """
    folded = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    segment = _NOT_SAFE.sub("_", folded).lstrip("._-")[:MAX_SAFE_SEGMENT_LENGTH].rstrip("._-")
    return segment or "unnamed"
