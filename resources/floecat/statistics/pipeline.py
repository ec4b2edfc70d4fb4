"""What the pipeline asks: which tables have captures to work on, and the work itself.

A run of the pipeline is a worker beside those of the service. All take jobs from the same rows, so any number
of them works at once, and each goes on from what another one submitted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from floecat.errors import NoSuchTableError
from floecat.jobs.queue import Drained, JobQueue, Worked
from floecat.statistics.capture.capture_jobs import CaptureJobs
from floecat.statistics.capture.requests import CAPTURE, GROUP, SPARK_LANE, GroupPayload
from floecat.store import jobs
from floecat.store.jobs import JobRow
from floecat.store.statistics import captures

if TYPE_CHECKING:
    from floecat.entries.open_entries import EntryParts
    from floecat.statistics.capture.groups import ReadGroup

__all__ = ["PendingTable", "StatisticsPipeline"]


class PendingTable(msgspec.Struct, frozen=True):
    """A table with captures to work on."""

    entry_id: UUID
    name: str
    captures: int
    groups: int
    """Groups of files that wait for a worker."""
    offered_bytes: int
    """Size of the files of groups that wait for Spark first."""
    oldest_at_ms: int
    """When the first of them was asked for."""


class StatisticsPipeline:
    """Captures for the pipeline, over all catalogs. Safe to share between threads."""

    def __init__(self, parts: EntryParts, work: CaptureJobs) -> None:
        self._parts = parts
        self._store = parts.store
        self._work = work

    def search_commits(self) -> int:
        """See `CaptureRequests.search_commits`."""
        return self._work.requests.search_commits()

    def pending(self) -> list[PendingTable]:
        """Tables with open captures, the one that waits for longest first.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        with self._store.read() as conn:
            open_captures = jobs.list_open(conn, CAPTURE)
            groups = jobs.list_open(conn, GROUP) if open_captures else []
        found: dict[str, PendingTable] = {}
        for job in sorted(open_captures, key=lambda each: each.created_at_ms):
            of_table = [group for group in groups if group.subject == job.subject]
            known = found.get(job.subject)
            found[job.subject] = PendingTable(
                UUID(job.subject),
                job.title,
                1 if known is None else known.captures + 1,
                len(of_table),
                sum(_size(group) for group in of_table if group.lane == SPARK_LANE),
                job.created_at_ms if known is None else known.oldest_at_ms,
            )
        return list(found.values())

    def request(self, entry_id: UUID, *, created_by: str, snapshots: Sequence[int] | None = None) -> int:
        """Asks for captures of snapshots of a table: of some, or of all that were never captured.

        Returns:
            How many are open now.

        Raises:
            NoSuchTableError: there is no such table.
        """
        with self._store.read() as conn:
            named = captures.named(conn, [entry_id])
            wanted = captures.uncaptured(conn, entry_id, 1_000) if snapshots is None else list(snapshots)
        if not named:
            raise NoSuchTableError(f"Table does not exist: {entry_id}")
        return len(self._work.requests.request(named[0], wanted, "backfill", created_by))

    def drain(self, entry_id: UUID, stopped: Callable[[], bool] = lambda: False) -> Drained:
        """Works on the captures of one table, and on their groups, until none is due.

        Groups that are offered to Spark are left to `work_on_next_group`.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        subject, total = str(entry_id), Drained()
        while not stopped():
            done = [
                queue.drain_once(stopped=stopped, subject=subject)
                for queue in (self._work.captures, self._work.groups)
            ]
            total = Drained(*(sum(counts) for counts in zip(total, *done, strict=True)))
            if not any(each.total - each.waiting for each in done):
                return total
        return total

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
        groups = self._work.groups
        kind = msgspec.structs.replace(groups.kind, work=partial(self._work.work_on_group, read=read))
        queue = JobQueue(self._store, self._parts.clock, kind)
        rows = queue.claim(lane=SPARK_LANE)
        return (rows[0], queue.work_on(rows[0])) if rows else None


def _size(group: JobRow) -> int:
    return msgspec.json.decode(group.payload, type=GroupPayload).size_bytes
