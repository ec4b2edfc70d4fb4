"""Encodings of names in URLs, in the store and in default locations.

Three encodings that must not be mixed up:

- a *segment* of a URL path: percent-encoding, with the ambiguity of a raw ``+`` (RFC 3986 keeps it, HTML
  forms and so Java's ``URLEncoder`` mean a space);
- the *physical name* of a namespace: one text per namespace, what the store keeps unique;
- a *safe path segment*: readable and one-way, for default locations.

A separator joins the levels of a namespace in a URL. Clients learn it from the property
``namespace-separator`` of ``/v1/config`` and use 0x1F without it, so a server takes both (Iceberg REST
specification, parameters `namespace` and `parent`).
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final, NamedTuple
from urllib.parse import quote, unquote_to_bytes

from floecat.errors import BadRequestError, SettingsError
from floecat.identifiers.namespace import Namespace

__all__ = [
    "MAX_PHYSICAL_NAME_LENGTH",
    "MEANS_SOMETHING_IN_URLS",
    "UNIT_SEPARATOR",
    "NamespaceSeparator",
    "SegmentReading",
    "decode_segment",
    "encode_segment",
    "physical_name",
    "safe_path_segment",
]

MAX_PHYSICAL_NAME_LENGTH: Final = 2000
"""Longest physical name, in UTF-8 bytes: an index entry of PostgreSQL holds no more than about 2,700."""

MAX_SAFE_SEGMENT_LENGTH: Final = 64

UNIT_SEPARATOR: Final = "\x1f"
"""The separator that every server takes."""

_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")

_NOT_SAFE = re.compile(r"[^A-Za-z0-9._-]+")

# What is kept sorts after '.', so that a namespace is followed by what is in it. Hence also '-' is escaped.
_TO_ESCAPE = re.compile(r"[\x00-/:-@\[-^`{-\x7f]")

_UNIT_SEPARATOR_IN_PATH = re.compile("%1f|\x1f", re.IGNORECASE)

MEANS_SOMETHING_IN_URLS: Final = "/\\?#%+&=, \"'"
"""Characters that no separator may be."""


class SegmentReading(NamedTuple):
    """The readings of one segment of a URL path."""

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


def safe_path_segment(name: str) -> str:
    """The name as a readable folder of a default location: ``[A-Za-z0-9._-]``, 1 to 64 characters.

    Different names may give the same segment. It starts with a letter or a digit, since engines take a
    leading ``_`` or ``.`` for a hidden file.
    """
    folded = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    segment = _NOT_SAFE.sub("_", folded).lstrip("._-")[:MAX_SAFE_SEGMENT_LENGTH].rstrip("._-")
    return segment or "unnamed"


class NamespaceSeparator:
    """Splits and joins namespaces by one separator, and always by 0x1F."""

    def __init__(self, separator: str = UNIT_SEPARATOR) -> None:
        """Takes the separator to advertise.

        Raises:
            SettingsError: it is not one character, or would be ambiguous in URLs or in names.
        """
        _check_separator(separator)
        self.separator: Final = separator
        self.config_value: Final = "".join(f"%{byte:02X}" for byte in separator.encode())
        """The value of ``namespace-separator``, URL-encoded as the specification wants."""
        self.reserved: Final = "".join(dict.fromkeys((separator, UNIT_SEPARATOR)))
        """Characters that no level may hold, since it could not be addressed."""
        self._in_path = re.compile(f"{self.config_value}|{re.escape(separator)}", re.IGNORECASE)

    def split_levels(self, raw: str) -> list[str]:
        """The levels in the ``{namespace}`` segment of a path, still encoded; some may be empty."""
        unit = _UNIT_SEPARATOR_IN_PATH
        return (unit if unit.search(raw) else self._in_path).split(raw)

    def split_path(self, raw: str) -> list[Namespace]:
        """The readings of the ``{namespace}`` segment of a path, most literal one first.

        Levels are decoded after the split. There are two readings if a raw ``+`` occurs: clients either mean
        a plus everywhere or a space everywhere.

        Args:
            raw: the segment as it came over the wire.

        Raises:
            BadRequestError: a level is empty or is not valid percent-encoded UTF-8.
        """
        readings = [decode_segment(level) for level in self.split_levels(raw)]
        candidates = [_namespace([reading.literal for reading in readings])]
        if any(reading.form is not None for reading in readings):
            candidates.append(_namespace([_form(reading) for reading in readings]))
        return candidates

    def split_parameter(self, value: str) -> Namespace:
        """Reads a namespace from a query parameter, as ``parent``.

        The whole value was encoded once, as queries are: a raw ``+`` is a space.

        Args:
            value: the value as it came over the wire.

        Returns:
            The levels; none if the value is empty, which is the same as no parameter. No namespace has an
            empty level, so a look-up of one finds nothing.

        Raises:
            BadRequestError: the value is not valid percent-encoded UTF-8.
        """
        text = decode_segment(value.replace("+", " ")).literal
        if not text:
            return ()
        return tuple(text.split(UNIT_SEPARATOR if UNIT_SEPARATOR in text else self.separator))

    def join_path(self, namespace: Namespace) -> str:
        """The namespace as one segment of a path: the inverse of `split_path`."""
        return self.config_value.join([encode_segment(level) for level in namespace])


def _check_separator(separator: str) -> None:
    if len(separator) != 1:
        raise SettingsError(_refusal(separator, "it must be exactly one character"))
    if separator in MEANS_SOMETHING_IN_URLS:
        raise SettingsError(_refusal(separator, "it conflicts with the parsing of URLs"))
    if separator.isalnum() or separator in "_-":
        raise SettingsError(_refusal(separator, "names are made of it"))
    if separator != UNIT_SEPARATOR and not separator.isprintable():
        raise SettingsError(_refusal(separator, "it cannot be printed"))


def _refusal(separator: str, reason: str) -> str:
    return f"Namespace separator {separator!r} is not allowed because {reason}. Try ':', ';' or '$'."


def _form(reading: SegmentReading) -> str:
    return reading.literal if reading.form is None else reading.form


def _namespace(levels: list[str]) -> Namespace:
    if not all(levels):
        raise BadRequestError("Invalid namespace: a level is empty")
    return tuple(levels)


def _unquote(raw: str) -> str:
    if "%" not in raw:
        return raw
    if _BAD_ESCAPE.search(raw):
        raise BadRequestError("Invalid path: incomplete percent-encoding")
    try:
        return unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        raise BadRequestError("Invalid path: percent-encoded bytes are not UTF-8") from None


def _escape(match: re.Match[str]) -> str:
    return f"~{ord(match[0]):02X}"
