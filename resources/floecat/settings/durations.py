"""Spans of time as ISO-8601 writes them."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Self

import msgspec

__all__ = ["Duration"]

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
        """Read an ISO-8601 duration such as ``PT30M`` or ``P1DT12H``.

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
