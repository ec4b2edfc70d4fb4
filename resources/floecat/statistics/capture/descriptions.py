"""Captures, their groups of files and their publications, as operators see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec

from floecat.jobs.descriptions import JobInfo
from floecat.statistics.capture.reading.snapshot_coverage import PROBLEM
from floecat.statistics.capture.requests import GroupPayload, TablePayload, payload_of
from floecat.statistics.capture.table_captures import CAPTURED, SNAPSHOTS
from floecat.store.jobs.jobs import JobRow

__all__ = [
    "CaptureGroupInfo",
    "CaptureInfo",
    "SnapshotInfo",
    "TableCapturesInfo",
    "describe_capture",
    "describe_group",
    "describe_publication",
    "describe_table",
]


class SnapshotInfo(JobInfo, frozen=True, kw_only=True):
    """A job about a snapshot of a table."""

    table_id: UUID
    snapshot_id: int
    reason: str
    """`commit`, `request`, `backfill` or `scan`."""

    @property
    def table(self) -> str:
        """The name of the table."""
        return self.title


class CaptureInfo(SnapshotInfo, frozen=True, kw_only=True):
    """A capture."""

    files: int
    """Data files of the snapshot, as far as that is known."""
    stored: int
    """Files whose statistics were stored before."""
    done: int
    """Files that are captured."""
    problem: str | None
    """Reason why the statistics are partial."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Files."""
        return {"files": self.files, "stored": self.stored, "done": self.done}

    @property
    def groups(self) -> Sequence[CaptureGroupInfo]:
        """The groups of files; none in a listing."""
        return [each for each in self.children if isinstance(each, CaptureGroupInfo)]


class TableCapturesInfo(JobInfo, frozen=True, kw_only=True):
    """Captures of a table that a connector found."""

    table_id: UUID
    snapshots: int
    """Number of snapshots that are to be captured; 0 until that is known, and where all are captured."""
    captured: int
    problem: str | None
    """What is missing."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Snapshots."""
        return {"snapshots": self.snapshots, "captured": self.captured}


class CaptureGroupInfo(JobInfo, frozen=True, kw_only=True):
    """A group of files of a capture."""

    number: int
    files: int
    done: int
    size_bytes: int

    @property
    def counts(self) -> Mapping[str, int]:
        """Files."""
        return {"files": self.files, "done": self.done}


def describe_capture(row: JobRow, children: Sequence[JobInfo] | None) -> CaptureInfo:
    """Describes a capture with its groups."""
    progress: dict[str, Any] = msgspec.json.decode(row.progress)
    stored = progress.get("stored", 0)
    info = CaptureInfo.of(
        row,
        children,
        **_snapshot(row),
        files=progress.get("files", 0),
        stored=stored,
        done=progress.get("done", stored),
        problem=progress.get(PROBLEM),
    )
    if info.groups and info.is_open:
        return msgspec.structs.replace(info, done=stored + sum(group.done for group in info.groups))
    return info


def describe_table(row: JobRow, children: Sequence[JobInfo] | None) -> TableCapturesInfo:
    """Describes the captures of a table."""
    payload = msgspec.json.decode(row.payload, type=TablePayload)
    progress: dict[str, Any] = msgspec.json.decode(row.progress)
    done = sum(each.state == "succeeded" for each in children or ())
    return TableCapturesInfo.of(
        row,
        children,
        table_id=payload.entry_id,
        snapshots=progress.get(SNAPSHOTS, 0),
        captured=progress.get(CAPTURED, done),
        problem=progress.get(PROBLEM),
    )


def describe_group(row: JobRow, children: Sequence[JobInfo] | None) -> CaptureGroupInfo:
    """Describes a group."""
    payload = msgspec.json.decode(row.payload, type=GroupPayload)
    done = payload.files if row.state == "succeeded" else msgspec.json.decode(row.progress).get("done", 0)
    return CaptureGroupInfo.of(
        row, children, number=payload.number, files=payload.files, done=done, size_bytes=payload.size_bytes
    )


def describe_publication(row: JobRow, children: Sequence[JobInfo] | None) -> SnapshotInfo:
    """Describes the publication of a statistics file."""
    return SnapshotInfo.of(row, children, **_snapshot(row))


def _snapshot(row: JobRow) -> dict[str, Any]:
    payload = payload_of(row)
    return {"table_id": payload.entry_id, "snapshot_id": payload.snapshot_id, "reason": payload.reason}
