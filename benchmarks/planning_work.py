"""What planning processes run for the benchmark of plans."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from typing import NamedTuple

from floecat.planning.files.scans import ScanPlan

__all__ = ["Found", "count_tasks", "hold"]


class Found(NamedTuple):
    """What the planning process tells of a plan: number of tasks, and its peak memory in MiB."""

    tasks: int
    peak_mib: float


def hold(plan: ScanPlan) -> Iterator[int]:  # noqa: ARG001
    """Yields the id of the process, after it was busy for a second: another plan starts another process."""
    time.sleep(1)
    yield os.getpid()


def count_tasks(plan: ScanPlan) -> Iterator[Found]:
    """Yields one message with the first task, and one at the end."""
    tasks = 0
    for batch in plan:
        if not tasks:
            yield Found(len(batch), 0)
        tasks += len(batch)
    yield Found(tasks, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
