"""Plans scans, small ones in this process and others in processes of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.values.bounds import DEFAULT_BOUNDS, Bounds
from floecat.memory_budget import LruCache
from floecat.planning.manifest_files import ManifestCache
from floecat.planning.scan_planning import ManifestLists, ScanPlanner
from floecat.planning.scans import ScanPlan, ScanRequest, Stop
from floecat.planning.targets import ScanTarget, resolve
from floecat.storage.catalog_storage import CatalogStorage

__all__ = ["Planner", "local_planner"]

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


class Planner:
    """Plans scans. Thread-safe."""

    def __init__(self, local: ScanPlanner) -> None:
        """Takes the planner of this process."""
        self._local = local

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
        yield from work(self._local.plan(storage, target, stop))

    def close(self) -> None:
        """Ends the processes."""
        self._local.close()
