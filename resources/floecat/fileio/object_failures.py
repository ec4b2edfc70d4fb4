"""Meaning of the failures of object storage.

The client library distinguishes kinds of failure for some operations only; for the others its text is parsed.
The text can quote the server, so only its status and error code go into a message.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final

from obstore import exceptions

from floecat.errors import (
    AlreadyExistsError,
    BadRequestError,
    FileMissingError,
    FloecatError,
    StorageRefusedError,
    StorageUnavailableError,
)
from floecat.fileio.locations import Location

__all__ = ["OBJECT_STORE_ERRORS", "FailureKind", "failure_kind", "object_failure"]

OBJECT_STORE_ERRORS: Final = (exceptions.BaseError, OSError, ValueError)
"""Errors that the client library raises."""

_STATUS = re.compile(r"status code: (\d{3})|status: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z]{1,60})</Code>|\(code: ([A-Za-z]{1,60})\)")
_TIMED_OUT = re.compile(r"kind: Timeout|TimedOut|timed out", re.IGNORECASE)


class FailureKind(Enum):
    """The kind of failure of a request."""

    MISSING = auto()
    EXISTS = auto()
    REFUSED = auto()
    PART_OF_BATCH = auto()
    """A file of a bulk request; the others were treated."""
    TIMED_OUT = auto()
    BAD_NAME = auto()
    PASSING = auto()
    """A lost connection, or an answer that says to try again."""
    OTHER = auto()


def failure_kind(error: BaseException) -> FailureKind:
    """Sorts a failure of the client library."""
    if isinstance(error, FileNotFoundError):
        return FailureKind.MISSING
    if isinstance(error, exceptions.AlreadyExistsError | exceptions.PreconditionError):
        return FailureKind.EXISTS
    if isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError):
        return FailureKind.REFUSED
    if isinstance(error, exceptions.InvalidPathError | ValueError):
        return FailureKind.BAD_NAME
    return _kind_by_text(str(error))


def _kind_by_text(text: str) -> FailureKind:
    if "DeleteFailed" in text:
        return FailureKind.PART_OF_BATCH
    if "StartTooLarge" in text:  # the client's own word on a range after the end of a file
        return FailureKind.OTHER
    status = _status(text)
    if status in (401, 403):
        return FailureKind.REFUSED
    if _TIMED_OUT.search(text) and status is None:
        return FailureKind.TIMED_OUT
    if status is None or status in (408, 429) or status >= 500:
        return FailureKind.PASSING
    return FailureKind.OTHER


def object_failure(error: BaseException, location: Location, *, reading: bool = False) -> FloecatError:
    """The error to raise for a failed request.

    Args:
        error: what the client library raised.
        location: the file that the request was about.
        reading: whether it was to read the file. Elsewhere a missing thing is the bucket.
    """
    text = str(error)
    kind = failure_kind(error)
    if kind is FailureKind.MISSING and reading:
        return FileMissingError(f"Failed to open input stream for file: {location}")
    if kind is FailureKind.EXISTS:
        return AlreadyExistsError(f"File already exists: {location}")
    if kind is FailureKind.BAD_NAME:
        return BadRequestError(f"No file can have the location {location}")
    # a bulk request is answered for each file
    if kind is FailureKind.REFUSED or "<Code>AccessDenied</Code>" in text or "(code: AccessDenied)" in text:
        return StorageRefusedError(f"Storage refuses access to {location}{_detail(text)}")
    if kind is FailureKind.TIMED_OUT:
        return StorageUnavailableError(f"Storage did not answer in time: {location}")
    return StorageUnavailableError(f"Storage failed{_detail(text)} at {location}")


def _status(text: str) -> int | None:
    match = _STATUS.search(text)
    return int(match[1] or match[2]) if match else None


def _detail(text: str) -> str:
    code = _CODE.search(text)
    if code:
        return f" ({code[1] or code[2]})"
    status = _status(text)
    return f" (HTTP {status})" if status else ""
