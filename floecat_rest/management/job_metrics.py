"""Jobs in the metrics of Prometheus: what waits in the store, and what purges of this service did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client import Counter
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from floecat.events.table_events import PurgeCompleted, PurgeFailed, TableEvent

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
    """Jobs in the store, whoever works on them."""

    def __init__(self, counts: Mapping[tuple[str, str], int], oldest_ms: Mapping[str, int]) -> None:
        self._counts = counts
        self._oldest_ms = oldest_ms

    def collect(self) -> Iterator[Metric]:
        """Yields the gauges."""
        jobs = GaugeMetricFamily("floecat_jobs", "Jobs in the store", labels=("kind", "state"))
        for labels, count in self._counts.items():
            jobs.add_metric(labels, count)
        yield jobs
        ages = GaugeMetricFamily(
            "floecat_jobs_oldest_age_seconds", "Age of the open job that waits longest", labels=("kind",)
        )
        for kind, age_ms in self._oldest_ms.items():
            ages.add_metric((kind,), age_ms / 1000)
        yield ages
