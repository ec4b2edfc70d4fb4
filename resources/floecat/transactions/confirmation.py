"""Finding out whether a commit was applied when the store did not say."""

from __future__ import annotations

import time
from uuid import UUID

import msgspec

from floecat.errors import UnavailableError
from floecat.store import commit_log
from floecat.store.engine import Store

__all__ = ["Confirmation"]


class Confirmation(msgspec.Struct, frozen=True):
    """A bounded poll of the commit log; the log row is part of the commit's transaction."""

    max_attempts: int
    initial_sleep_ms: int
    max_sleep_ms: int

    def was_applied(self, store: Store, catalog_id: UUID, transaction_id: UUID) -> bool:
        """Whether this transaction is in the commit log.

        `False` means that it was not seen, not that it will not appear.
        """
        sleep_ms = self.initial_sleep_ms
        for _ in range(self.max_attempts):
            time.sleep(sleep_ms / 1000)
            sleep_ms = min(sleep_ms * 2, self.max_sleep_ms)
            try:
                with store.read() as conn:
                    if commit_log.has_transaction(conn, catalog_id, transaction_id):
                        return True
            except UnavailableError:
                continue
        return False
