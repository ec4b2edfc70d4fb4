"""Makes the plan of a scan: manifest list, then deletes, then one data manifest after the other."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import numpy as np
import pyarrow as pa

from floecat.allocator import trim_soon
from floecat.errors import InvalidMetadataError, PlanStoppedError
from floecat.iceberg.avro.string_columns import Bools, Int64s
from floecat.iceberg.manifests.lists import DELETE_MANIFEST, ManifestFile
from floecat.iceberg.manifests.reader import ManifestEntryStatus
from floecat.iceberg.schemas.types import PrimitiveType
from floecat.iceberg.values.bounds import DEFAULT_BOUNDS, Bounds
from floecat.memory_budget import LruCache
from floecat.planning.files.deletes import PATH_COLUMN_ID, DeleteIndex, FoundDeletes, equality_ids
from floecat.planning.files.disk_cache import DiskCache
from floecat.planning.files.judging import (
    by_metrics,
    by_partition,
    by_summaries,
    narrowed,
    needs_metrics,
    set_slices,
)
from floecat.planning.files.manifest_cache import ManifestCache
from floecat.planning.files.manifest_disk import ManifestDisk
from floecat.planning.files.manifest_files import COLUMN_SIZES, ManifestColumns, SpecTypes
from floecat.planning.files.manifest_lists import ManifestLists
from floecat.planning.files.scans import FileTasks, ScanCounters, ScanPlan, SetSlices, Stop
from floecat.planning.files.targets import ScanTarget
from floecat.planning.filters.bound import Test, bound_predicates, is_large_set, tests_of
from floecat.planning.filters.evidence import Evidence
from floecat.planning.filters.expressions import TRUE
from floecat.planning.filters.verdicts import Residuals, Verdict, combine, whole_residual
from floecat.storage.catalog_storage import CatalogStorage
from floecat.storage.own_folders import CheckRead
from floecat.working_memory import current_reservation

__all__ = ["ScanPlanner", "local_planner"]

_LIST_PART: Final = 8
"""Part of the memory for manifest lists, one of so many."""

_CHECK_S: Final = 0.02
_AHEAD: Final = 4
"""Manifests that are decoded before they are needed, by thread."""

_MANY: Final = 16
"""Manifests from which on others may help to decode them."""

_AHEAD_BYTES: Final = 64 << 20
"""The same, of all threads, as stored."""

_TRIM_FROM_BYTES: Final = 1 << 20
"""Of manifests as stored; decoded they take many times as much."""

_VERDICTS_AT_ONCE: Final = 8_000_000
"""Files that are judged together, times the tests of the filter."""


class ScanPlanner:
    """Plans scans in this process. Thread-safe.

    Attributes:
        manifests: decoded manifests in memory, which `threads` threads decode.
        lists: manifest lists in memory.
    """

    def __init__(self, manifests: ManifestCache, lists: ManifestLists, threads: int) -> None:
        self.manifests = manifests
        self.lists = lists
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="plan")

    def manifest_bytes(self, storage: CatalogStorage, target: ScanTarget, *, at_most: int) -> int | None:
        """Bytes of all manifests that a plan may read; None if a list of them has more than `at_most`.

        Raises:
            FileMissingError, InvalidMetadataError, UnavailableError: as reading the manifest list does.
        """
        lengths: dict[str, int] = {}
        for snapshot in target.snapshots:
            listed = self.lists.load(storage, target.table_uuid, snapshot, at_most=at_most)
            if listed is None:
                return None
            lengths |= {each.manifest_path: each.manifest_length for each in listed if target.may_read(each)}
        if target.unlike is not None:
            others = self.lists.load(storage, target.table_uuid, target.unlike, at_most=at_most)
            if others is None:
                return None
            for each in others:
                if each.content != DELETE_MANIFEST:
                    lengths.pop(each.manifest_path, None)
        return sum(lengths.values())

    def plan(
        self,
        storage: CatalogStorage,
        target: ScanTarget,
        stop: Stop | None = None,
        on_cold: Callable[[frozenset[int]], None] | None = None,
        check_read: CheckRead = lambda _: None,
    ) -> ScanPlan:
        """Begins a plan: reads the manifest list and delete manifests.

        Args:
            target: what is read.
            stop: asked from time to time; ends the plan.
            on_cold: called if many data manifests have to be decoded, with the columns whose metrics are
                needed: `decode` of other planners may help.
            check_read: called with folders of manifests beside the table's own before one is read; raises.

        Raises:
            FileMissingError, InvalidMetadataError, UnavailableError: as reading files does.
            PlanStoppedError: `stop` returned True.
        """
        ahead = self._threads * _AHEAD
        return _Scan(self, self._pool, ahead, storage, target, stop, on_cold, check_read).plan()

    def decode(
        self,
        storage: CatalogStorage,
        target: ScanTarget,
        column_ids: frozenset[int],
        part: tuple[int, int],
        stop: Stop | None = None,
    ) -> Iterator[tuple[ManifestFile, SpecTypes, ManifestColumns]]:
        """Yields data manifests of a plan, the last ones first, as the plan goes the other way.

        Args:
            target: what the plan reads.
            column_ids: columns whose metrics it needs.
            part: which part of the manifests, from 1, and of how many.
            stop: as of `plan`.

        Raises:
            FloecatError: as `plan`.
        """
        return _Scan(self, self._pool, 1, storage, target, stop).decode(column_ids, *part)

    def close(self) -> None:
        """Ends the threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def local_planner(
    memory_bytes: int, threads: int, bounds: Bounds = DEFAULT_BOUNDS, disk: DiskCache | None = None
) -> ScanPlanner:
    """A planner for this process.

    Args:
        memory_bytes: of manifests that it keeps.
        threads: how many decode manifests.
        bounds: of manifests and manifest lists.
        disk: keeps manifests for a restart.
    """
    lists = memory_bytes // _LIST_PART
    manifests: LruCache[Any] = LruCache(memory_bytes - lists)
    return ScanPlanner(
        ManifestCache(manifests, bounds, None if disk is None else ManifestDisk(disk)),
        ManifestLists(LruCache(lists), bounds),
        max(threads, 1),
    )


