"""Files of a log, told by their names (Delta protocol, "File Types").

Other files in the folder, such as version checksums, `_last_checkpoint` and what writers leave behind, are
passed over: names are all that is trusted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

__all__ = ["Checkpoint", "LogFile", "LogFiles", "commit_name", "parse_log_files"]

_NAME = re.compile(r"([0-9]{20})\.(.+)", re.DOTALL)
_COMPACTION = re.compile(r"([0-9]{20})\.compacted\.json")
_PART = re.compile(r"checkpoint\.([0-9]{10})\.([0-9]{10})\.parquet")
_WHOLE = re.compile(
    r"checkpoint\.(?:parquet|[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\.(?:json|parquet))"
)

_LAST_VERSION: Final = 2**63 - 1


class LogFile(msgspec.Struct, frozen=True):
    """A file directly in the folder of the log."""

    name: str
    size_bytes: int
    modified_at_ms: int

    @property
    def fingerprint(self) -> str:
        """Another one if the file is replaced."""
        return f"{self.name}:{self.size_bytes}:{self.modified_at_ms}"


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint. Whether its sidecars are there is not known.

    Attributes:
        version: the version.
        files: its only file, or its parts in order.
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
    """Sorts files by kind, in whatever order they come."""
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
            # The last name wins: the classic one, if there is one.
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
