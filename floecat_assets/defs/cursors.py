"""Cursors of sensors: small structs, as JSON."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from floecat.errors import BadRequestError

__all__ = ["Cursor", "read_cursor", "write_cursor"]


class Cursor(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a sensor between ticks; every field has a default. The version is written each time."""

    version: int = 1


_C = TypeVar("_C", bound=Cursor)


def read_cursor(text: str | None, kind: type[_C]) -> _C:
    """The cursor of a tick; one with defaults at the first.

    Raises:
        BadRequestError: it is not one of the sensor's own, or of another version.
    """
    if not text:
        return kind()
    try:
        found = msgspec.json.decode(text, type=kind)
    except msgspec.MsgspecError:
        raise BadRequestError("The cursor of the sensor is not one of its own: reset it") from None
    if found.version != kind().version:
        raise BadRequestError("The cursor of the sensor is of another version: reset it")
    return found


def write_cursor(cursor: Cursor) -> str:
    """The cursor as Dagster keeps it."""
    return msgspec.json.encode(cursor).decode()
