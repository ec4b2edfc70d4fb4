"""A program that a test drives by lines of its standard input and output."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import IO, Any, Self

__all__ = ["DrivenProcess"]


class DrivenProcess:
    """The running program; it is killed at the end of a `with` block."""

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        """Starts it; the options are those of `subprocess.Popen`."""
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8", **options
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends it."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _send(self, line: str) -> IO[str]:
        """Writes a line and returns what the program writes."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._process.stdout
