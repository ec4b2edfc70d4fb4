"""Removes rows that expired: each package says which."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Event
from typing import Final, TypeAlias

import uuid_utils.compat as uuids

from floecat.clock import Clock
from floecat.store.database.engine import Connection, Store
from floecat.store.jobs import leases

__all__ = ["Expiry", "Sweep"]

Sweep: TypeAlias = Callable[[Connection, int, int], int]
"""Deletes at most so many rows that are expired at a time, in milliseconds; returns how many it deleted."""

_LEASE: Final = "expiry"
_BATCH: Final = 1000


class Expiry:
    """Sweeps the store, in one process at a time."""

    def __init__(
        self, store: Store, clock: Clock, sweeps: Mapping[str, Sweep], stopped: Event, *, lease_ms: int
    ) -> None:
        """Deletes nothing yet.

        Args:
            store: the SQL store.
            sweeps: by what they remove.
            stopped: ends a sweep between two batches.
            lease_ms: after a sweep other processes make none for so long.
        """
        self._store = store
        self._clock = clock
        self._sweeps = sweeps
        self._stopped = stopped
        self._lease_ms = lease_ms
        self._owner = uuids.uuid7()

    def sweep(self) -> dict[str, int]:
        """Removes expired rows, unless another process is doing so; returns how many, by what they are.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        now_ms, lease_ms = self._clock.now_ms(), self._lease_ms
        if not self._store.run(lambda conn: leases.acquire(conn, _LEASE, self._owner, now_ms, lease_ms)):
            return {}
        return {name: self._batches(sweep, now_ms) for name, sweep in self._sweeps.items()}

    def _batches(self, sweep: Sweep, now_ms: int) -> int:
        """Deletes in batches, each a short transaction."""
        total = 0
        while not self._stopped.is_set():
            removed = self._store.run(lambda conn: sweep(conn, now_ms, _BATCH))
            total += removed
            if removed < _BATCH:
                break
        return total
