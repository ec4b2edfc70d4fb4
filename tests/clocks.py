"""A clock that a test sets."""

from __future__ import annotations

import time

__all__ = ["SetClock"]


class SetClock:
    """Stands still, until a test sets `ms`."""

    def __init__(self, ms: int | None = None) -> None:
        self.ms = time.time_ns() // 1_000_000 if ms is None else ms

    def now_ms(self) -> int:
        return self.ms
