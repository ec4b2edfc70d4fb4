"""Purges of large tables, which a run with many executors may take before the service works on them.

The first claim of a job counts the files of its table. If they are many, the job is put back into a lane of
its own: a run takes it from there until the offer ends, after which it is due for every worker.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

from floecat.clock import Clock
from floecat.jobs.queue import JobQueue, Worked
from floecat.purge.deletion.ranges import RangeRunner
from floecat.purge.purge_jobs import PurgeWork
from floecat.purge.requested_purges import LARGE_LANE
from floecat.store.database.engine import Store
from floecat.store.jobs import jobs
from floecat.store.jobs.jobs import JobRow

__all__ = ["LargeJobs"]


class LargeJobs:
    """Finds the purges that are offered, and works on them with the help of other processes."""

    def __init__(self, store: Store, clock: Clock, queue: JobQueue, work: PurgeWork) -> None:
        """Puts it together.

        Args:
            store: holds the jobs.
            queue: of purge jobs.
            work: what they do.
        """
        self._store: Final = store
        self._clock = clock
        self._kind = queue.kind
        self._work = work

    def offered(self) -> list[JobRow]:
        """The jobs that are offered now, of all catalogs, oldest first.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        with self._store.read() as conn:
            return jobs.list_in_lane(conn, self._kind.name, LARGE_LANE, self._clock.now_ms())

    def work_on_next(self, runner: RangeRunner) -> tuple[JobRow, Worked] | None:
        """Claims the job whose offer ends first, and works on it.

        Args:
            runner: deletes the files of ranges of manifests in other processes.

        Returns:
            The job as it was claimed, and what became of it; `None` if none is offered.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        kind = msgspec.structs.replace(self._kind, work=partial(self._work, runner=runner))
        queue = JobQueue(self._store, self._clock, kind)
        rows = queue.claim(lane=LARGE_LANE)
        return (rows[0], queue.work_on(rows[0])) if rows else None