class _Scan:
    """A plan in the making."""

    def __init__(
        self,
        planner: ScanPlanner,
        pool: ThreadPoolExecutor,
        ahead: int,
        storage: CatalogStorage,
        target: ScanTarget,
        stop: Stop | None,
        on_cold: Callable[[frozenset[int]], None] | None = None,
        check_read: CheckRead = lambda _: None,  # of a helper: the plan has checked the same ones
    ) -> None:
        self._planner = planner
        self._check_read = check_read
        self._on_cold = on_cold
        self._pool = pool
        # The memory of a request is taken by its own thread: no other request waits behind it.
        self._is_metered = current_reservation() is not None
        self._ahead = 1 if self._is_metered else ahead
        self._storage = storage
        self._target = target
        self._stop = stop
        self._tests = tuple(tests_of(target.filter))
        self._residuals = Residuals(target.filter)
        self._large_sets = {
            each.place: each.body
            for each in bound_predicates(target.filter)
            if isinstance(each.body, Test) and is_large_set(each.body)
        }
        self._counters = ScanCounters()
        self._started = time.perf_counter()
        self._next_check = 0.0
        self._snapshot_ids = np.array([each.snapshot_id for each in target.snapshots], np.int64)
        self._types = {
            id: found.type
            for id, found in target.schema.fields_by_id.items()
            if isinstance(found.type, PrimitiveType)
        }
        self._deletes = DeleteIndex((), self._types)
        self._equality_ids: frozenset[int] = frozenset()
        self._stats_ids = target.stats_ids | {COLUMN_SIZES} if target.stats_ids else target.stats_ids
        self._other: frozenset[str] = frozenset()

    def plan(self) -> ScanPlan:
        data, deletes = self._manifests()
        found = self._find_deletes(deletes)
        self._deletes = DeleteIndex(found, self._types)
        target = self._target
        return ScanPlan(
            snapshot_id=target.snapshot_id,
            schema=target.schema,
            batches=self._batches(self._chosen(data)),
            deletes=[each.files.content_files(each.rows, target.stats_ids) for each in found],
            residuals=self._residuals.found,
            whole=whole_residual(target.filter),
            counters=self._counters,
            files_by_manifest=[manifest.live_files_count for manifest in data],
            has_other_deletes=any(each.manifest_path not in self._other for each in deletes),
        )

    def decode(
        self, column_ids: frozenset[int], part: int, parts: int
    ) -> Iterator[tuple[ManifestFile, SpecTypes, ManifestColumns]]:
        data = self._chosen(self._manifests()[0])
        begin, end = (len(data) * each // parts for each in (part - 1, part))
        for manifest in reversed(data[begin:end]):
            spec = self._spec(manifest.partition_spec_id, manifest)
            yield manifest, spec, self._load(manifest, column_ids | self._metric_ids(spec))

    def _chosen(self, data: Sequence[ManifestFile]) -> Sequence[ManifestFile]:
        return data if self._target.manifests is None else data[slice(*self._target.manifests)]

    # -- manifests ------------------------------------------------------------------------------------------

    def _manifests(self) -> tuple[list[ManifestFile], list[ManifestFile]]:
        """Data and delete manifests that may have matching files."""
        target, counters = self._target, self._counters
        listed: dict[str, ManifestFile] = {}
        for snapshot in target.snapshots:
            for manifest in self._planner.lists.load(self._storage, target.table_uuid, snapshot) or ():
                if target.may_read(manifest):
                    listed.setdefault(manifest.manifest_path, manifest)
        if target.own is not None and (folders := target.own.others(listed)):
            self._check_read(folders)
        if target.unlike is not None:
            others = self._planner.lists.load(self._storage, target.table_uuid, target.unlike) or ()
            self._other = frozenset(each.manifest_path for each in others)
        data = [
            each
            for each in listed.values()
            if each.content != DELETE_MANIFEST and each.manifest_path not in self._other
        ]
        deletes = [each for each in listed.values() if each.content == DELETE_MANIFEST]
        if target.is_incremental:
            deletes = []
        counters.data_manifests, counters.delete_manifests = len(data), len(deletes)
        data, deletes = self._matched(data), self._matched(deletes)
        counters.data_manifests_matched, counters.delete_manifests_matched = len(data), len(deletes)
        counters.manifest_bytes = sum(each.manifest_length for each in (*data, *deletes))
        return data, deletes

    def _matched(self, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
        """The manifests that are not empty and that summaries do not rule out, in the same order."""
        ruled_out: set[int] = set()
        by_spec: dict[int, list[int]] = {}
        for place, manifest in enumerate(manifests):
            if manifest.added_files_count == 0 and manifest.existing_files_count == 0:
                ruled_out.add(place)
            else:
                by_spec.setdefault(manifest.partition_spec_id, []).append(place)
        for spec_id, places in by_spec.items():
            spec = self._spec(spec_id, manifests[places[0]])
            if spec.is_unpartitioned or not self._tests:
                continue
            summaries = [manifests[place].partitions for place in places]
            nothing = np.zeros(len(places), np.bool_)
            verdicts = (Verdict(by_summaries(test, spec, summaries), nothing) for test in self._tests)
            ruled_out.update(
                np.array(places)[combine(self._target.filter, verdicts, len(places)).cannot].tolist()
            )
        if not self._tests and bool(combine(self._target.filter, (), 1).cannot[0]):
            return []
        return [manifest for place, manifest in enumerate(manifests) if place not in ruled_out]

    def _spec(self, spec_id: int, manifest: ManifestFile) -> SpecTypes:
        spec = self._target.specs.get(spec_id)
        if spec is None:
            raise InvalidMetadataError(
                f"Cannot read manifest {manifest.manifest_path}: the table has no partition spec {spec_id}"
            )
        return spec

    def _load(self, manifest: ManifestFile, column_ids: frozenset[int]) -> ManifestColumns:
        self._check_stopped()
        spec = self._spec(manifest.partition_spec_id, manifest)
        return self._planner.manifests.load(
            self._storage, self._target.table_uuid, manifest, spec, column_ids
        )

    def _loaded(
        self, manifests: Sequence[ManifestFile], column_ids: frozenset[int]
    ) -> Iterator[tuple[ManifestFile, SpecTypes, ManifestColumns]]:
        """Yields manifests in order, while threads decode the next ones."""
        waiting: deque[tuple[ManifestFile, SpecTypes, ManifestColumns | Future[ManifestColumns]]] = deque()
        left = iter(manifests)
        try:
            while True:
                for manifest in left:
                    spec = self._spec(manifest.partition_spec_id, manifest)
                    ids = column_ids | self._metric_ids(spec)
                    waiting.append((manifest, spec, self._begin_load(manifest, spec, ids)))
                    size = sum(each.manifest_length for each, _, _ in waiting)
                    if len(waiting) >= self._ahead or size >= _AHEAD_BYTES:
                        break
                if not waiting:
                    return
                manifest, spec, files = waiting.popleft()
                self._check_stopped()
                yield manifest, spec, files.result() if isinstance(files, Future) else files
        finally:
            for _, _, files in waiting:
                if isinstance(files, Future):
                    files.cancel()
            if self._counters.manifest_bytes >= _TRIM_FROM_BYTES:
                trim_soon()

    def _begin_load(
        self, manifest: ManifestFile, spec: SpecTypes, ids: frozenset[int]
    ) -> ManifestColumns | Future[ManifestColumns]:
        held = self._planner.manifests.held(self._storage, self._target.table_uuid, manifest, spec, ids)
        if held is not None:
            return held
        self._counters.manifests_decoded += 1
        if self._is_metered:
            return self._load(manifest, ids)
        return self._pool.submit(self._load, manifest, ids)

    def _check_stopped(self) -> None:
        now = time.monotonic()
        if self._stop is not None and now >= self._next_check:
            self._next_check = now + _CHECK_S
            if self._stop():
                raise PlanStoppedError("The plan was stopped")

    def _metric_ids(self, spec: SpecTypes) -> frozenset[int]:
        return frozenset(test.field_id for test in self._tests if needs_metrics(test, spec))

    # -- deletes --------------------------------------------------------------------------------------------

    def _find_deletes(self, manifests: Sequence[ManifestFile]) -> list[FoundDeletes]:
        ids = frozenset({PATH_COLUMN_ID}) | self._stats_ids
        found: list[FoundDeletes] = []
        listed: list[ManifestFile] = []
        for manifest, spec, files in self._loaded(manifests, ids):
            rows = np.arange(len(files))
            if not spec.is_unpartitioned:
                verdicts = (by_partition(test, spec, files, None) for test in self._tests)
                rows = np.flatnonzero(~combine(self._target.filter, verdicts, len(files)).cannot)
            if len(rows):
                found.append(FoundDeletes(spec, files, rows))
                listed.append(manifest)
        self._counters.delete_files = sum(len(each.rows) for each in found)
        self._equality_ids = equality_ids(found)
        if not self._equality_ids:
            return found
        ids |= self._equality_ids | frozenset(test.field_id for test in self._tests)
        again = self._loaded(listed, ids)
        return [
            self._compared(each._replace(files=files))
            for each, (_, _, files) in zip(found, again, strict=True)
        ]

    def _compared(self, found: FoundDeletes) -> FoundDeletes:
        """Drops equality deletes of values that the filter rules out."""
        files, rows = found.files, found.rows
        deleted = [frozenset(ids or ()) for ids in files.column("equality_ids", rows).to_pylist()]
        nothing = np.zeros(len(rows), np.bool_)

        def verdict(test: Test) -> Verdict:
            # other columns of a delete file say nothing of the rows that it deletes
            compared = np.array([test.field_id in ids for ids in deleted])
            return Verdict(by_metrics(test, files.metrics.get(test.field_id), rows, {}) & compared, nothing)

        verdicts = map(verdict, self._tests)
        return found._replace(rows=rows[~combine(self._target.filter, verdicts, len(rows)).cannot])

    # -- data files -----------------------------------------------------------------------------------------

    def _batches(self, manifests: Sequence[ManifestFile]) -> Iterator[FileTasks]:
        counters = self._counters
        ids = self._stats_ids | self._equality_ids
        sure_rows, decoded = 0, counters.manifests_decoded
        for number, (_, spec, files) in enumerate(self._loaded(manifests, ids)):
            is_cold = len(manifests) - number > _MANY and counters.manifests_decoded - decoded > self._ahead
            if is_cold and self._on_cold is not None:
                self._on_cold(ids)
                self._on_cold = None
            counters.files += len(files)
            for rows in self._judged_together(files):
                self._check_stopped()
                tasks = self._tasks(spec, files, rows)
                if tasks is None:
                    continue
                if counters.first_task_ms is None:
                    counters.first_task_ms = self._elapsed_ms()
                counters.elapsed_ms = self._elapsed_ms()
                yield tasks
                sure_rows += self._sure_rows(tasks)
                if self._target.min_rows is not None and sure_rows >= self._target.min_rows:
                    return
        counters.elapsed_ms = self._elapsed_ms()

    def _judged_together(self, files: ManifestColumns) -> Sequence[Int64s | None]:
        """The files of a manifest that may be read, in parts if tests and files are many; None for all."""
        rows, size = self._appended(files), max(_VERDICTS_AT_ONCE // max(len(self._tests), 1), 1)
        if len(files) <= size:
            return [rows]
        rows = np.arange(len(files)) if rows is None else rows
        return np.split(rows, range(size, len(rows), size))

    def _elapsed_ms(self) -> float:
        return (time.perf_counter() - self._started) * 1000

    def _tasks(self, spec: SpecTypes, files: ManifestColumns, rows: Int64s | None) -> FileTasks | None:
        target, counters = self._target, self._counters
        verdicts = [by_partition(test, spec, files, rows) for test in self._tests]
        size = len(files) if rows is None else len(rows)
        chosen = ~combine(target.filter, verdicts, size).cannot
        counters.files_by_partition += int(np.count_nonzero(chosen))
        rows, verdicts = narrowed(rows, verdicts, chosen, size)
        size = len(files) if rows is None else len(rows)
        chosen = self._by_metrics(files, rows, verdicts, size)
        rows, verdicts = narrowed(rows, verdicts, chosen, size)
        size = len(files) if rows is None else len(rows)
        if not size:
            return None
        content = files.content_files(rows, target.stats_ids)
        counters.files_matched += size
        counters.rows += int(np.maximum(content.table["record_count"].to_numpy(), 0).sum())
        counters.size_bytes += int(content.table["file_size_in_bytes"].to_numpy().sum())
        everything = np.arange(len(files)) if rows is None else rows
        residuals = pa.array(self._residuals.of(verdicts, size), pa.int32())
        slices = self._slices(files, everything)
        return FileTasks(content, self._deletes.match(files, everything), residuals, slices)

    def _slices(self, files: ManifestColumns, rows: Int64s) -> dict[str, SetSlices]:
        """The values of large sets that each file may have, by the place of their predicate."""
        memo: dict[Any, Evidence] = {}
        found = {
            place: set_slices(test, files.metrics.get(test.field_id), rows, memo)
            for place, test in self._large_sets.items()
        }
        return {place: slices for place, slices in found.items() if slices is not None}

    def _appended(self, files: ManifestColumns) -> Int64s | None:
        """The files that the snapshots of an incremental scan added."""
        if not self._target.is_incremental:
            return None
        added = files.numbers("status") == ManifestEntryStatus.ADDED
        return np.flatnonzero(added & np.isin(files.numbers("snapshot_id"), self._snapshot_ids))

    def _by_metrics(
        self, files: ManifestColumns, rows: Int64s | None, verdicts: Sequence[Verdict], size: int
    ) -> Bools:
        if not size or not self._tests:
            return np.ones(size, np.bool_)
        everything = np.arange(len(files)) if rows is None else rows
        has_rows: Bools = files.numbers("record_count")[everything] != 0
        if all(verdict.is_decided for verdict in verdicts):
            return has_rows
        memo: dict[Any, Evidence] = {}
        judged = (
            verdict._replace(
                cannot=verdict.cannot | by_metrics(test, files.metrics.get(test.field_id), everything, memo)
            )
            for test, verdict in zip(self._tests, verdicts, strict=True)
        )
        return has_rows & ~combine(self._target.filter, judged, size).cannot

    def _sure_rows(self, tasks: FileTasks) -> int:
        """Rows that surely match: of files without deletes and residual."""
        counts = np.maximum(tasks.files.table["record_count"].to_numpy(), 0)
        sure = np.array([residual == TRUE for residual in self._residuals.found])[tasks.residuals.to_numpy()]
        if tasks.deletes is not None:
            sure &= tasks.deletes.value_lengths().to_numpy() == 0
        return int(counts[sure].sum())
