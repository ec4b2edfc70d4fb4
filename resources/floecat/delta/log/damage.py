"""Damaged files of a log. A state can often be rebuilt without them, as from an older checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import msgspec

from floecat.errors import InvalidDeltaTableError, PayloadTooLargeError
from floecat.memory_budget import LruCache

if TYPE_CHECKING:
    from floecat.delta.log.log_listing import LogListing

__all__ = ["DamagedFileError", "DamagedFiles", "LogFault", "damage_of", "still_there"]

_log = logging.getLogger(__name__)

_MOST_LOGS: Final = 10_000
_MOST_OF_A_LOG: Final = 1_000


class DamagedFileError(InvalidDeltaTableError):
    """A file of a log that cannot be read, as it is cut off, contradicts itself or is too large.

    Attributes:
        locations: the files that are of no use: it, and the others of a checkpoint in several files.
    """

    def __init__(self, message: str, locations: Sequence[str]) -> None:
        super().__init__(message)
        self.locations = tuple(locations)


class LogFault(msgspec.Struct, frozen=True):
    """Damaged files of a log, as they were when they were read."""

    names: tuple[str, ...]
    """Their paths below the folder of the log."""
    fingerprint: str
    """Another one once one of the files is replaced."""
    message: str
    """One sentence that names the file."""


@contextmanager
def damage_of(*locations: str) -> Iterator[None]:
    """Says of an error which files of the log it is about. What storage fails with is no damage.

    Raises:
        DamagedFileError: the files break the protocol or are too large.
    """
    try:
        yield
    except DamagedFileError:
        raise
    except (InvalidDeltaTableError, PayloadTooLargeError) as error:
        is_named = any(location in error.message for location in locations)
        message = error.message if is_named else f"{locations[0]} is damaged: {error.message}"
        raise DamagedFileError(message, locations) from None


class DamagedFiles:
    """Remembers damaged files of many logs, so that each is read and reported once. Thread-safe."""

    def __init__(self) -> None:
        self._faults: LruCache[tuple[LogFault, ...]] = LruCache(_MOST_LOGS)

    def note(self, folder: str, fault: LogFault) -> None:
        """Remembers a fault of the log in a folder, and logs it if it is new."""
        known = self._faults.get(folder) or ()
        if fault not in known:
            _log.warning("a file of a Delta log is damaged and is left out: %s", fault.message)
            self._faults.put(folder, (*known, fault)[-_MOST_OF_A_LOG:])

    def known(self, folder: str, listing: LogListing) -> tuple[LogFault, ...]:
        """Faults of the log in a folder whose files are still those that were read."""
        return still_there(self._faults.get(folder) or (), listing)


def still_there(faults: Sequence[LogFault], listing: LogListing) -> tuple[LogFault, ...]:
    """The faults whose files are as they were when they were read."""
    return tuple(one for one in faults if listing.fingerprint_of_files(one.names) == one.fingerprint)
