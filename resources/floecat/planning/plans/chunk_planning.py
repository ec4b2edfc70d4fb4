"""Scans as the planner takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from floecat.planning.files.planner import Planner
from floecat.planning.files.scans import ScanPlan, ScanRequest
from floecat.planning.files.targets import resolve, spec_types
from floecat.planning.filters.expression_json import parse_filter
from floecat.planning.filters.expressions import Expression
from floecat.planning.filters.verdicts import whole_residual
from floecat.planning.plans.plan_answers import TaskChunk
from floecat.planning.plans.plan_requests import PlannedScan
from floecat.planning.plans.pyiceberg_partitions import pyiceberg_partitions
from floecat.planning.plans.task_answers import ChunkSize, PartitionTypes, client_types, render_tasks
from floecat.storage.catalog_storage import CatalogStorage

__all__ = ["count_files", "plan_chunks", "scan_request", "whole_filter"]


def plan_chunks(
    planner: Planner,
    storage: CatalogStorage,
    scan: PlannedScan,
    most: ChunkSize,
    stop: Callable[[], bool] | None,
) -> Iterator[TaskChunk]:
    """Yields the tasks of a scan in chunks; see `ChunkedPlanner.run`."""
    partitions = None
    types: PartitionTypes = client_types(scan.metadata)
    if scan.form != "specified":
        specs = spec_types(scan.metadata)
        are_absent = scan.form == "pyiceberg-without-columns"
        partitions = partial(pyiceberg_partitions, specs=specs, are_absent=are_absent)
        types = {spec_id: found.types for spec_id, found in specs.items()}
    work = partial(render_tasks, types=types, most=most, partitions=partitions)
    # engines of other formats keep their manifests where artifacts are
    return planner.run(storage.with_artifacts, scan.metadata, scan_request(scan), work, stop=stop)


def whole_filter(scan: PlannedScan) -> Expression:
    """The filter of a scan as a residual."""
    return whole_residual(resolve(scan.metadata, scan_request(scan)).filter)


def count_files(
    planner: Planner, storage: CatalogStorage, scan: PlannedScan, stop: Callable[[], bool] | None
) -> list[int]:
    """Live files of each data manifest of a scan; see `ChunkedPlanner.ranges`."""
    return list(planner.run(storage.with_artifacts, scan.metadata, scan_request(scan), _counts, stop=stop))


def _counts(plan: ScanPlan) -> Iterator[int]:
    for count in plan.files_by_manifest:
        yield count or 0


def scan_request(scan: PlannedScan) -> ScanRequest:
    """A scan as the planner takes it.

    Raises:
        BadRequestError: the filter is malformed.
    """
    sent = scan.sent
    return ScanRequest(
        snapshot_id=sent.snapshot_id,
        start_snapshot_id=sent.start_snapshot_id,
        end_snapshot_id=sent.end_snapshot_id,
        filter=parse_filter(sent.filter),
        case_sensitive=sent.case_sensitive is not False,
        use_snapshot_schema=sent.use_snapshot_schema is True,
        select=sent.select or (),
        stats_fields=sent.stats_fields or (),
        min_rows=sent.min_rows_requested,
        manifests=scan.manifests,
        own=scan.own,
    )
