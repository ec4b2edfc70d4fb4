"""The services of statistics, constraints, index artifacts and captures."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from floecat.catalog.catalog_changes import CatalogChanges
from floecat.catalog.catalogs import CallContext
from floecat.catalog.recent_loads import RecentLoads
from floecat.commits.commit import CommitService
from floecat.entries.calls import Call
from floecat.entries.formats import TableFormats
from floecat.entries.open_entries import EntryParts
from floecat.errors import FloecatError
from floecat.planning.plans.task_chunks import ChunkedPlanner
from floecat.planning.table_states import CurrentTables
from floecat.settings import Settings
from floecat.statistics.capture.capture_jobs import CaptureJobs
from floecat.statistics.capture.policy_service import CapturePolicies
from floecat.statistics.capture.publishing.publication import Publication
from floecat.statistics.capture.reading.processes import CaptureProcesses
from floecat.statistics.constraints import Constraints
from floecat.statistics.index_artifacts import IndexArtifacts
from floecat.statistics.pipeline import StatisticsPipeline
from floecat.statistics.snapshots import Snapshots, TableSnapshot
from floecat.statistics.target_statistics import TargetStatistics

if TYPE_CHECKING:
    from floecat.statistics.capture.capture_work import CaptureWork
    from floecat.statistics.records import StatisticsRecord

__all__ = ["CommitSearch", "StatisticsServices", "open_statistics"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StatisticsServices:
    """The services."""

    targets: TargetStatistics
    constraints: Constraints
    index_artifacts: IndexArtifacts
    snapshots: Snapshots
    jobs: CaptureJobs
    policies: CapturePolicies
    pipeline: StatisticsPipeline
    processes: CaptureProcesses


def open_statistics(
    parts: EntryParts,
    formats: TableFormats,
    planner: ChunkedPlanner,
    calls: CallContext,
    commits: CommitService,
    loads: RecentLoads,
    catalogs: CatalogChanges,
    settings: Settings,
    *,
    wake: Callable[[], None],
) -> StatisticsServices:
    """The services over the parts of entries.

    Args:
        formats: bring tables up to date.
        calls: makes the call that commits statistics files.
        commits: commits them.
        loads: tells which tables clients have loaded.
        catalogs: changes properties of catalogs.
        wake: called when a capture, or a group of its files, is due.
    """
    store, clock = parts.store, parts.clock
    snapshots = Snapshots(parts.entries, CurrentTables(parts.entries, formats))
    publication = Publication(parts, calls, commits, loads, quiet_ms=settings.statistics.publish_after.ms)
    processes = CaptureProcesses(settings.statistics.memory_bytes, settings.statistics.file_processor_time.ms)

    def open_work(queues: CaptureJobs) -> CaptureWork:
        # pyarrow and numpy come with it
        from floecat.statistics.capture.capture_work import CaptureWork

        return CaptureWork(
            parts,
            planner,
            settings.statistics,
            publication,
            queues.requests,
            queues.groups.kind,
            enter_lane=queues.enter_lane,
            wake=wake,
            processes=processes,
        )

    jobs = CaptureJobs(
        store,
        clock,
        settings.statistics,
        open_work,
        wake=wake,
    )

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
        policies=CapturePolicies(snapshots, commits, catalogs, settings.statistics),
        pipeline=StatisticsPipeline(
            parts, jobs, planner, processes, memory_bytes=settings.statistics.memory_bytes
        ),
        processes=processes,
    )


class CommitSearch:
    """A thread that looks for commits to capture, and for loads, for as long as a process lives."""

    def __init__(self, looks: Sequence[Callable[[], object]], *, interval_ms: int) -> None:
        """Prepares the thread; `interval_ms` is the time between two rounds of looks."""
        self._looks = looks
        self._interval_s = interval_ms / 1000
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="commit-search", daemon=True)

    def start(self) -> None:
        """Starts to look."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_s):
            for look in self._looks:
                try:
                    look()
                except FloecatError as error:
                    _log.warning("commits and loads were not searched for captures: %s", error.message)
                except Exception:  # noqa: BLE001 - the next look may succeed
                    _log.exception("commits and loads were not searched for captures")
