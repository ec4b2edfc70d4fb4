"""Tables that clients have loaded lately, in this process: whoever loads a table may be about to commit."""

from __future__ import annotations

from threading import Lock
from uuid import UUID

from floecat.clock import Clock

__all__ = ["RecentLoads"]


class RecentLoads:
    """Remembers the last load of each table for a while. Thread-safe.

    Attributes:
        count: grows with the loads.
    """

    def __init__(self, clock: Clock, keep_ms: int) -> None:
        """Begins with none.

        Args:
            keep_ms: loads are remembered for at least so long, and at most twice as long; with 0 never.
        """
        self.count = 0
        self._clock = clock
        self._keep_ms = keep_ms
        self._lock = Lock()
        self._begun_ms = clock.now_ms()
        self._newer: dict[UUID, int] = {}
        self._older: dict[UUID, int] = {}

    def note(self, entry_id: UUID) -> None:
        """Notes a load of a table at this moment."""
        if not self._keep_ms:
            return
        now_ms = self._clock.now_ms()
        if now_ms - self._begun_ms >= self._keep_ms:
            with self._lock:
                if now_ms - self._begun_ms >= self._keep_ms:
                    self._older, self._newer, self._begun_ms = self._newer, {}, now_ms
        self._newer[entry_id] = now_ms
        self.count += 1

    def counts_until_ms(self, entry_id: UUID, committed_ms: int) -> int:
        """The time until which the last load of a table may lead to a commit; 0 without one.

        That is less, the longer nobody commits: a table that is loaded all the time and not committed to is
        being read.

        Args:
            committed_ms: when it was committed to last.
        """
        newer, older = self._newer, self._older
        loaded_ms = newer.get(entry_id) or older.get(entry_id)
        if loaded_ms is None:
            return 0
        quiet_ms = self._clock.now_ms() - committed_ms
        return loaded_ms + self._keep_ms * self._keep_ms // max(self._keep_ms, quiet_ms)
