"""Explanations of plans: the files that each stage leaves, and so why a scan reads what it reads."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

__all__ = ["Explanation", "Residual"]


class Residual(msgspec.Struct, frozen=True):
    """A residual of the filter, and the number of its files."""

    filter: str
    """Filter as a person reads it."""
    files: int


class Explanation(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A plan in numbers, stage by stage."""

    snapshot_id: int | None
    """`None` for a table without snapshots."""
    data_manifests: int
    """Data manifests of the snapshot."""
    data_manifests_read: int
    """Manifests that the partition summaries of the manifest list do not rule out."""
    delete_manifests: int
    delete_manifests_read: int
    files_in_manifests: int
    """Live data files of the manifests that were read."""
    files_by_partition: int
    """Files that their partition does not rule out."""
    files_by_metrics: int
    """Files that bounds and counts of columns do not rule out either: the scan reads them."""
    delete_files: int
    """Delete files that apply to any of them."""
    files_with_deletes: int
    rows: int
    """Rows of the data files, deleted ones included."""
    size_bytes: int
    """Bytes of the data files."""
    manifest_bytes: int
    """Bytes of the manifests that were read, as stored."""
    manifests_decoded: int
    """Manifests read that were not in memory."""
    elapsed_ms: float
    residuals: Sequence[Residual]
    """The most frequent ones first, at most `MOST_RESIDUALS`."""
