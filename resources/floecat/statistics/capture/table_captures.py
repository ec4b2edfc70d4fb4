"""Captures of a table that a connector found: a job that asks for captures of its snapshots, and waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from floecat.jobs.groups import WAIT_MS
from floecat.jobs.running_job import JobFailedError, JobPostponedError, RunningJob
from floecat.statistics.capture.reading.snapshot_coverage import PROBLEM
from floecat.statistics.capture.requests import CaptureRequests, TablePayload
from floecat.store.database.engine import Connection
from floecat.store.database.errors import ForeignKeyError
from floecat.store.jobs import jobs
from floecat.store.jobs.jobs import JobRow
from floecat.store.statistics import captures
from floecat.store.statistics.captures import NamedTable

__all__ = ["CAPTURED", "SNAPSHOTS", "TableCaptures"]

SNAPSHOTS: Final = "snapshots"
"""Key in the progress: number of snapshots that are, or were, to be captured."""

CAPTURED: Final = "captured"
"""Key in the progress: number of those that were captured."""

_BY_OTHERS: Final = "every snapshot is captured, or captured by another job"

_MOST: Final = 1_000
"""Snapshots that one job asks for, newest first."""


class TableCaptures:
    """Works on such jobs. Safe to share between threads."""

    def __init__(self, requests: CaptureRequests) -> None:
        self._requests = requests

    def work(self, job: RunningJob) -> str | None:
        """Asks for the captures; once they have ended, sums up what became of them.

        Raises:
            JobPostponedError: captures are open.
            JobFailedError: none succeeded.
        """
        return self._ask(job) if SNAPSHOTS not in job.progress else self._sum_up(job)

    def _ask(self, job: RunningJob) -> str | None:
        payload = msgspec.json.decode(job.row.payload, type=TablePayload)
        with job.store.read() as conn:
            tables = captures.named(conn, [payload.entry_id])
            wanted = _wanted(conn, payload, tables[0]) if tables else []
        if not tables:
            return "the table was dropped"
        if not wanted:
            return _BY_OTHERS
        job.progress[SNAPSHOTS] = len(wanted)
        try:
            made = self._requests.request_parts(job, tables[0], wanted)
        except ForeignKeyError:
            return "the table was dropped"
        if not made:
            return _BY_OTHERS
        raise _waits_for(job, made)

    def _sum_up(self, job: RunningJob) -> str | None:
        with job.store.read() as conn:
            left = jobs.count_open_children(conn, job.row.id)
            ended = [] if left else jobs.children(conn, job.row.id)
        if left:
            raise _waits_for(job, left)
        captured = [each for each in ended if each.state == "succeeded"]
        job.progress[CAPTURED] = len(captured)
        problem = _problem(ended)
        if problem is None:
            job.progress.pop(PROBLEM, None)
            return None
        job.progress[PROBLEM] = problem
        if not captured:
            raise JobFailedError(problem)
        return problem


def _wanted(conn: Connection, payload: TablePayload, table: NamedTable) -> list[int]:
    if payload.newest:
        newest = captures.newest(conn, table.entry_id, min(payload.newest, _MOST))
        return [each.snapshot_id for each in newest if payload.full or not each.captured]
    if table.snapshot_id is None:
        return []
    capture = captures.get(conn, table.entry_id, table.snapshot_id)
    is_captured = capture is not None and capture.status == "finalized"
    return [] if is_captured and not payload.full else [table.snapshot_id]


def _waits_for(job: RunningJob, captures: int) -> JobPostponedError:
    return JobPostponedError(f"waits for {captures} captures", job.clock.now_ms() + WAIT_MS)


def _problem(ended: Sequence[JobRow]) -> str | None:
    """The captures that failed or are partial, in a sentence; `None` if there are none."""
    reasons = [
        each.last_error or each.state
        if each.state != "succeeded"
        else msgspec.json.decode(each.progress).get(PROBLEM)
        for each in ended
    ]
    missing = [reason for reason in reasons if reason is not None]
    if not missing:
        return None
    return f"missing or partial: {len(missing)} of {len(ended)} snapshots, the first: {missing[0]}"
