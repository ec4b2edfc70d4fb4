"""Captures, their groups of files and their publications, as operators see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec

from floecat.jobs.descriptions import JobInfo
from floecat.statistics.capture.reading.snapshot_coverage import PROBLEM
from floecat.statistics.capture.requests import GroupPayload, payload_of
from floecat.store.jobs.jobs import JobRow

__all__ = [
    "CaptureGroupInfo",
    "CaptureInfo",
    "SnapshotInfo",
    "describe_capture",
    "describe_group",
    "describe_publication",
]


class SnapshotInfo(JobInfo, frozen=True, kw_only=True):
    """A job about a snapshot of a table."""

    table_id: UUID
    snapshot_id: int
    reason: str
    """`commit`, `request` or `backfill`."""

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
