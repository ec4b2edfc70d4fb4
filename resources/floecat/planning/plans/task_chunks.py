"""Plans scans into chunks of rendered tasks. What planning needs is imported with the first plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Final
from uuid import UUID

from floecat.memory_budget import LruCache
from floecat.planning.plans.plan_answers import TaskChunk, unpack
from floecat.planning.plans.plan_requests import PlannedScan
from floecat.storage.catalog_storage import CatalogStorage
from floecat.struct_types import prepare_struct_types

if TYPE_CHECKING:
    from floecat.planning.files.planner import Planner

__all__ = ["ChunkedPlanner"]

_CHUNKS_PER_RANGE: Final = 64
_FILES_PER_CHUNK: Final = 128
"""Most files that count for a range."""


class ChunkedPlanner:
    """Plans scans. Thread-safe."""

    def __init__(
        self,
        open_planner: Callable[[], Planner],
        sets: LruCache[Mapping[str, bytes]],
        *,
        files_per_chunk: int,
        chunk_bytes: int,
        task_bytes: int,
    ) -> None:
        """Opens nothing yet.

        Args:
            open_planner: makes the planner, once.
            sets: keeps large sets of filters as JSON.
            files_per_chunk: most tasks in a chunk.
            chunk_bytes: most bytes of a chunk; one task may have more.
            task_bytes: most bytes of a task.
        """
        self._open_planner = open_planner
        self._sets = sets
        self._files_per_chunk = files_per_chunk
        self._chunk_bytes = chunk_bytes
        self._task_bytes = task_bytes
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
            scan: what is read.
            stop: see `Planner.run`.

        Raises:
            FloecatError: as `Planner.run`.
        """
        planner = self.planner()
        from floecat.planning.plans.chunk_planning import plan_chunks
        from floecat.planning.plans.task_answers import ChunkSize

        most = ChunkSize(self._files_per_chunk, self._chunk_bytes, self._task_bytes)
        return plan_chunks(planner, storage, scan, most, stop)

    def answer(self, fields: bytes | None, plan_id: UUID, scan: Callable[[], PlannedScan]) -> bytes:
        """A chunk of a plan as it is answered: the fields of a JSON object without the braces.

        Args:
            fields: the chunk; None for one without tasks.
            scan: what the plan reads; called if sets of its filter are put into the chunk.
        """
        unpacked = unpack(fields)
        if b"\0" not in unpacked:
            return unpacked
        from floecat.planning.plans.chunk_planning import whole_filter
        from floecat.planning.plans.residual_texts import insert_sets, sets_of

        def make() -> Mapping[str, bytes]:
            return sets_of(whole_filter(scan()))

        return insert_sets(
            unpacked,
            self._sets.get_or_make(plan_id, make, lambda made: sum(map(len, made.values()))),
        )

    def ranges(
        self, storage: CatalogStorage, scan: PlannedScan, *, stop: Callable[[], bool] | None = None
    ) -> list[tuple[int, int]]:
        """Data manifests of a scan of very many files in ranges, each to be planned by itself.

        Args:
            scan: what is read. One with a filter is better planned as a whole: its files may be few.
            stop: see `Planner.run`.

        Returns:
            First and end of each, by place; none for a scan that is not so large.

        Raises:
            FloecatError: as `Planner.run`.
        """
        most = _CHUNKS_PER_RANGE * min(self._files_per_chunk, _FILES_PER_CHUNK)
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
