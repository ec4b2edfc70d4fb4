"""Purges in the metrics of Prometheus: totals of what this service did, and what waits in the store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client import Counter
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from floecat.events.table_events import PurgeCompleted, PurgeFailed, TableEvent
from floecat.purge.purge_operations import PurgeTotals

__all__ = ["StoreGauges", "count_purge"]

_FILES = ("deleted", "shared", "outside", "gc_disabled")

_jobs = Counter("floecat_purges", "Purges that ended", ("outcome",))
_files = Counter("floecat_purge_files", "Files of purges that ended, by what became of them", ("outcome",))
_bytes = Counter("floecat_purge_bytes", "Bytes of deleted files, as far as metadata tells their size")


def count_purge(event: TableEvent) -> None:
    """Counts a purge that ended. A listener of the kernel's events."""
    if isinstance(event, PurgeCompleted):
        _jobs.labels("succeeded").inc()
        for name in _FILES:
            _files.labels(name).inc(event.counts.get(name, 0))
        _bytes.inc(event.counts.get("bytes", 0))
    elif isinstance(event, PurgeFailed):
        _jobs.labels("dead_letter").inc()


class StoreGauges(Collector):
    """Jobs and purges in the store, whoever works on them."""

    def __init__(self, totals: PurgeTotals, jobs: Mapping[tuple[str, str], int]) -> None:
        self._totals = totals
        self._jobs = jobs

    def collect(self) -> Iterator[Metric]:
        """Yields the gauges."""
        jobs = GaugeMetricFamily("floecat_purge_jobs", "Purges in the store", labels=("state",))
        for state, count in self._totals.jobs.items():
            jobs.add_metric([state.lower()], count)
        yield jobs
        all_jobs = GaugeMetricFamily("floecat_jobs", "Jobs in the store", labels=("kind", "state"))
        for labels, count in self._jobs.items():
            all_jobs.add_metric(labels, count)
        yield all_jobs
        yield GaugeMetricFamily(
            "floecat_purge_oldest_age_seconds",
            "Time since the drop of the open purge that waits longest",
            value=self._totals.oldest_open_age_ms / 1000,
        )
