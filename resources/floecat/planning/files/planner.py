"""Chooses where scans are planned: small ones in this process, others in processes of their own.

`scan_planning` plans.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.values.bounds import DEFAULT_BOUNDS, Bounds
from floecat.memory_budget import default_memory_bytes
from floecat.planning.files.disk_cache import open_disk_cache
from floecat.planning.files.processes import PlanProcesses
from floecat.planning.files.scan_planning import ScanPlanner, local_planner
from floecat.planning.files.scans import ScanPlan, ScanRequest, Stop
from floecat.planning.files.targets import ScanTarget, resolve
from floecat.storage.catalog_storage import CatalogStorage
from floecat.storage.own_folders import FolderCheck, OwnFolders, ReadCheck

__all__ = ["Planner", "open_planner"]

T = TypeVar("T")

_MOST_LISTS: Final = 16
"""Manifest lists of an incremental scan that are read in the service to see whether it is small."""


def open_planner(
    *,
    local_bytes: int,
    processes: int | None = None,
    memory_bytes: int | None = None,
    in_process_bytes: int = 256 << 10,
    most_waiting: int = 100,
    bounds: Bounds = DEFAULT_BOUNDS,
    disk_folder: str | None = None,
    disk_bytes: int = 1 << 30,
    check_read: FolderCheck = lambda *_: None,
) -> Planner:
    """The planner of a service.

    Args:
        local_bytes: memory of this process for manifests of small plans.
        processes: how many others plan; by default one less than cores, at least one. 0 plans here.
        memory_bytes: of manifests in the others, together. By default half of what caches of this process
            have by default.
        in_process_bytes: scans whose manifests have no more bytes are planned here.
        most_waiting: plans that may wait for a process.
        bounds: of manifests and manifest lists.
        disk_folder: where all keep decoded manifests, for a restart; see `DiskCache`.
        disk_bytes: of these.
        check_read: refuses files for an entry in folders of others.
    """
    disk = open_disk_cache(disk_folder, disk_bytes)
    cores = len(os.sched_getaffinity(0))
    count = max(cores - 1, 1) if processes is None else processes
    others = None
    if count:
        others = PlanProcesses(
            count,
            memory_bytes=memory_bytes or default_memory_bytes() // 2,
            threads=max(cores // count, 1),
            most_waiting=most_waiting,
            bounds=bounds,
            disk=(None if disk is None else disk_folder, disk_bytes),
        )
    local = local_planner(local_bytes, 1, bounds, disk)
    return Planner(local, others, in_process_bytes=in_process_bytes, check_read=check_read)


class Planner:
    """Plans scans. Thread-safe."""

    def __init__(
        self,
        local: ScanPlanner,
        processes: PlanProcesses | None = None,
        *,
        in_process_bytes: int = 0,
        check_read: FolderCheck = lambda *_: None,
    ) -> None:
        """Takes where plans are made.

        Args:
            local: the planner of this process.
            processes: others; None to make all plans here.
            in_process_bytes: scans whose manifests have no more bytes are planned here.
            check_read: refuses files for an entry in folders of others.
        """
        self._check_read = check_read
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
            request: what to read.
            work: takes the plan and yields results. A module-level function or a `functools.partial` of one:
                it, and its results, are pickled where the plan is made in another process.
            stop: asked from time to time; planning ends with `PlanStoppedError` when it returns True. Closing
                the iterator ends planning too.

        Raises:
            BadRequestError: no such snapshot, both kinds of range, the filter cannot be bound, or a manifest
                lies in a folder of another entry.
            FileMissingError: a manifest is gone.
            InvalidMetadataError: a manifest is damaged or exceeds a bound.
            UnavailableError: storage fails, or too many plans wait.
            PlanStoppedError: `stop` returned True.
        """
        return self._results(storage, resolve(metadata, request), work, stop)

    def read_check(self, storage: CatalogStorage, own: OwnFolders | None) -> ReadCheck:
        """Refuses files that the plans of an entry name, where these are to be read too."""
        return ReadCheck(self._check_read, storage, own)

    def _results(
        self,
        storage: CatalogStorage,
        target: ScanTarget,
        work: Callable[[ScanPlan], Iterator[T]],
        stop: Stop | None,
    ) -> Iterator[T]:
        # before anything is read: also what is said of a file tells whether it is there
        check = self.read_check(storage, target.own)
        check.files(target.named_files)
        is_small = self._processes is None or self._is_small(storage, target)
        if is_small or self._processes is None:
            yield from work(self._local.plan(storage, target, stop, check_read=check.folders))
        else:
            yield from self._processes.run(storage, target, work, stop, check.folders)

    def _is_small(self, storage: CatalogStorage, target: ScanTarget) -> bool:
        if len(target.snapshots) > _MOST_LISTS:
            return False
        size = self._local.manifest_bytes(storage, target, at_most=self._in_process_bytes)
        return size is not None and size <= self._in_process_bytes

    def close(self) -> None:
        """Ends the processes; plans that are being made fail."""
        self._local.close()
        if self._processes is not None:
            self._processes.close()
