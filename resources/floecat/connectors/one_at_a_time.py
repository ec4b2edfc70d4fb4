"""What connectors do on request, one at a time in an account: each keeps a thread that waits for others."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from floecat.errors import UnavailableError

__all__ = ["OneAtATime"]


class OneAtATime:
    """Accounts that have one under way. Thread-safe."""

    def __init__(self, refusal: str, *, retry_after_s: int) -> None:
        self._refusal = refusal
        self._retry_after_s = retry_after_s
        self._busy: set[UUID] = set()
        self._lock = threading.Lock()

    @contextmanager
    def of(self, account_id: UUID) -> Iterator[None]:
        """Holds the turn of an account.

        Raises:
            UnavailableError: it has one under way.
        """
        with self._lock:
            if account_id in self._busy:
                raise UnavailableError(self._refusal, retry_after_s=self._retry_after_s)
            self._busy.add(account_id)
        try:
            yield
        finally:
            self._busy.discard(account_id)
