"""Cursors of sensors: small structs, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self, TypeVar
from uuid import UUID

import msgspec

from floecat.errors import BadRequestError

if TYPE_CHECKING:
    from floecat.jobs.descriptions import JobInfo

__all__ = ["Cursor", "JobCursor", "read_cursor", "write_cursor"]


class Cursor(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a sensor between ticks; every field has a default. The version is written each time."""

    version: int = 1


class JobCursor(Cursor, frozen=True):
    """The last job that was looked at, of those that ended."""

    finished_at_ms: int = 0
    job_id: UUID = UUID(int=0)
    failed: int = 0
    """Jobs that had failed for good at the last tick."""

    def after(self, finished: Sequence[JobInfo], failed: int) -> Self:
        """The cursor after some more jobs."""
        last = finished[-1] if finished else None
        seen = self if last is None else type(self)(finished_at_ms=last.finished_at_ms or 0, job_id=last.id)
        return msgspec.structs.replace(seen, failed=failed)


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
