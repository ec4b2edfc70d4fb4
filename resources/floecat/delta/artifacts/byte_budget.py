"""Bytes that threads hold at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition

__all__ = ["ByteBudget"]


class ByteBudget:
    """Keeps threads from holding more bytes at once than there is room for. What is larger is held alone."""

    def __init__(self, total: int) -> None:
        # without any room, one thread at a time
        self._total = self._free = max(total, 1)
        self._changed = Condition()

    @contextmanager
    def holding(self, count: int) -> Iterator[None]:
        """Waits until there is room for so many bytes, and takes it."""
        taken = min(count, self._total)
        with self._changed:
            self._changed.wait_for(lambda: self._free >= taken)
            self._free -= taken
        try:
            yield
        finally:
            with self._changed:
                self._free += taken
                self._changed.notify_all()
