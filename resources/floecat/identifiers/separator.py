"""The character that joins the levels of a namespace in a URL.

Clients learn it from the property ``namespace-separator`` of ``/v1/config`` and use 0x1F without it, so a
server takes both (Iceberg REST specification, parameters `namespace` and `parent`).
"""

from __future__ import annotations

import re
from typing import Final

from floecat.errors import BadRequestError, SettingsError
from floecat.identifiers.encoding import SegmentReading, decode_segment, encode_segment
from floecat.identifiers.namespace import Namespace

__all__ = ["UNIT_SEPARATOR", "NamespaceSeparator", "check_hierarchy_separator"]

UNIT_SEPARATOR: Final = "\x1f"
"""The separator that every server takes."""

_UNIT_SEPARATOR_IN_PATH = re.compile("%1f|\x1f", re.IGNORECASE)
_MEANS_SOMETHING_IN_URLS: Final = "/\\?#%+&=, \"'"


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
        """Characters that no level may hold, for it could not be addressed."""
        self._in_path = re.compile(f"{self.config_value}|{re.escape(separator)}", re.IGNORECASE)

    def split_levels(self, raw: str) -> list[str]:
        """The levels in the ``{namespace}`` segment of a path, still encoded; some may be empty."""
        unit = _UNIT_SEPARATOR_IN_PATH
        return (unit if unit.search(raw) else self._in_path).split(raw)

    def split_path(self, raw: str) -> list[Namespace]:
        """What the ``{namespace}`` segment of a path may mean, most literal reading first.

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
            empty level, and whoever looks for one does not find it.

        Raises:
            BadRequestError: the value is not valid percent-encoded UTF-8.
        """
        text = decode_segment(value.replace("+", " ")).literal
        if not text:
            return ()
        return tuple(text.split(UNIT_SEPARATOR if UNIT_SEPARATOR in text else self.separator))

    def join(self, namespace: Namespace) -> str:
        """The levels joined by the separator, nothing encoded."""
        return self.separator.join(namespace)

    def join_path(self, namespace: Namespace) -> str:
        """The namespace as one segment of a path: the inverse of `split_path`."""
        return self.config_value.join([encode_segment(level) for level in namespace])


def check_hierarchy_separator(separator: str) -> None:
    """Checks the separator of hierarchical schema names, which may not be the one of physical names either.

    Raises:
        SettingsError: it is ``.`` or `NamespaceSeparator` would refuse it.
    """
    _check_separator(separator)
    if separator == ".":
        raise SettingsError(_refusal(separator, "it joins the levels of physical names"))


def _check_separator(separator: str) -> None:
    if len(separator) != 1:
        raise SettingsError(_refusal(separator, "it must be exactly one character"))
    if separator in _MEANS_SOMETHING_IN_URLS:
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
