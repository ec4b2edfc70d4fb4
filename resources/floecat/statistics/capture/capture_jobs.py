"""Captures as kinds of jobs: the capture of a snapshot, and groups of its files where these are many.

One capture of a table works at a time: it holds the lane of the table, a lease in its own name that its
groups extend. What reads files is imported with the first job.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Final
from uuid import UUID

from floecat.clock import Clock
from floecat.errors import FloecatError
from floecat.jobs.kinds import Backoff, JobKind
from floecat.jobs.queue import JobQueue
from floecat.jobs.running import JobPostponedError, RunningJob
from floecat.settings import StatisticsSettings
from floecat.statistics.capture.requests import CAPTURE, GROUP, PUBLICATION, CaptureRequests, payload_of
from floecat.store.database.engine import Store
from floecat.store.jobs import jobs, leases
from floecat.store.jobs.jobs import DEFAULT_LANE

if TYPE_CHECKING:
    from floecat.catalog.recent_loads import RecentLoads
    from floecat.statistics.capture.capture_work import CaptureWork
    from floecat.statistics.capture.reading.file_groups import ReadGroup

__all__ = ["CaptureJobs"]

_HOUR_MS: Final = 3_600_000
_LANE_WAIT_MS: Final = 250
_MOST_HELD: Final = 1_000
"""Publications that one look puts off: those that are due first."""

_log = logging.getLogger(__name__)


class CaptureJobs:
    """Makes captures, and has them worked on. Safe to share between threads.

    Attributes:
        captures: the queue of captures.
        groups: the queue of groups.
        publications: the queue of statistics files that wait until nobody works on their table.
        requests: asks for captures.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        settings: StatisticsSettings,
        open_work: Callable[[CaptureJobs], CaptureWork],
    ) -> None:
        """Opens nothing.

        Args:
            store: holds the jobs.
            settings: of statistics.
            open_work: makes what does the work, once.
        """
        self._store = store
        self._clock = clock
        self._settings = settings
        self._open_work = open_work
        self._lock = Lock()
        self._work: CaptureWork | None = None
        self._seen_loads = 0
        capture = self._kind(CAPTURE, self._capture, lambda *_: None)
        self.captures = JobQueue(store, clock, capture)
        self.groups = JobQueue(store, clock, self._kind(GROUP, self.work_on_group, self._group_ended))
        publication = self._kind(PUBLICATION, self._publish, lambda *_: None)
        self.publications = JobQueue(store, clock, publication)
        self.requests = CaptureRequests(store, clock, capture, publication, self.wake)

    def _kind(
        self,
        name: str,
        work: Callable[[RunningJob], str | None],
        ended: Callable[[RunningJob, str, str | None], None],
    ) -> JobKind:
        settings = self._settings
        return JobKind(
            name=name,
            work=work,
            lease_ms=settings.lease_ms,
            max_attempts=settings.max_attempts,
            backoff=Backoff(base_ms=settings.backoff_base_ms, max_ms=settings.backoff_max_ms),
            retention_ms=settings.completed_retention_hours * _HOUR_MS,
            ended=ended,
        )

    @property
    def queues(self) -> tuple[JobQueue, ...]:
        """All of them."""
        return self.captures, self.groups, self.publications

    def wake(self) -> None:
        """Has the workers of this process look for what is due."""
        for queue in self.queues:
            queue.wake()

    def work(self) -> CaptureWork:
        """What does the work."""
        with self._lock:
            if self._work is None:
                self._work = self._open_work(self)
            return self._work

    def work_on_group(self, job: RunningJob, read: ReadGroup | None = None) -> str | None:
        """See `CaptureWork.group`."""
        return self.work().group(job, read)

    def _capture(self, job: RunningJob) -> str | None:
        payload = payload_of(job.row)
        if not self.enter_lane(payload.entry_id, job.row.id):
            raise JobPostponedError(
                "another capture of the table is under way",
                self._clock.now_ms() + _LANE_WAIT_MS,
                DEFAULT_LANE,
            )
        waits = False
        try:
            return self.work().capture(job, payload)
        except JobPostponedError:
            waits = True
            raise
        finally:
            if not waits:
                self.leave_lane(payload.entry_id, job.row.id)

    def _publish(self, job: RunningJob) -> str | None:
        return self.work().publish(job, payload_of(job.row))

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

    def _group_ended(self, job: RunningJob, _state: str, _error: str | None) -> None:
        """Makes the capture due whose last group this was. If that is lost, the capture looks by itself."""
        parent_id = job.row.parent_id
        if parent_id is None:
            return
        try:
            with self._store.read() as conn:
                open_groups = jobs.count_open_children(conn, parent_id)
            if not open_groups:
                self._store.run(lambda conn: jobs.make_due(conn, parent_id, self._clock.now_ms()))
                self.wake()
        except FloecatError as error:
            _log.warning("capture %s was not made due: %s", parent_id, error.message)

    # -- lanes ----------------------------------------------------------------------------------------------

    def enter_lane(self, entry_id: UUID, capture_id: UUID) -> bool:
        """Takes the lane of a table for a capture, or extends it; False if another capture has it."""
        name, lease_ms = _lane(entry_id), self._settings.lease_ms
        return self._store.run(
            lambda conn: leases.acquire(conn, name, capture_id, self._clock.now_ms(), lease_ms)
        )

    def leave_lane(self, entry_id: UUID, capture_id: UUID) -> None:
        """Lets the next capture of a table begin, if this one has the lane."""
        self._store.run(lambda conn: leases.release(conn, _lane(entry_id), capture_id))


def _lane(entry_id: UUID) -> str:
    return f"capture:{entry_id}"
