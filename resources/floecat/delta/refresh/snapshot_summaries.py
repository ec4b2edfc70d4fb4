"""Summaries of snapshots (table specification, Appendix F, "Optional Snapshot Summary Fields")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from floecat.delta.artifacts.version_manifests import VersionManifests
from floecat.delta.protocol.actions import CommitInfo
from floecat.iceberg.manifests.lists import ManifestFile

__all__ = ["snapshot_summary"]

_REARRANGING = frozenset({"OPTIMIZE", "REORG", "CLUSTER BY"})
"""Delta operations that leave the rows as they are."""


def snapshot_summary(manifests: VersionManifests, commit_info: CommitInfo | None) -> Mapping[str, str]:
    """What a version did, and what there is after it. Records are those in the files, deleted ones included.

    Args:
        manifests: of the version.
        commit_info: what its writer told, if its commit is still there.
    """
    version = manifests.version
    own_data = [manifest for manifest in manifests.data if manifest.added_snapshot_id == version]
    own_deletes = [manifest for manifest in manifests.deletes if manifest.added_snapshot_id == version]
    counters = {
        "added-data-files": _sum(own_data, "added_files_count"),
        "added-records": _sum(own_data, "added_rows_count"),
        "deleted-data-files": _sum(own_data, "deleted_files_count"),
        "deleted-records": _sum(own_data, "deleted_rows_count"),
        "added-delete-files": _sum(own_deletes, "added_files_count"),
        "added-position-deletes": _sum(own_deletes, "added_rows_count"),
        "removed-delete-files": _sum(own_deletes, "deleted_files_count"),
        "removed-position-deletes": _sum(own_deletes, "deleted_rows_count"),
    }
    totals = {
        "total-data-files": _live(manifests.data, "files"),
        "total-records": _live(manifests.data, "rows"),
        "total-files-size": manifests.files_size_bytes,
        "total-delete-files": _live(manifests.deletes, "files"),
        "total-position-deletes": _live(manifests.deletes, "rows"),
        "total-equality-deletes": 0,
    }
    operation = commit_info.operation if commit_info else None
    summary = {"operation": _operation(counters, operation)}
    summary |= {name: str(value) for name, value in counters.items() if value}
    summary |= {name: str(max(value, 0)) for name, value in totals.items()}
    if operation:
        summary["delta.operation"] = operation
    return summary


def _operation(counters: Mapping[str, int], delta_operation: str | None) -> str:
    names = ("added-data-files", "added-delete-files", "deleted-data-files", "removed-delete-files")
    files, deletes, gone_files, gone_deletes = (counters[name] for name in names)
    if not (files or deletes or gone_files or gone_deletes) or delta_operation in _REARRANGING:
        return "replace"
    if files:
        return "overwrite" if deletes or gone_files or gone_deletes else "append"
    # deletes that become fewer bring rows back, unless their data files go with them
    fewer = counters["added-position-deletes"] < counters["removed-position-deletes"]
    return "overwrite" if fewer and not gone_files else "delete"


def _sum(manifests: Sequence[ManifestFile], counter: str) -> int:
    return sum(getattr(manifest, counter) or 0 for manifest in manifests)


def _live(manifests: Sequence[ManifestFile], what: str) -> int:
    return _sum(manifests, f"added_{what}_count") + _sum(manifests, f"existing_{what}_count")
