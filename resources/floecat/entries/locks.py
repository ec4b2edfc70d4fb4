"""Commits on one entry take turns inside a process, so that they rarely lose a compare-and-set to each other.

Correctness does not hang on this: other processes commit to the same store, and the store decides.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Lock
from uuid import UUID

from floecat.identifiers.namespace import TableIdentifier

__all__ = ["EntryLocks"]


class EntryLocks:
    """Locks by name, striped."""

    def __init__(self, stripes: int = 1024, timeout_s: float = 10.0) -> None:
        """Takes how many locks there are, and how long a commit waits for its turn before it just tries."""
        self._locks = [Lock() for _ in range(stripes)]
        self._timeout_s = timeout_s

    @contextmanager
    def hold(self, catalog_id: UUID, identifiers: Iterable[TableIdentifier]) -> Iterator[None]:
        """Holds the locks of all names, taken in one order over all threads."""
        stripes = sorted({hash((catalog_id, identifier)) % len(self._locks) for identifier in identifiers})
        deadline = time.monotonic() + self._timeout_s
        held: list[Lock] = []
        try:
            for stripe in stripes:
                lock = self._locks[stripe]
                if lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
                    held.append(lock)
            yield
        finally:
            for lock in held:
                lock.release()
