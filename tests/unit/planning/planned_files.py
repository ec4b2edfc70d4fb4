"""Plans of tables in tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.planning.files.scan_planning import ScanPlanner, local_planner
from floecat.planning.files.scans import ScanPlan, ScanRequest
from floecat.planning.files.targets import resolve
from floecat.planning.filters.expression_json import parse_filter, write_expression
from tests.storages import storage_at

__all__ = ["PlannedFile", "new_planner", "plan_table", "planned_files"]


_STORAGE = storage_at(["file:///"])


@dataclass(frozen=True)
class PlannedFile:
    """A file scan task.

    Attributes:
        path: of the data file.
        deletes: paths of its delete files, with `@` and the offset of a deletion vector or `null`.
        residual: JSON.
    """

    path: str
    deletes: frozenset[str]
    residual: Any


def new_planner() -> ScanPlanner:
    """A planner without anything in memory."""
    return local_planner(64 << 20, 1)


def plan_table(
    planner: ScanPlanner, metadata: bytes, json: object = None, **request: Any
) -> list[PlannedFile]:
    """All tasks of a plan."""
    asked = ScanRequest(filter=parse_filter(json), **request)
    target = resolve(TableMetadata.parse(metadata), asked)
    return list(planned_files(planner.plan(_STORAGE, target)))


def planned_files(plan: ScanPlan) -> Iterator[PlannedFile]:
    """The tasks of a plan, one by one."""
    for tasks in plan:
        paths = tasks.files.table["file_path"].to_pylist()
        deletes = [[]] * len(tasks) if tasks.deletes is None else tasks.deletes.to_pylist()
        for path, positions, residual in zip(paths, deletes, tasks.residuals.to_pylist(), strict=True):
            names = frozenset(_name(plan, position) for position in positions)
            yield PlannedFile(path, names, write_expression(plan.residuals[residual]))


def _name(plan: ScanPlan, position: int) -> str:
    files, row = plan.delete(position)
    path, offset = (files.table[name][row].as_py() for name in ("file_path", "content_offset"))
    return f"{path}@{'null' if offset is None else offset}"
