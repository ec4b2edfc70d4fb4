"""When versions were made (Delta protocol, "In-Commit Timestamps")."""

from __future__ import annotations

from floecat.delta.protocol.actions import CommitInfo, Metadata
from floecat.errors import InvalidDeltaTableError

__all__ = ["commit_timestamp_ms", "has_in_commit_timestamps"]


def has_in_commit_timestamps(metadata: Metadata) -> bool:
    """Whether commits under a metadata carry their time."""
    return metadata.configuration.get("delta.enableInCommitTimestamps", "").strip().lower() == "true"


def commit_timestamp_ms(
    metadata: Metadata, commit_info: CommitInfo | None, written_at_ms: int, *, location: str
) -> int:
    """The time of a version.

    Args:
        metadata: in force at the version. In-commit timestamps are enabled by it from the version on that
            it names, so what it says of its own version is all that matters.
        commit_info: of the version.
        written_at_ms: when the file of the version was written, later than that of the version before.
        location: of the commit, for messages.

    Raises:
        InvalidDeltaTableError: the commit should carry its time and does not.
    """
    if not has_in_commit_timestamps(metadata):
        return written_at_ms
    if commit_info is None or commit_info.in_commit_timestamp_ms is None:
        raise InvalidDeltaTableError(
            f"Commit {location} lacks the in-commit timestamp that the table demands"
        )
    return commit_info.in_commit_timestamp_ms
