"""When a failed job is tried again."""

from __future__ import annotations

import random
from collections.abc import Callable

__all__ = ["Backoff"]

_MAX_DOUBLINGS = 40


class Backoff:
    """Delays that double from try to try up to a bound, each shortened at random by up to a half.

    The randomness keeps jobs that failed together from coming back together.

    Attributes:
        base_ms: the delay after the first try.
        max_ms: no delay is longer.
    """

    def __init__(
        self,
        *,
        base_ms: int = 30_000,
        max_ms: int = 3_600_000,
        random_fraction: Callable[[], float] = random.random,
    ) -> None:
        """Sets the delays, in milliseconds.

        Args:
            base_ms: the delay after the first try.
            max_ms: no delay is longer.
            random_fraction: a number from 0 to below 1.
        """
        self.base_ms = base_ms
        self.max_ms = max_ms
        self._random_fraction = random_fraction

    def delay_ms(self, attempts: int) -> int:
        """How long to wait after a number of tries, at least one."""
        doublings = min(max(attempts, 1) - 1, _MAX_DOUBLINGS)
        longest = min(self.max_ms, self.base_ms << doublings)
        return int(longest * (1 - self._random_fraction() / 2))
