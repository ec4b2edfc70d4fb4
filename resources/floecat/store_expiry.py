"""Removes expired rows: idempotency records, staged tables, reports, traces of commits, plans, jobs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event, Thread

import msgspec
import uuid_utils.compat as uuids

from floecat.clock import Clock
from floecat.errors import FloecatError
from floecat.jobs.operations import JobOperations
from floecat.store.commits import idempotency, metrics
from floecat.store.commits.confirmed_transactions import TRACES_KEPT_MS, delete_traces
from floecat.store.database.engine import Connection, Store
from floecat.store.entries import staged_tables
from floecat.store.jobs import leases
from floecat.store.planning import plans, queries

__all__ = ["Expired", "Expiry"]

_log = logging.getLogger(__name__)

_LEASE = "expiry"
_BATCH = 1000


class Expired(msgspec.Struct, frozen=True):
    """How many rows a sweep removed."""

    idempotency_records: int = 0
    staged_tables: int = 0
    metrics_reports: int = 0
    transactions: int = 0
    plan_tasks: int = 0
    queries: int = 0
    """Scan plans among them."""
    jobs: int = 0


class Expiry:
    """Sweeps the store at intervals, in one process at a time."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        operations: JobOperations,
        *,
        interval_ms: int,
        keep_reports_ms: int,
    ) -> None:
        """Sets what is swept, and the times.

        Args:
            store: what is swept.
            operations: sweeps jobs.
            interval_ms: between two sweeps.
            keep_reports_ms: how long a metrics report is kept.
        """
        self._store = store
        self._clock = clock
        self._operations = operations
        self._interval_ms = interval_ms
        self._keep_reports_ms = keep_reports_ms
        self._owner = uuids.uuid7()
        self._stopped = Event()
        self._thread: Thread | None = None

    def sweep(self) -> Expired:
        """Removes expired rows, unless another process is doing so.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        now_ms = self._clock.now_ms()
        lease_ms = self._interval_ms
        if not self._store.run(lambda conn: leases.acquire(conn, _LEASE, self._owner, now_ms, lease_ms)):
            return Expired()
        return Expired(
            idempotency_records=self._remove(lambda conn: idempotency.delete_expired(conn, now_ms, _BATCH)),
            staged_tables=self._remove(lambda conn: staged_tables.delete_expired(conn, now_ms, _BATCH)),
            metrics_reports=self._remove(
                lambda conn: metrics.delete_before(conn, now_ms - self._keep_reports_ms, _BATCH)
            ),
            transactions=self._remove(lambda conn: delete_traces(conn, now_ms - TRACES_KEPT_MS, _BATCH)),
            plan_tasks=self._remove(lambda conn: plans.delete_expired_tasks(conn, now_ms, _BATCH)),
            queries=self._remove(lambda conn: queries.delete_expired(conn, now_ms, _BATCH)),
            jobs=self._batches(lambda: self._operations.sweep(_BATCH)),
        )

    def start(self) -> None:
        """Starts the thread that sweeps."""
        self._thread = Thread(target=self._loop, name="expiry", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stops the thread and waits for it."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _loop(self) -> None:
        while not self._stopped.wait(self._interval_ms / 1000):
            try:
                self.sweep()
            except FloecatError as error:
                _log.warning("expired rows were not removed: %s", error.message)

    def _remove(self, delete: Callable[[Connection], int]) -> int:
        return self._batches(lambda: self._store.run(delete))

    def _batches(self, delete: Callable[[], int]) -> int:
        """Deletes in batches, each a short transaction."""
        total = 0
        while not self._stopped.is_set():
            removed = delete()
            total += removed
            if removed < _BATCH:
                break
        return total
