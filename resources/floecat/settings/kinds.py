"""The kinds of value that a setting takes, and how each is read from text and from TOML."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Self
from uuid import UUID

import msgspec

__all__ = [
    "Duration",
    "SettingKind",
    "boolean",
    "choice",
    "duration",
    "format_size",
    "identifier",
    "integer",
    "mapping",
    "size",
    "text",
    "text_list",
    "text_or_texts",
]

_SIZE = re.compile(r"([0-9]{1,15}) ?(B|KiB|MiB|GiB|TiB)?")
_DIGITS = re.compile(r"-?[0-9]{1,19}")
_SIZE_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_ISO_8601 = re.compile(
    r"P(?:(?P<days>[0-9]{1,9})D)?"
    r"(?:T(?=[0-9])(?:(?P<hours>[0-9]{1,9})H)?(?:(?P<minutes>[0-9]{1,9})M)?(?:(?P<seconds>[0-9]{1,9}(?:\.[0-9]{1,3})?)S)?)?"
)
_SECONDS = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}


class Duration(msgspec.Struct, frozen=True, order=True):
    """A span of time of fixed length: days, hours, minutes, seconds; no months or years."""

    ms: int
    """Length in milliseconds."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads an ISO-8601 duration such as ``PT30M`` or ``P1DT12H``.

        Raises:
            ValueError: the text is not a duration of that form.
        """
        match = _ISO_8601.fullmatch(text)
        if match is None or not any(match.groups()):
            raise ValueError("not an ISO-8601 duration")
        seconds = sum(Decimal(count) * _SECONDS[unit] for unit, count in match.groupdict("0").items())
        return cls(int(seconds * 1000))

    @property
    def seconds(self) -> float:
        """Length in seconds."""
        return self.ms / 1000

    def __str__(self) -> str:
        """The shortest ISO-8601 form in hours, minutes and seconds."""
        minutes, rest_ms = divmod(self.ms, 60_000)
        hours, minutes = divmod(minutes, 60)
        seconds = f"{Decimal(rest_ms) / 1000:f}S" if rest_ms else ""
        parts = (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "") + seconds
        return f"PT{parts or '0S'}"


class SettingKind(msgspec.Struct, frozen=True, kw_only=True):
    """The kind of values that a field accepts. Stands in the annotation of the field."""

    expected: str
    """The accepted values, with their article, as in "an integer of at least 1"."""

    from_value: Callable[[object], Any]
    """Reads a value of TOML or of the command line; ValueError or TypeError if it is of another kind."""

    from_text: Callable[[str], Any]
    """Reads an environment variable; ValueError if the text is of another kind."""

    secret: bool = False
    """Never shown: not in messages, nor in the representation, nor in a dump."""

    takes_table: bool = False
    """A table of a file is one value, and no group of settings."""

    aliases: tuple[str, ...] = ()
    """Other names of the last part of the key."""


def text(*, secret: bool = False, aliases: tuple[str, ...] = ()) -> SettingKind:
    """Any text that is not empty."""
    return SettingKind(expected="text", from_value=_text, from_text=_text, secret=secret, aliases=aliases)


def boolean() -> SettingKind:
    """True or false."""
    return SettingKind(
        expected="true or false", from_value=_boolean, from_text=lambda raw: _BOOLEANS[raw.lower()]
    )


def integer(*, minimum: int = 0, maximum: int | None = None, floor: int | None = None) -> SettingKind:
    """A whole number.

    Args:
        minimum: smaller numbers are refused.
        maximum: larger numbers are refused.
        floor: smaller numbers are accepted and count as this one.
    """
    bounds = f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"

    def check(value: object) -> int:
        number = _integer(value)
        if number < minimum or (maximum is not None and number > maximum):
            raise ValueError("out of bounds")
        return number if floor is None else max(number, floor)

    return SettingKind(
        expected=f"an integer {bounds}", from_value=check, from_text=lambda raw: check(_digits(raw))
    )


def duration(*, floor: Duration | None = None) -> SettingKind:
    """An ISO-8601 duration; one shorter than `floor` counts as `floor`."""

    def read(value: object) -> Duration:
        parsed = Duration.parse(_text(value))
        return parsed if floor is None else max(parsed, floor)

    return SettingKind(expected="an ISO-8601 duration such as PT30M", from_value=read, from_text=read)


def size() -> SettingKind:
    """A number of bytes: a plain number, or one with KiB, MiB, GiB or TiB."""

    def read(value: object) -> int:
        return _size(value) if isinstance(value, str) else integer().from_value(value)

    return SettingKind(
        expected="a number of bytes such as 67108864 or 64MiB", from_value=read, from_text=_size
    )


def choice(*options: str) -> SettingKind:
    """A kind of a few words."""

    def read(value: object) -> str:
        if value not in options:
            raise ValueError("not an option")
        return str(value)

    return SettingKind(expected=f"one of {', '.join(options)}", from_value=read, from_text=read)


def identifier() -> SettingKind:
    """A UUID."""
    return SettingKind(expected="a UUID", from_value=lambda value: UUID(_text(value)), from_text=UUID)


def text_list(*, secret: bool = False) -> SettingKind:
    """A list of texts; in the environment one text, its parts separated by commas."""

    def read(value: object) -> tuple[str, ...]:
        if not isinstance(value, list | tuple):
            raise TypeError("not a list")
        return tuple(_text(item) for item in value)

    return SettingKind(
        expected="a list of texts",
        from_value=read,
        from_text=lambda raw: tuple(part.strip() for part in raw.split(",") if part.strip()),
        secret=secret,
    )


def text_or_texts() -> SettingKind:
    """A text, or a list of at least one text; in the environment one text."""
    several = text_list()

    def read(value: object) -> str | tuple[str, ...]:
        if value in ([], ()):
            raise ValueError("none")
        return _text(value) if isinstance(value, str) else several.from_value(value)

    return SettingKind(expected="text, or a list of texts", from_value=read, from_text=_text)


def mapping(*, secret: bool = False) -> SettingKind:
    """Texts by name: a table of a file, a JSON object in the environment.

    Names with dots may be written as tables within the table. Numbers and booleans become the texts that
    properties of Java are.
    """

    def read(value: object) -> Mapping[str, str]:
        if not isinstance(value, dict):
            raise TypeError("not a table")
        return dict(_properties(value, ()))

    return SettingKind(
        expected="a table of texts (in the environment a JSON object)",
        from_value=read,
        from_text=lambda raw: read(json.loads(raw)),
        secret=secret,
        takes_table=True,
    )


def format_size(size_bytes: int) -> str:
    """The size in the largest unit that divides it."""
    for unit, factor in reversed(_SIZE_UNITS.items()):
        if size_bytes and size_bytes % factor == 0:
            return f"{size_bytes // factor}{unit}" if factor > 1 else str(size_bytes)
    return str(size_bytes)


def _properties(table: Mapping[str, object], path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for name, value in table.items():
        inner = (*path, name)
        if isinstance(value, dict):
            yield from _properties(value, inner)
        elif isinstance(value, bool):
            yield ".".join(inner), str(value).lower()
        elif isinstance(value, str | int | float):
            yield ".".join(inner), str(value)
        else:
            raise TypeError("not a text")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not text")
    if not value:
        raise ValueError("empty")
    return value


def _integer(value: object) -> int:
    # bool is an int in Python and not in TOML
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError("not an integer")
    return value


def _digits(raw: str) -> int:
    if not _DIGITS.fullmatch(raw):
        raise ValueError("not digits")
    return int(raw)


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError("not a boolean")
    return value


def _size(value: str) -> int:
    match = _SIZE.fullmatch(value)
    if match is None:
        raise ValueError("not a size")
    return int(match[1]) * _SIZE_UNITS[match[2] or "B"]
