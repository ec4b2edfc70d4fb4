"""Plans scans into chunks of rendered tasks. What planning needs is imported with the first plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Lock
from typing import TYPE_CHECKING, Final

from floecat.planning.plans.plan_answers import TaskChunk
from floecat.planning.plans.plan_requests import PlannedScan
from floecat.storage.catalog_storage import CatalogStorage
from floecat.struct_types import prepare_struct_types

if TYPE_CHECKING:
    from floecat.planning.files.planner import Planner

__all__ = ["ChunkedPlanner"]

_CHUNKS_PER_RANGE: Final = 64


class ChunkedPlanner:
    """Plans scans. Thread-safe."""

    def __init__(self, open_planner: Callable[[], Planner], *, files_per_chunk: int) -> None:
        """Opens nothing yet.

        Args:
            open_planner: makes the planner, once.
            files_per_chunk: most tasks in a chunk.
        """
        self._open_planner = open_planner
        self._files_per_chunk = files_per_chunk
        self._lock = Lock()
        self._planner: Planner | None = None

    def planner(self) -> Planner:
        """The planner."""
        with self._lock:
            if self._planner is None:
                self._planner = self._open_planner()
                prepare_struct_types()
            return self._planner

    def run(
        self, storage: CatalogStorage, scan: PlannedScan, *, stop: Callable[[], bool] | None = None
    ) -> Iterator[TaskChunk]:
        """Yields the tasks of a scan in chunks, in an order that is always the same.

        Args:
            storage: of the catalog.
            scan: what is read.
            stop: see `Planner.run`.

        Raises:
            FloecatError: as `Planner.run`.
        """
        planner = self.planner()
        from floecat.planning.plans.chunk_planning import plan_chunks

        return plan_chunks(planner, storage, scan, self._files_per_chunk, stop)

    def ranges(
        self, storage: CatalogStorage, scan: PlannedScan, *, stop: Callable[[], bool] | None = None
    ) -> list[tuple[int, int]]:
        """Data manifests of a scan of very many files in ranges, each to be planned by itself.

        Args:
            storage: of the catalog.
            scan: what is read. One with a filter is better planned as a whole: its files may be few.
            stop: see `Planner.run`.

        Returns:
            First and end of each, by place; none for a scan that is not so large.

        Raises:
            FloecatError: as `Planner.run`.
        """
        most = _CHUNKS_PER_RANGE * self._files_per_chunk
        sent = scan.sent
        is_whole = sent.filter in (None, True) and sent.min_rows_requested is None
        if not is_whole or scan.total_files <= 2 * most:
            return []
        planner = self.planner()
        from floecat.planning.plans.chunk_planning import count_files

        ranges: list[tuple[int, int]] = []
        begun = files = 0
        counts = count_files(planner, storage, scan, stop)
        for place, count in enumerate(counts):
            if place > begun and files + count > most:
                ranges.append((begun, place))
                begun, files = place, 0
            files += count
        return [*ranges, (begun, len(counts))] if ranges else []

    def close(self) -> None:
        """Ends the planner, if it was opened."""
        with self._lock:
            if self._planner is not None:
                self._planner.close()
