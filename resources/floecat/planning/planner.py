"""Plans scans, small ones in this process and others in processes of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.planning.scans import ScanPlan, ScanRequest, Stop
from floecat.storage.catalog_storage import CatalogStorage

__all__ = ["Planner"]

T = TypeVar("T")


class Planner:
    """Plans scans. Thread-safe."""

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
        raise NotImplementedError

    def close(self) -> None:
        """Ends the processes."""
