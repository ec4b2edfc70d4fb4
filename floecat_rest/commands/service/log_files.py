"""Logs of services that run behind a command."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

__all__ = ["ServiceLog", "cause"]

_FAILURES = (
    re.compile(r"error: (?P<cause>.+)"),  # of the floecat command
    re.compile(r"(?P<cause>(?:\w+\.)*\w*(?:Error|Exception)(?:: .*)?)"),  # last line of a traceback
    # of our own log; uvicorn's last line comes after the error that it is about
    re.compile(r"\S+ \S+ +(?:ERROR|CRITICAL) +(?P<cause>(?! |uvicorn\.error: Application startup failed).+)"),
    re.compile(r".* - (?:ERROR|CRITICAL) - (?P<cause>.+)"),  # of Dagster's log
)


class ServiceLog:
    """The output of a service, run after run in one file, with a few older files `NAME.1`, `NAME.2` …

    Attributes:
        path: of the newest file.
    """

    def __init__(self, path: Path, *, max_bytes: int, kept: int) -> None:
        """Describes a log.

        Args:
            path: of the newest file.
            max_bytes: a larger file becomes `NAME.1`.
            kept: how many older files there are at most.
        """
        self.path = path
        self._max_bytes = max_bytes
        self._kept = kept
        self._run_begins_at = 0

    def open(self) -> BinaryIO:
        """The file, for a new run that appends to it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.rotate()
        output = self.path.open("ab")
        self._run_begins_at = output.tell()
        return output

    def rotate(self) -> None:
        """Starts an empty file if this one is large.

        The service keeps its descriptor, which appends: so the file is copied and emptied, not renamed.
        """
        if not self.path.exists() or self.path.stat().st_size <= self._max_bytes:
            return
        for number in range(self._kept - 1, 0, -1):
            if self._older(number).exists():
                self._older(number).replace(self._older(number + 1))
        shutil.copyfile(self.path, self._older(1))
        with self.path.open("r+b") as file:
            file.truncate(0)
        self._run_begins_at = 0

    def lines(self) -> list[str]:
        """The lines that this run wrote, without those that were rotated away."""
        with self.path.open("rb") as file:
            file.seek(self._run_begins_at)
            return file.read().decode("utf-8", "replace").splitlines()

    def _older(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")


def cause(lines: Sequence[str]) -> str | None:
    """The reason why a process ended, by its log: the last error in it. None if there is none."""
    return next((found for line in reversed(lines) if (found := _failure(line)) is not None), None)


def _failure(line: str) -> str | None:
    if line.startswith("{"):
        try:
            record = msgspec.json.decode(line, type=dict[str, object])
        except msgspec.DecodeError:
            return None
        return str(record.get("message")) if record.get("level") in {"error", "critical"} else None
    matches = (pattern.fullmatch(line) for pattern in _FAILURES)
    return next((match["cause"] for match in matches if match), None)
