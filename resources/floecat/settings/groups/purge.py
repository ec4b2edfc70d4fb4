"""Deletion of the files of dropped tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from floecat.settings.fields import SettingsGroup
from floecat.settings.kinds import Duration, boolean, duration, integer, mapping, text

__all__ = ["PurgeSettings"]

_DAY = Duration(86_400_000)


class PurgeSettings(SettingsGroup, frozen=True, kw_only=True):
    """Deletion of the files of tables that were dropped with purge."""

    enabled: Annotated[bool, boolean()] = True
    """The service works on the purge queue. Off leaves it to other processes."""

    purger: Annotated[str, text()] = "sql-async"
    """The purger that deletes files: `sql-async` (workers), `synchronous` (the request that drops a table),
    or a purger of another package as `package.module:Class` or by the name of its entry point."""

    properties: Annotated[Mapping[str, str], mapping(secret=True)] = {}
    """Properties of a purger of another package."""

    purger_rows_bytes: Annotated[int, integer(minimum=0)] = 1 << 20
    """Most bytes that a purger of another package keeps in the store for one purge."""

    worker_threads: Annotated[int, integer(minimum=1, maximum=64)] = 4
    """Jobs that one process works on at a time. Requests that purge at once wait for their turn, too, where
    each table is purged in a process of its own."""

    process_per_job: Annotated[bool, boolean()] = True
    """The service purges each table in a process of its own, at lower priority. Off takes less memory, and
    requests wait longer while files are deleted."""

    delete_threads_per_job: Annotated[int, integer(minimum=1, maximum=64)] = 8
    """Bulk deletes of one job that run at a time."""

    poll_interval_ms: Annotated[int, integer(minimum=10)] = 5_000
    """Time between two looks of idle workers for jobs of other processes; a drop wakes those of its own."""

    claim_batch: Annotated[int, integer(minimum=1, maximum=64)] = 16
    """Most jobs that one look takes, and never more than threads are idle."""

    lease_timeout_ms: Annotated[int, integer(minimum=1_000)] = 300_000
    """Time that a worker owns a job without renewing. It renews after a third of that."""

    max_attempts: Annotated[int, integer(minimum=1)] = 5
    """Attempts of a job before it is set aside for an operator."""

    backoff_base_ms: Annotated[int, integer(minimum=1)] = 30_000
    """Longest wait after the first failed attempt; it doubles with each further one."""

    backoff_max_ms: Annotated[int, integer(minimum=1)] = 3_600_000
    """Longest wait between attempts."""

    completed_retention_hours: Annotated[int, integer(minimum=0)] = 168
    """Time that a job is kept after its files were deleted, or after it was cancelled."""

    files_per_call: Annotated[int, integer(minimum=1, maximum=1000)] = 1000
    """Files in one call to storage."""

    large_job_files: Annotated[int, integer(minimum=1)] = 200_000
    """Number of files, by the counts of the manifest lists, from which on a job is offered to Spark first."""

    large_job_offer: Annotated[Duration, duration()] = Duration(15 * 60_000)
    """Time that a large job waits for Spark; then the service works on it. `PT0S` offers none."""

    orphan_grace: Annotated[Duration, duration(floor=_DAY)] = Duration(3 * 86_400_000)
    """Files that were written later than so long ago are never taken for orphans, as the commit that names
    them may be under way. Less than a day counts as a day."""
