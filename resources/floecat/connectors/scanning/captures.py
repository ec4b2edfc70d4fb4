"""Captures that scans ask for: of what a connector brought here, or of the catalog's own tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol
from uuid import UUID

from floecat.connectors.selection import Selection
from floecat.store.catalogs.connectors import ConnectorRow
from floecat.store.database.engine import Store
from floecat.store.statistics import captures
from floecat.store.statistics.captures import NamedTable

__all__ = ["AskForCaptures", "ScanCaptures"]

_PAGE: Final = 1_000
_MOST_SNAPSHOTS: Final = 1_000
_INTERVAL_S: Final = 60.0
"""A long scan asks so often: what it brought first is captured while it goes on."""
_FIRST: Final = UUID(int=0)


class AskForCaptures(Protocol):
    """See `CaptureRequests.request_tables`."""

    def __call__(
        self, tables: Sequence[NamedTable], newest: int, /, *, parent_id: UUID | None, full: bool
    ) -> int:
        """Asks for captures, and returns of how many tables."""
        ...


class ScanCaptures:
    """The captures that one scan asks for; for one thread.

    Asked for is every table whose current snapshot nobody asked for before, so what a scan that died left out
    is asked for by the next one. What failed or was cancelled is not asked for again: an operator retries it.
    Policies of tables and catalogs hold, too.

    Attributes:
        asked: number of tables that were asked for.
    """

    def __init__(self, store: Store, ask: AskForCaptures, row: ConnectorRow, parent_id: UUID | None) -> None:
        """Takes whom to ask, the connector, and the job of the scan, if there is one."""
        self._store = store
        self._ask = ask
        self._row = row
        self._parent_id = parent_id
        self._selection = Selection(row.policy)
        self._asked_at = time.monotonic()
        self.asked = 0

    def now_and_then(self) -> None:
        """Asks for what came here since the scan asked last, if that is long ago."""
        # a full scan asks for all of its tables, once
        if not self._row.policy.full and time.monotonic() - self._asked_at > _INTERVAL_S:
            self.request(lambda: None)

    def request(self, check: Callable[[], None]) -> None:
        """Asks for all that is to be captured.

        Args:
            check: called between pages; raises to stop.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        policy = self._row.policy
        if not policy.captures:
            return
        after, newest = _FIRST, policy.newest(_MOST_SNAPSHOTS)
        while True:
            page = self._page(after)
            wanted = [table for table in page if self._is_below(table)]
            self.asked += self._ask(wanted, newest, parent_id=self._parent_id, full=policy.full)
            check()
            if len(page) < _PAGE:
                break
            after = page[-1].entry_id
        self._asked_at = time.monotonic()

    def _page(self, after: UUID) -> list[NamedTable]:
        row, full = self._row, self._row.policy.full
        with self._store.read() as conn:
            if row.policy.takes_metadata:
                return captures.of_connector(conn, row.id, after, _PAGE, captured=full)
            return captures.of_catalog(conn, row.catalog_id, row.id, after, _PAGE, captured=full)

    def _is_below(self, table: NamedTable) -> bool:
        above, namespace = self._row.namespace, table.namespace
        if self._row.policy.takes_metadata:
            return True
        is_below = namespace[: len(above)] == above
        return is_below and self._selection.takes(namespace[len(above) :], table.name)
