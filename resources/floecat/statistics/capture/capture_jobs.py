"""Captures as kinds of jobs: the capture of a snapshot, and groups of its files where these are many.

One capture of a table works at a time: it has the lock of the table. What reads files is imported with the
first job.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Final
from uuid import UUID

import msgspec

from floecat.clock import Clock
from floecat.jobs.groups import Groups, makes_parent_due
from floecat.jobs.kinds import Backoff, Describe, Ended, JobKind, Work
from floecat.jobs.queue import JobQueue
from floecat.jobs.running_job import RunningJob
from floecat.settings import StatisticsSettings
from floecat.statistics.capture.descriptions import (
    describe_capture,
    describe_group,
    describe_publication,
    describe_table,
)
from floecat.statistics.capture.requests import CAPTURE, GROUP, PUBLICATION, TABLE, CaptureRequests
from floecat.statistics.capture.table_captures import TableCaptures
from floecat.store.database.engine import Store
from floecat.store.jobs import jobs

if TYPE_CHECKING:
    from floecat.catalog.recent_loads import RecentLoads
    from floecat.statistics.capture.capture_snapshot import SnapshotCapturer
    from floecat.statistics.capture.reading.file_groups import ReadGroup

__all__ = ["CaptureJobs"]

_HOUR_MS: Final = 3_600_000
_MOST_HELD: Final = 1_000
"""Publications that one look puts off: those that are due first."""


class CaptureJobs:
    """Makes captures, and has them worked on. Safe to share between threads.

    Attributes:
        tables: the queue of tables that scans of connectors ask for.
        captures: the queue of captures.
        division: divides captures into groups.
        groups: the queue of groups.
        publications: the queue of statistics files that wait until nobody works on their table.
        requests: asks for captures.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        settings: StatisticsSettings,
        open_work: Callable[[CaptureJobs], SnapshotCapturer],
    ) -> None:
        """Opens nothing; `open_work` makes what does the work, once."""
        self._store = store
        self._clock = clock
        self._settings = settings
        self._open_work = open_work
        self._lock = Lock()
        self._work: SnapshotCapturer | None = None
        self._seen_loads = 0
        ended = makes_parent_due(store, clock, self.wake)
        of_tables = msgspec.structs.replace(
            self._kind(TABLE, self._capture_table, describe_table), is_retried_anew=True
        )
        capture = self._kind(CAPTURE, self._capture, describe_capture, lock=CAPTURE, ended=ended)
        group = self._kind(GROUP, self.capture_group, describe_group, lock=CAPTURE)
        publication = self._kind(PUBLICATION, self._publish, describe_publication)
        self.tables = JobQueue(store, clock, of_tables)
        self.captures = JobQueue(store, clock, capture)
        self.division = Groups(store, clock, group, wake=self.wake)
        self.groups = self.division.queue
        self.publications = JobQueue(store, clock, publication)
        self.requests = CaptureRequests(store, clock, capture, publication, of_tables, self.wake)
        self._of_tables = TableCaptures(self.requests)

    def _kind(
        self,
        name: str,
        work: Work,
        describe: Describe,
        lock: str | None = None,
        ended: Ended | None = None,
    ) -> JobKind:
        settings = self._settings
        return JobKind(
            name=name,
            work=work,
            lease_ms=settings.lease_ms,
            max_attempts=settings.max_attempts,
            backoff=Backoff(base_ms=settings.backoff_base_ms, max_ms=settings.backoff_max_ms),
            retention_ms=settings.completed_retention_hours * _HOUR_MS,
            lock=lock,
            describe=describe,
            ended=ended,
        )

    @property
    def queues(self) -> tuple[JobQueue, ...]:
        """The queues of tables, captures, groups and publications."""
        return self.tables, self.captures, self.groups, self.publications

    def wake(self) -> None:
        """Has the workers of this process look for what is due."""
        for queue in self.queues:
            queue.wake()

    def work(self) -> SnapshotCapturer:
        """The capturer that does the work, opened at the first call."""
        with self._lock:
            if self._work is None:
                self._work = self._open_work(self)
            return self._work

    def capture_group(self, job: RunningJob, read: ReadGroup | None = None) -> str | None:
        """See `FileCapturer.work`."""
        return self.work().groups.work(job, read)

    def _capture_table(self, job: RunningJob) -> str | None:
        return self._of_tables.work(job)

    def _capture(self, job: RunningJob) -> str | None:
        return self.work().capture(job)

    def _publish(self, job: RunningJob) -> str | None:
        return self.work().publish(job)

    def hold_publications(self, loads: RecentLoads) -> None:
        """Puts off the publications of tables that this process was asked for: any process may make them.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        now_ms = self._clock.now_ms()
        seen, self._seen_loads = self._seen_loads, loads.count
        if seen == loads.count:
            return
        with self._store.read() as conn:
            waiting = jobs.list_open(conn, PUBLICATION, limit=_MOST_HELD)
        held: dict[UUID, int] = {}
        for job in waiting:
            until_ms = loads.counts_until_ms(UUID(job.subject), job.created_at_ms)
            if until_ms > max(now_ms, job.not_before_ms):
                held[job.id] = until_ms
        if held:
            self._store.run(lambda conn: jobs.postpone(conn, held, now_ms))
