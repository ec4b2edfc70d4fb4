"""Questions of the pipeline: tables that have captures to work on, and the work itself.

A run of the pipeline is a worker beside those of the service. All take jobs from the same rows, so any number
of them works at once, and each goes on from what another one submitted.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from floecat.errors import NoSuchTableError
from floecat.jobs.queue import Drained, Worked
from floecat.statistics.capture.capture_jobs import CaptureJobs
from floecat.statistics.capture.reports import TableReports
from floecat.statistics.capture.requests import (
    BACKFILL,
    CAPTURE,
    GROUP,
    PUBLICATION,
    SPARK_LANE,
    TABLE,
    GroupPayload,
)
from floecat.store.jobs import jobs
from floecat.store.jobs.jobs import JobRow
from floecat.store.statistics import captures

if TYPE_CHECKING:
    from floecat.entries.open_entries import EntryParts
    from floecat.planning.plans.task_chunks import ChunkedPlanner
    from floecat.statistics.capture.reading.file_groups import ReadGroup
    from floecat.statistics.capture.reading.page_indexes import BuiltIndexes, ReadIndexes
    from floecat.statistics.capture.reading.processes import CaptureProcesses

__all__ = ["CapturableTable", "StatisticsPipeline"]


class CapturableTable(msgspec.Struct, frozen=True):
    """A table with captures to work on."""

    entry_id: UUID
    name: str
    captures: int
    groups: int
    """Groups of files that wait for a worker."""
    offered_bytes: int
    """Size of the files of groups that wait for Spark first."""
    oldest_at_ms: int
    """Time when the first of them was asked for."""


class StatisticsPipeline:
    """Captures for the pipeline, over all catalogs. Safe to share between threads.

    Attributes:
        reports: numbers of captured tables for people.
    """

    def __init__(
        self,
        parts: EntryParts,
        work: CaptureJobs,
        planner: ChunkedPlanner,
        processes: CaptureProcesses,
        *,
        memory_bytes: int,
    ) -> None:
        """Puts it together; `memory_bytes` is what may be held of a data file at a time."""
        self._processes = processes
        self._memory_bytes = memory_bytes
        self._parts = parts
        self._planner = planner
        self.reports = TableReports(parts, planner)
        self._store = parts.store
        self._work = work

    def search_commits(self) -> int:
        """See `CaptureRequests.search_commits`."""
        return self._work.requests.search_commits()

    def pending(self) -> list[CapturableTable]:
        """Tables with open captures, the one that waits for longest first.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        with self._store.read() as conn:
            open_captures = jobs.list_open(conn, CAPTURE)
            publications = jobs.list_open(conn, PUBLICATION)
            groups = jobs.list_open(conn, GROUP) if open_captures else []
            asked = jobs.list_open(conn, TABLE)
        now_ms = self._parts.clock.now_ms()
        # publications wait for their table, and are left only from then on
        open_captures += [
            msgspec.structs.replace(each, created_at_ms=each.not_before_ms)
            for each in publications
            if each.not_before_ms <= now_ms
        ]
        open_captures += asked
        of_table: dict[str, tuple[list[JobRow], list[JobRow]]] = {}
        for job in sorted(open_captures, key=lambda each: each.created_at_ms):
            of_table.setdefault(job.subject, ([], []))[0].append(job)
        for group in groups:
            if group.subject in of_table:
                of_table[group.subject][1].append(group)
        return [
            CapturableTable(
                UUID(subject),
                its_captures[-1].title,
                sum(job.kind != TABLE for job in its_captures),
                len(its_groups),
                sum(_size(group) for group in its_groups if group.lane == SPARK_LANE),
                its_captures[0].created_at_ms,
            )
            for subject, (its_captures, its_groups) in of_table.items()
        ]

    def next_due_in_ms(self, entry_id: UUID) -> int | None:
        """The time until the next capture of a table, or group of its files, is due; None without any.

        What another worker holds, or is offered to Spark, counts as due when it would be given up.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        with self._store.read() as conn:
            rows = [
                row for kind in (TABLE, CAPTURE, GROUP) for row in jobs.list_open(conn, kind, str(entry_id))
            ]
        now_ms = self._parts.clock.now_ms()
        return min((max(0, row.not_before_ms - now_ms) for row in rows), default=None)

    def request(self, entry_id: UUID, *, created_by: str, latest: bool = False) -> int:
        """Asks for captures of snapshots of a table: of the current one, or of all that were never captured.

        Returns:
            How many are open now.

        Raises:
            NoSuchTableError: there is no such table.
        """
        requests = self._work.requests
        if not latest:
            return len(requests.backfill(entry_id, created_by))
        with self._store.read() as conn:
            named = captures.named(conn, [entry_id])
        if not named:
            raise NoSuchTableError(f"Table does not exist: {entry_id}")
        current = named[0].snapshot_id
        return 0 if current is None else len(requests.request(named[0], [current], BACKFILL, created_by))

    def drain(self, entry_id: UUID, stopped: Callable[[], bool] = lambda: False) -> Drained:
        """Works on the captures of one table, and on their groups, until none is due.

        Groups that are offered to Spark are left to `work_on_next_group`.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        subject, total = str(entry_id), Drained()
        while not stopped():
            done = [queue.drain_once(stopped=stopped, subject=subject) for queue in self._work.queues]
            total = Drained(*(sum(counts) for counts in zip(total, *done, strict=True)))
            if not any(each.total - each.waiting for each in done):
                return total
        return total

    def build_page_indexes(
        self,
        entry_id: UUID,
        progress: Callable[[int, int], None] = lambda *_: None,
        read_large: ReadIndexes | None = None,
        large_bytes: int = 0,
    ) -> BuiltIndexes | None:
        """See `PageIndexes.build`."""
        # pyarrow and numpy come with it
        from floecat.statistics.capture.reading.page_indexes import PageIndexes

        return PageIndexes(self._parts, self._planner, self._processes.run, self._memory_bytes).build(
            entry_id, progress, read_large, large_bytes
        )

    def work_on_next_group(self, read: ReadGroup) -> tuple[JobRow, Worked] | None:
        """Claims the group of a large capture whose offer ends first, and works on it.

        Threads may do so at once.

        Args:
            read: reads the files of the group in other processes. Calls its last argument now and then with
                the number of files done; that raises to stop.

        Returns:
            The job as it was claimed, and what became of it; `None` if none is offered.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        work = partial(self._work.capture_group, read=read)
        return self._work.groups.work_on_offered(SPARK_LANE, work)


def _size(group: JobRow) -> int:
    return msgspec.json.decode(group.payload, type=GroupPayload).size_bytes
