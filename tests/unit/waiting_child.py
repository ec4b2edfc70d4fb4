"""Work of a process that says who it is, and then works for ever."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any


def nothing() -> None:
    """What the process needs."""


def work(_: None, _step: Any) -> Iterator[int]:
    """Yields the process."""
    yield os.getpid()
    time.sleep(1_000)


def endless(_: None, _step: Any) -> Iterator[int]:
    """Yields the process again and again."""
    while True:
        yield os.getpid()
