"""Plans scans, small ones in this process and others in processes of their own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.values.bounds import DEFAULT_BOUNDS, Bounds
from floecat.memory_budget import LruCache, MemoryBudget, default_memory_bytes
from floecat.planning.manifest_files import ManifestCache
from floecat.planning.processes import PlanProcesses
from floecat.planning.scan_planning import ManifestLists, ScanPlanner
from floecat.planning.scans import ScanPlan, ScanRequest, Stop
from floecat.planning.targets import ScanTarget, resolve
from floecat.settings import Settings
from floecat.storage.catalog_storage import CatalogStorage

__all__ = ["Planner", "local_planner", "open_planner"]

T = TypeVar("T")

_LIST_PART: Final = 8
"""Which part of the memory is for manifest lists."""


def local_planner(memory_bytes: int, threads: int, bounds: Bounds = DEFAULT_BOUNDS) -> ScanPlanner:
    """A planner for this process.

    Args:
        memory_bytes: of manifests that it keeps.
        threads: how many decode manifests.
        bounds: of manifests and manifest lists.
    """
    lists = memory_bytes // _LIST_PART
    manifests: LruCache[Any] = LruCache(memory_bytes - lists)
    return ScanPlanner(
        ManifestCache(manifests, bounds), ManifestLists(LruCache(lists), bounds), max(threads, 1)
    )


def open_planner(settings: Settings, memory: MemoryBudget) -> Planner:
    """The planner of a service.

    Args:
        settings: of the process.
        memory: of the process; small plans keep manifests there.
    """
    planning, bounds = settings.planning, settings.limits
    cores = len(os.sched_getaffinity(0))
    count = max(cores - 1, 1) if planning.processes is None else planning.processes
    processes = None
    if count:
        processes = PlanProcesses(
            count,
            memory_bytes=planning.memory or default_memory_bytes() // 2,
            threads=max(cores // count, 1),
            most_waiting=planning.most_waiting,
            bounds=bounds,
        )
    local = local_planner(memory.share("plan-manifests"), 1, bounds)
    return Planner(local, processes, in_process_bytes=planning.in_process_bytes)


class Planner:
    """Plans scans. Thread-safe."""

    def __init__(
        self, local: ScanPlanner, processes: PlanProcesses | None = None, *, in_process_bytes: int = 0
    ) -> None:
        """Takes where plans are made.

        Args:
            local: the planner of this process.
            processes: others; None to make all plans here.
            in_process_bytes: scans whose manifests have no more bytes are planned here.
        """
        self._local = local
        self._processes = processes
        self._in_process_bytes = in_process_bytes

    def run(
        self,
        storage: CatalogStorage,
        metadata: TableMetadata,
        request: ScanRequest,
        work: Callable[[ScanPlan], Iterator[T]],
        *,
        stop: Stop | None = None,
    ) -> Iterator[T]:
        """Plans a scan, and yields what `work` makes of the plan where it is made.

        A request that is refused is refused by this call, before the first result.

        Args:
            storage: of the catalog; nothing outside its allowed locations is read.
            metadata: of the table.
            request: what to read.
            work: takes the plan and yields results. A module-level function or a `functools.partial` of one:
                it, and its results, are pickled where the plan is made in another process.
            stop: asked from time to time; planning ends with `PlanStoppedError` when it returns True. Closing
                the iterator ends planning too.

        Raises:
            BadRequestError: no such snapshot, both kinds of range, or the filter cannot be bound.
            FileMissingError: a manifest is gone.
            InvalidMetadataError: a manifest is damaged or exceeds a bound.
            UnavailableError: storage fails, or too many plans wait.
            PlanStoppedError: `stop` returned True.
        """
        return self._results(storage, resolve(metadata, request), work, stop)

    def _results(
        self,
        storage: CatalogStorage,
        target: ScanTarget,
        work: Callable[[ScanPlan], Iterator[T]],
        stop: Stop | None,
    ) -> Iterator[T]:
        is_small = self._processes is None or self._is_small(storage, target)
        if is_small or self._processes is None:
            yield from work(self._local.plan(storage, target, stop))
        else:
            yield from self._processes.run(storage, target, work, stop)

    def _is_small(self, storage: CatalogStorage, target: ScanTarget) -> bool:
        if target.is_incremental or len(target.snapshots) > 1:
            return False
        size = self._local.manifest_bytes(storage, target, at_most=self._in_process_bytes)
        return size is not None and size <= self._in_process_bytes

    def close(self) -> None:
        """Ends the processes; plans that are being made fail."""
        self._local.close()
        if self._processes is not None:
            self._processes.close()
