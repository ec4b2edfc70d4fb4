from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from floecat.fileio.base import Counters, Counts


def test_threads_count_together() -> None:
    counters = Counters()
    with ThreadPoolExecutor(8) as threads:
        for _ in range(4000):
            threads.submit(counters.add, "reads")
    counters.add("bytes_read", number=10)
    assert counters.counts == Counts(reads=4000, bytes_read=10)
    assert counters.counts.calls == 4000


def test_counts_can_be_compared_over_time() -> None:
    counters = Counters()
    counters.add("writes")
    before = counters.counts
    counters.add("writes")
    counters.add("lists", number=3)
    assert counters.counts - before == Counts(writes=1, lists=3)
