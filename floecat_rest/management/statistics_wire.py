"""Bodies of the routes about statistics, constraints, index artifacts and captures."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from floecat.statistics.capture.control import SnapshotCapture
from floecat.statistics.constraints import Constraint, SnapshotConstraints
from floecat.statistics.index_artifacts import IndexArtifact
from floecat.statistics.records import StatisticsRecord

__all__ = [
    "CaptureRequest",
    "CapturedSnapshotsResponse",
    "ConstraintsRequest",
    "IndexArtifactsResponse",
    "ListConstraintsResponse",
    "PutIndexArtifactsRequest",
    "PutResponse",
    "PutStatisticsRequest",
    "StatisticsResponse",
]


class StatisticsResponse(msgspec.Struct, rename="kebab"):
    """Statistics of targets of one snapshot."""

    snapshot_id: int
    records: Sequence[StatisticsRecord]
    next_page_token: str | None


class PutStatisticsRequest(msgspec.Struct, rename="kebab", forbid_unknown_fields=True):
    """Records of one snapshot."""

    records: list[StatisticsRecord]


class PutIndexArtifactsRequest(msgspec.Struct, rename="kebab", forbid_unknown_fields=True):
    """Artifacts of one snapshot."""

    artifacts: list[IndexArtifact]


class PutResponse(msgspec.Struct):
    """The result of a put."""

    upserted: int
    """Number of targets."""


class IndexArtifactsResponse(msgspec.Struct, rename="kebab"):
    """Index artifacts of one snapshot."""

    snapshot_id: int
    artifacts: Sequence[IndexArtifact]
    next_page_token: str | None


class ConstraintsRequest(msgspec.Struct, rename="kebab", forbid_unknown_fields=True):
    """A bundle of constraints."""

    constraints: tuple[Constraint, ...]
    properties: dict[str, str] = {}


class ListConstraintsResponse(msgspec.Struct, rename="kebab"):
    """The bundles of a table, in order of snapshot ids."""

    bundles: Sequence[SnapshotConstraints]
    next_page_token: str | None


class CaptureRequest(msgspec.Struct, rename="kebab", forbid_unknown_fields=True):
    """A capture that is asked for."""

    snapshot: str | int | None = None
    """An id, or the name of a branch or tag. Default: the current one."""
    all_snapshots: bool = False
    """All snapshots that were never captured, instead of one; without waiting. Goes with no other field."""
    full: bool = False
    """Read files again whose statistics are stored."""
    wait_seconds: float = 10
    """Longest time to wait, at most 60. A capture that takes longer is cancelled. 0 only asks for it."""


class CapturedSnapshotsResponse(msgspec.Struct, rename="kebab"):
    """Captured snapshots of a table, by their ids."""

    snapshots: Sequence[SnapshotCapture]
    next_page_token: str | None
