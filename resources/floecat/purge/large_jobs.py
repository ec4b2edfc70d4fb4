"""Purges of large tables, which a run with many executors may take before the service works on them.

The first claim of a job counts the files of its table. If they are many, the job is put back into a lane of
its own: a run takes it from there until the offer ends, after which it is due for every worker.
"""

from __future__ import annotations

from functools import partial

from floecat.jobs.queue import JobQueue, Worked
from floecat.purge.deletion.ranges import RangeRunner
from floecat.purge.purge_jobs import PurgeWork
from floecat.purge.requested_purges import LARGE_LANE
from floecat.store.jobs.jobs import JobRow

__all__ = ["LargeJobs"]


class LargeJobs:
    """Finds the purges that are offered, and works on them with the help of other processes."""

    def __init__(self, queue: JobQueue, work: PurgeWork) -> None:
        self._queue = queue
        self._work = work

    def offered(self) -> int:
        """See `JobQueue.offered`."""
        return self._queue.offered(LARGE_LANE)

    def work_on_next(self, runner: RangeRunner) -> tuple[JobRow, Worked] | None:
        """Works on a job whose ranges of manifests `runner` deletes; see `JobQueue.work_on_offered`."""
        return self._queue.work_on_offered(LARGE_LANE, partial(self._work, runner=runner))
