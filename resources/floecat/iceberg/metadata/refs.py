"""Branches and tags (table specification, "Snapshot References")."""

from __future__ import annotations

import msgspec

from floecat.errors import IllegalArgumentError
from floecat.iceberg.values.json_values import Int32, Int64
from floecat.iceberg.values.stored_texts import check_stored_text

__all__ = ["MAIN_BRANCH", "SnapshotRef", "check_ref"]

MAIN_BRANCH = "main"
"""The branch that `current-snapshot-id` follows."""


class SnapshotRef(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """What a branch or a tag points at, and how long it is retained.

    Attributes:
        type: `branch` or `tag`.
        min_snapshots_to_keep: of branches: how many ancestors an expiry leaves.
        max_snapshot_age_ms: of branches: how old ancestors may get.
        max_ref_age_ms: how old the reference itself may get; `main` never expires.
    """

    snapshot_id: Int64
    type: str
    min_snapshots_to_keep: Int32 | None = None
    max_snapshot_age_ms: Int64 | None = None
    max_ref_age_ms: Int64 | None = None

    @property
    def is_branch(self) -> bool:
        """Whether it is a branch, and no tag."""
        return self.type == "branch"


def check_ref(name: str, ref: SnapshotRef) -> None:
    """Refuses a reference that breaks the rules for its type.

    Raises:
        IllegalArgumentError: a name that is empty, too long or holds NUL; neither branch nor tag, `main` as a
            tag, retention of snapshots on a tag, or limits that are not positive.
    """
    if not name:
        raise IllegalArgumentError("Invalid reference name: must not be empty")
    check_stored_text(name, "reference name")
    if ref.type not in ("branch", "tag"):
        raise IllegalArgumentError(f"Invalid snapshot ref type: {ref.type[:80]}")
    if name == MAIN_BRANCH and not ref.is_branch:
        raise IllegalArgumentError(f"Cannot set {MAIN_BRANCH} to a tag, it must be a branch")
    if not ref.is_branch:
        if ref.min_snapshots_to_keep is not None:
            raise IllegalArgumentError("Tags do not support setting minSnapshotsToKeep")
        if ref.max_snapshot_age_ms is not None:
            raise IllegalArgumentError("Tags do not support setting maxSnapshotAgeMs")
    for value, message in (
        (ref.min_snapshots_to_keep, "Min snapshots to keep must be greater than 0"),
        (ref.max_snapshot_age_ms, "Max snapshot age must be greater than 0 ms"),
        (ref.max_ref_age_ms, "Max reference age must be greater than 0"),
    ):
        if value is not None and value <= 0:
            raise IllegalArgumentError(message)
