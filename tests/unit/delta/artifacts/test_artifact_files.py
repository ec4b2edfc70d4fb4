from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from floecat.delta.artifacts.artifact_files import ByteBudget


@pytest.mark.parametrize("total", [0, 1, 100])
def test_a_budget_holds_threads_back(total: int) -> None:
    budget = ByteBudget(total)
    total = max(total, 1)
    held, most = 0, 0
    lock = threading.Lock()

    def work(count: int) -> None:
        nonlocal held, most
        with budget.holding(count):
            with lock:
                held += min(count, total)
                most = max(most, held)
            with lock:
                held -= min(count, total)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, [60, 30, 500, 50, 1, 100] * 50))
    assert 0 < most <= total
