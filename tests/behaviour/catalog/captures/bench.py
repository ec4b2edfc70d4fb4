"""A table and captures of it, as the tests of this folder use them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from floecat.commits.table_changes import TableChange
from floecat.entries.calls import Call
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.runtime import Kernel
from floecat.statistics.capture.control import CaptureControl, SnapshotCapture
from floecat.statistics.capture.descriptions import CaptureInfo
from floecat.statistics.capture.reading.counting import FileSource
from floecat.statistics.capture.reading.file_groups import FileGroup, GroupOrder
from floecat.statistics.capture.reading.snapshot_coverage import CaptureCoverage
from floecat.statistics.capture.reading.tables import CapturedTable
from floecat.statistics.records import (
    StatisticsRecord,
    TargetKind,
)
from tests.behaviour.catalog.changes import change, create, table
from tests.scan_files import WrittenAppends

T = table("t")
BOTH = pytest.mark.parametrize("store_url", ["sqlite", "postgresql"], indirect=True)


class Bench:
    """A table of whose files some are appended, and captures of it."""

    def __init__(self, kernel: Kernel, call: Call) -> None:
        self.kernel = kernel
        self.call = call
        self.pipeline = kernel.statistics.pipeline
        location = json.loads(create(kernel, call, "t").metadata)["location"]
        self.appends = WrittenAppends(location)

    @property
    def metadata(self) -> TableMetadata:
        return TableMetadata.parse(self.kernel.catalog.tables.load(self.call, T).metadata)

    @property
    def entry_id(self) -> UUID:
        return next(each.id for each in self.kernel.catalog.tables.list_all(self.call) if each.name == "t")

    @property
    def captures(self) -> CaptureControl:
        return self.kernel.statistics.captures

    def commit(self, change: TableChange) -> None:
        self.kernel.commits.tables.commit(self.call, change)

    def append(self, *manifests: int) -> None:
        self.commit(change("t", self.appends.append(*manifests)))

    def capture(self) -> list[CaptureInfo]:
        """What a worker does: looks for commits and works until nothing is due."""
        entry_id = self.entry_id
        self.pipeline.search_commits()
        self.pipeline.drain(entry_id)
        return self.listed()

    def grow(self, times: int = 1) -> None:
        """Appends a file and captures the snapshot, a number of times."""
        for _ in range(times):
            self.append(1)
            self.capture()

    def ask(self, snapshot: str | None = None, **options: Any) -> CaptureInfo:
        return self.captures.capture(self.call, T, snapshot, **options)

    def listed(self) -> list[CaptureInfo]:
        return self.captures.list(self.call)

    def shown(self, capture_id: UUID) -> CaptureInfo:
        return self.captures.get(self.call, capture_id)

    def snapshots(self) -> list[SnapshotCapture]:
        return self.captures.snapshots(self.call, T)

    def captured(self) -> SnapshotCapture:
        return self.snapshots()[-1]

    def coverage(self) -> CaptureCoverage:
        found = self.captured().coverage
        assert found is not None
        return found

    def records(self, kind: TargetKind | None = None) -> list[StatisticsRecord]:
        return self.kernel.statistics.targets.list(self.call, T, None, kind)[1].items

    def rows(self) -> int:
        (found,) = [each.table for each in self.records() if each.table is not None]
        return found.row_count

    def captured_rows(self) -> int | None:
        found = self.snapshots()
        return found[-1].coverage.rows if found and found[-1].coverage else None

    def sidecars(self) -> list[Path]:
        return sorted(self.warehouse.glob("_floecat/*/*"))

    @property
    def warehouse(self) -> Path:
        return Path(self.call.catalog.storage_location.removeprefix("file://"))

    def file(self, number: int) -> Path:
        return Path(self.appends.paths[number].removeprefix("file://"))


def order_of(table: CapturedTable, group: FileGroup) -> GroupOrder:
    source = FileSource.of(table, group.snapshot_id, group.columns)
    return GroupOrder(source, table.storage, group.files, "", memory_bytes=1 << 20)


def fewer_statements(store_url: str) -> int:
    """How many statements of a commit PostgreSQL takes together: two pairs of changes."""
    return 2 if store_url.startswith("postgresql") else 0


def wait_for(is_done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_done():
        assert time.monotonic() < deadline
        time.sleep(0.01)
