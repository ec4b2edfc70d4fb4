"""Files of a log: their kinds, told by their names (Delta protocol, "File Types"), and damage to them.

Other files in the folder, such as version checksums, `_last_checkpoint` and what writers leave behind, are
ignored: only names are trusted. A state can often be rebuilt without a damaged file, for example from an
older checkpoint.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import msgspec

from floecat.errors import InvalidDeltaTableError, PayloadTooLargeError
from floecat.fileio.base import FileIO
from floecat.fileio.local_folders import link_below
from floecat.memory_budget import LruCache

__all__ = [
    "LOG_FOLDER",
    "Checkpoint",
    "DamagedFileError",
    "DamagedFiles",
    "LogFault",
    "LogFile",
    "LogFiles",
    "check_no_links",
    "commit_name",
    "damage_of",
    "has_delta_log",
    "parse_log_files",
]

_log = logging.getLogger(__name__)

LOG_FOLDER: Final = "_delta_log"
"""Name of the folder of the log, directly below the root of a table."""

_NAME = re.compile(r"([0-9]{20})\.(.+)", re.DOTALL)
_COMPACTION = re.compile(r"([0-9]{20})\.compacted\.json")
_PART = re.compile(r"checkpoint\.([0-9]{10})\.([0-9]{10})\.parquet")
_WHOLE = re.compile(
    r"checkpoint\.(?:parquet|[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\.(?:json|parquet))"
)

_LAST_VERSION: Final = 2**63 - 1

_MOST_LOGS: Final = 10_000
_MOST_OF_A_LOG: Final = 1_000


class LogFile(msgspec.Struct, frozen=True):
    """A file directly in the folder of the log."""

    name: str
    size_bytes: int
    modified_at_ms: int

    @property
    def fingerprint(self) -> str:
        """Changes if the file is replaced."""
        return f"{self.name}:{self.size_bytes}:{self.modified_at_ms}"


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint; its sidecars may be missing.

    Attributes:
        version: the version.
        files: its single file, or its parts in order.
    """

    version: int
    files: tuple[LogFile, ...]


@dataclass
class LogFiles:
    """Files of a log by kind.

    Attributes:
        commits: by version.
        checkpoints: one for each version that has a complete one.
        compactions: by first and last version.
        missing_parts: by the version of an incomplete checkpoint, the names of the first missing parts.
    """

    commits: dict[int, LogFile] = field(default_factory=dict)
    checkpoints: dict[int, Checkpoint] = field(default_factory=dict)
    compactions: dict[tuple[int, int], LogFile] = field(default_factory=dict)
    missing_parts: dict[int, list[str]] = field(default_factory=dict)


def commit_name(version: int) -> str:
    """Name of the file of a commit."""
    return f"{version:020d}.json"


def parse_log_files(files: Iterable[LogFile]) -> LogFiles:
    """Sorts files, in any order, by kind."""
    found = LogFiles()
    parts: dict[tuple[int, int], dict[int, LogFile]] = {}
    for file in sorted(files, key=lambda file: file.name):
        match = _NAME.fullmatch(file.name)
        if match is None or int(match[1]) > _LAST_VERSION:
            continue
        version, kind = int(match[1]), match[2]
        if kind == "json":
            found.commits[version] = file
        elif match := _COMPACTION.fullmatch(kind):
            found.compactions[version, int(match[1])] = file
        elif match := _PART.fullmatch(kind):
            parts.setdefault((version, int(match[2])), {})[int(match[1])] = file
        elif _WHOLE.fullmatch(kind):
            # The last name wins: that of the classic checkpoint, if there is one.
            found.checkpoints[version] = Checkpoint(version, (file,))
    for (version, count), its_parts in parts.items():
        _add_parts(found, version, count, its_parts)
    return found


def _add_parts(found: LogFiles, version: int, count: int, parts: dict[int, LogFile]) -> None:
    missing = next((number for number in range(1, count + 1) if number not in parts), None)
    if missing is not None:
        name = f"{version:020d}.checkpoint.{missing:010d}.{count:010d}.parquet"
        found.missing_parts.setdefault(version, []).append(name)
    elif count:
        ordered = tuple(parts[number] for number in range(1, count + 1))
        found.checkpoints.setdefault(version, Checkpoint(version, ordered))


def has_delta_log(files: FileIO, location: str) -> bool:
    """Whether a folder is the root of a Delta table: its log holds a commit or a checkpoint.

    Args:
        files: storage.
        location: the folder, without a slash at the end.

    Raises:
        StorageUnavailableError: storage fails.
    """
    folder = f"{location}/{LOG_FOLDER}"
    return any(
        _NAME.fullmatch(entry.location.rpartition("/")[2]) is not None
        and entry.location.rpartition("/")[0] == folder
        for entry in files.list(folder)
    )


def check_no_links(location: str) -> None:
    """Refuses a log on the local disk that is a symbolic link or holds one.

    Listings leave links out: without the check, the newest version would be an older one.

    Args:
        location: root of the table.

    Raises:
        InvalidDeltaTableError: with the link.
    """
    link = link_below(f"{location}/{LOG_FOLDER}")
    if link is not None:
        raise InvalidDeltaTableError(f"The log of Delta table {location} has a symbolic link: {link}")


class DamagedFileError(InvalidDeltaTableError):
    """A file of a log that is truncated, contradicts itself or is too large.

    Attributes:
        locations: the unusable files: this one, and the other files of its checkpoint.
    """

    def __init__(self, message: str, locations: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.locations = tuple(locations)


class LogFault(msgspec.Struct, frozen=True):
    """Damaged files of a log, at the time when they were read."""

    names: tuple[str, ...]
    """Paths of the files below the folder of the log."""
    fingerprint: str
    """Changes once one of the files is replaced."""
    message: str
    """Message of one sentence that names the file."""


@contextmanager
def damage_of(*locations: str) -> Iterator[None]:
    """Names the damaged files in an error. Failures of storage are not damage.

    Raises:
        DamagedFileError: the files violate the protocol or are too large.
    """
    try:
        yield
    except DamagedFileError:
        raise
    except (InvalidDeltaTableError, PayloadTooLargeError) as error:
        is_named = any(location in error.message for location in locations)
        fault = "too large" if isinstance(error, PayloadTooLargeError) else "damaged"
        message = error.message if is_named else f"{locations[0]} is {fault}: {error.message}"
        raise DamagedFileError(message, locations) from None


class DamagedFiles:
    """Damaged files of many logs, so that each is read and reported once. Thread-safe."""

    def __init__(self) -> None:
        self._faults: LruCache[tuple[LogFault, ...]] = LruCache(_MOST_LOGS)

    def note(self, folder: str, fault: LogFault) -> None:
        """Adds a fault of the log in a folder, and logs it if it is new."""
        known = self._faults.get(folder) or ()
        if fault not in known:
            _log.warning("a file of a Delta log is damaged and is left out: %s", fault.message)
            self._faults.put(folder, (*known, fault)[-_MOST_OF_A_LOG:])

    def known(self, folder: str) -> tuple[LogFault, ...]:
        """Faults of the log in a folder, including those of files that were replaced since."""
        return self._faults.get(folder) or ()
