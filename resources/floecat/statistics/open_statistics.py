"""The services of statistics, constraints, index artifacts and captures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from floecat.catalog.open_catalog import CatalogServices
from floecat.commits.commit import CommitService
from floecat.entries.calls import Call
from floecat.entries.formats import TableFormats
from floecat.entries.open_entries import EntryParts
from floecat.jobs.background import Background
from floecat.planning.plans.task_chunks import ChunkedPlanner
from floecat.planning.table_states import CurrentTables
from floecat.settings import Settings
from floecat.statistics.capture.capture_jobs import CaptureJobs
from floecat.statistics.capture.control import CaptureControl
from floecat.statistics.capture.policy_service import CapturePolicies
from floecat.statistics.capture.publishing.publication import StatisticsPublication
from floecat.statistics.capture.reading.processes import CaptureProcesses
from floecat.statistics.constraints import Constraints
from floecat.statistics.index_artifacts import IndexArtifacts
from floecat.statistics.pipeline import StatisticsPipeline
from floecat.statistics.snapshots import Snapshots, TableSnapshot
from floecat.statistics.target_statistics import TargetStatistics

if TYPE_CHECKING:
    from floecat.statistics.capture.capture_snapshot import SnapshotCapturer
    from floecat.statistics.records import StatisticsRecord

__all__ = ["StatisticsServices", "open_statistics"]


@dataclass(frozen=True, slots=True)
class StatisticsServices:
    """The services."""

    targets: TargetStatistics
    constraints: Constraints
    index_artifacts: IndexArtifacts
    snapshots: Snapshots
    jobs: CaptureJobs
    captures: CaptureControl
    """Captures, as operators see them."""
    policies: CapturePolicies
    pipeline: StatisticsPipeline


def open_statistics(
    parts: EntryParts,
    formats: TableFormats,
    planner: ChunkedPlanner,
    catalog: CatalogServices,
    commits: CommitService,
    settings: Settings,
    background: Background,
) -> StatisticsServices:
    """The services over the parts of entries.

    Args:
        formats: bring tables up to date.
        catalog: makes the call that commits statistics files, and tells which tables clients have loaded.
        commits: commits them.
        background: works on captures.
    """
    store, clock = parts.store, parts.clock
    snapshots = Snapshots(parts.entries, CurrentTables(parts.entries, formats))
    publication = StatisticsPublication(
        parts, catalog.calls, commits, catalog.loads, quiet_ms=settings.statistics.publish_after.ms
    )
    processes = CaptureProcesses(settings.statistics.memory_bytes, settings.statistics.file_processor_time.ms)

    def open_work(queues: CaptureJobs) -> SnapshotCapturer:
        # pyarrow and numpy come with it
        from floecat.statistics.capture.capture_snapshot import SnapshotCapturer

        return SnapshotCapturer(
            parts, planner, settings.statistics, publication, processes, queues.requests, queues.division
        )

    jobs = CaptureJobs(store, clock, settings.statistics, open_work)
    background.add(stop=processes.close)
    poll_ms = settings.statistics.poll_interval_ms
    workers = settings.statistics.workers
    for queue in jobs.queues:
        # to ask for captures takes no time
        threads = min(workers, 1) if queue is jobs.tables else workers
        background.add_queue(queue, threads=threads, poll_interval_ms=poll_ms)
    background.add_loop("hold-publications", partial(jobs.hold_publications, catalog.loads), poll_ms)
    if workers and settings.statistics.enabled:
        background.add_loop("commit-search", jobs.requests.search_commits, poll_ms)

    def captured_files(
        _call: Call, found: TableSnapshot, after: str, limit: int
    ) -> tuple[Sequence[StatisticsRecord], bool]:
        return jobs.work().files.page(found.entry_id, found.snapshot_id, after, limit)

    return StatisticsServices(
        targets=TargetStatistics(store, clock, parts.keys, snapshots, captured_files),
        constraints=Constraints(store, clock, parts.keys, snapshots),
        index_artifacts=IndexArtifacts(store, clock, parts.keys, snapshots),
        snapshots=snapshots,
        jobs=jobs,
        captures=CaptureControl(store, clock, snapshots, jobs, background.jobs),
        policies=CapturePolicies(snapshots, commits, catalog.changes, settings.statistics),
        pipeline=StatisticsPipeline(
            parts, jobs, planner, processes, memory_bytes=settings.statistics.memory_bytes
        ),
    )
