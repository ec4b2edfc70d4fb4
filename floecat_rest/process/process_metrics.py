"""Metrics of this process: commits, storage, caches, the pool of the store, requests that wait.

The kernel counts without knowing Prometheus. What it counted is copied every few seconds, since with several
worker processes each has its own numbers, and any of them answers `/metrics`.
"""

from __future__ import annotations

import asyncio
from collections import Counter as Counts
from collections.abc import Iterator
from typing import Final

from prometheus_client import Counter, Gauge

from floecat.memory_budget import MemoryBudget
from floecat.runtime import Kernel
from floecat_rest.process.request_threads import RequestThreads

__all__ = ["ProcessMetrics"]

_INTERVAL_S: Final = 5.0
_REQUESTS: Final = ("reads", "writes", "lookups", "deletes", "lists", "directories")
_LIVE_SUM: Final = "livesum"

_refusals = Counter("floecat_refusals", "Refusals of what principals may not do", ("privilege", "kind"))
_commits = Counter("floecat_commits", "Commits, by what became of them", ("outcome",))
_refreshes = Counter("floecat_delta_refreshes", "Looks at logs of Delta tables by loads", ("outcome",))
_requests = Counter("floecat_storage_requests", "Requests to storage", ("kind",))
_bytes = Counter("floecat_storage_bytes", "Bytes of files that were read and written", ("direction",))
_cached = Gauge("floecat_cache_bytes", "Bytes that caches hold", ("cache",), multiprocess_mode=_LIVE_SUM)
_connections = Gauge(
    "floecat_store_connections", "Connections of the store's pool in use", multiprocess_mode=_LIVE_SUM
)
_waiting = Gauge(
    "floecat_waiting_requests", "Requests that wait for a thread", ("threads",), multiprocess_mode=_LIVE_SUM
)


class ProcessMetrics:
    """Copies the numbers of a kernel and of its threads."""

    def __init__(self, kernel: Kernel, memory: MemoryBudget, threads: RequestThreads) -> None:
        self._kernel = kernel
        self._budgets = (kernel.parts.memory, memory)
        self._threads = threads
        self._told: Counts[tuple[str, str]] = Counts()

    def update(self) -> None:
        """Brings the metrics up to date. To be called on the event loop."""
        metrics = {
            "refusals": _refusals,
            "commits": _commits,
            "refreshes": _refreshes,
            "requests": _requests,
            "bytes": _bytes,
        }
        for metric, label, total in self._totals():
            metrics[metric].labels(*label.split()).inc(total - self._told[metric, label])
            self._told[metric, label] = total
        for budget in self._budgets:
            for name, held in budget.held_bytes().items():
                _cached.labels(name).set(held)
        _connections.set(self._kernel.store.connections_in_use)
        for kind, waiting in self._threads.waiting.items():
            _waiting.labels(kind).set(waiting)

    async def run(self) -> None:
        """Updates until it is cancelled."""
        while True:
            self.update()
            await asyncio.sleep(_INTERVAL_S)

    def _totals(self) -> Iterator[tuple[str, str, int]]:
        for (privilege, kind), total in self._kernel.access.refusals.counts.items():
            yield "refusals", f"{privilege} {kind}", total
        for outcome, total in self._kernel.parts.writes.outcomes.items():
            yield "commits", outcome, total
        for outcome, total in self._kernel.delta.refreshes.items():
            yield "refreshes", outcome, total
        counts = self._kernel.files.counters.counts
        for kind in _REQUESTS:
            yield "requests", kind, getattr(counts, kind)
        yield "bytes", "read", counts.bytes_read
        yield "bytes", "written", counts.bytes_written
