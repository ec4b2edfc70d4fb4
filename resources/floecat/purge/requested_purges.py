"""A requested purge of a table by what is reachable from its metadata."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from uuid import UUID

from floecat.clock import Clock
from floecat.jobs.running_job import JobPostponedError
from floecat.purge.deletion.ranges import RangeRunner
from floecat.purge.deletion.table_purge import PurgeTarget, TablePurge
from floecat.purge.spi import PurgeRequest
from floecat.storage.catalog_storage import CatalogStorage

__all__ = ["LARGE_LANE", "purge_requested"]

LARGE_LANE: Final = "large-purge"
"""Lane of jobs that are offered to runs with many executors."""


def purge_requested(
    purge: TablePurge,
    request: PurgeRequest,
    find_storage: Callable[[UUID], CatalogStorage],
    clock: Clock,
    offer_ms: int,
    runner: RangeRunner | None = None,
) -> None:
    """Deletes the files of a table; see `TablePurge.purge`.

    Args:
        purge: deletes them.
        request: what is deleted.
        find_storage: of a catalog, with the keys of this moment.
        offer_ms: how long the purge of a large table waits for others; 0 for not at all.
        runner: deletes data files in other processes.

    Raises:
        JobPostponedError: the table is large, and others may delete its files faster.
    """
    progress = request.progress
    offers = offer_ms > 0 and request.attempt == 1 and progress.offered_until_ms is None

    def storage() -> CatalogStorage:
        return find_storage(request.catalog_id)

    target = PurgeTarget(
        request.table_uuid,
        request.metadata_location,
        storage(),
        request.attachment(),
        request.format,
        request.lease,
        storage,
        request.entry_id,
    )

    def offer(files: int) -> None:
        progress.offered_until_ms = clock.now_ms() + offer_ms
        reason = f"{files} files: waits for a run on Spark before the service deletes them"
        raise JobPostponedError(reason, progress.offered_until_ms, LARGE_LANE)

    if_large = offer if offers and runner is None else None
    purge.purge(target, request.check, progress, runner=runner, if_large=if_large)
