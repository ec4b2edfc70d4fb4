"""Branches and tags (table specification, "Snapshot References"), and the two logs of table metadata."""

from __future__ import annotations

import msgspec

from floecat.errors import IllegalArgumentError, InvalidMetadataError
from floecat.iceberg.values.encoded_json import (
    EMPTY_ARRAY,
    Fragment,
    Int32,
    Int64,
    append_elements,
    encode_json,
    fragment_bytes,
    split_array,
)
from floecat.iceberg.values.text_limits import check_stored_text

__all__ = [
    "CLOCK_SKEW_MS",
    "MAIN_BRANCH",
    "MetadataLogEntry",
    "SnapshotLogEntry",
    "SnapshotRef",
    "append_metadata_log",
    "check_ref",
    "last_snapshot_log_entry",
    "parse_metadata_log",
    "parse_snapshot_log",
]

MAIN_BRANCH = "main"
"""The branch that `current-snapshot-id` follows."""


class SnapshotRef(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """A branch or a tag: its snapshot, and how long it is retained.

    Attributes:
        type: `branch` or `tag`.
        min_snapshots_to_keep: ancestors that an expiry leaves; branches only.
        max_snapshot_age_ms: maximum age of ancestors; branches only.
        max_ref_age_ms: maximum age of the reference itself; `main` never expires.
    """

    snapshot_id: Int64
    type: str
    min_snapshots_to_keep: Int32 | None = None
    max_snapshot_age_ms: Int64 | None = None
    max_ref_age_ms: Int64 | None = None

    @property
    def is_branch(self) -> bool:
        """Whether it is a branch rather than a tag."""
        return self.type == "branch"


def check_ref(name: str, ref: SnapshotRef) -> None:
    """Refuses a reference that breaks the rules for its type.

    Raises:
        IllegalArgumentError: the name is empty, too long or holds NUL; the type is neither branch nor tag;
            `main` is a tag; a tag has retention of snapshots; or a limit is not positive.
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


CLOCK_SKEW_MS = 60_000
"""Largest difference of the clocks of writers in a log; the reference implementation allows the same."""


class SnapshotLogEntry(msgspec.Struct, frozen=True, rename="kebab", gc=False):
    """A snapshot that became current, and when (ms)."""

    timestamp_ms: Int64
    snapshot_id: Int64


class MetadataLogEntry(msgspec.Struct, frozen=True, rename="kebab", gc=False):
    """A former metadata file, and when (ms) it was written."""

    timestamp_ms: Int64
    metadata_file: str


_snapshot_log_decoder = msgspec.json.Decoder(tuple[SnapshotLogEntry, ...])
_metadata_log_decoder = msgspec.json.Decoder(tuple[MetadataLogEntry, ...])
_snapshot_entry_decoder = msgspec.json.Decoder(SnapshotLogEntry)


def parse_snapshot_log(array: Fragment) -> tuple[SnapshotLogEntry, ...]:
    """Decodes `snapshot-log`, oldest first.

    Raises:
        InvalidMetadataError: it cannot be read.
    """
    try:
        return _snapshot_log_decoder.decode(fragment_bytes(array))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise InvalidMetadataError("Invalid table metadata: cannot parse snapshot-log") from None


def parse_metadata_log(array: Fragment) -> tuple[MetadataLogEntry, ...]:
    """Decodes `metadata-log`, oldest first.

    Raises:
        InvalidMetadataError: it cannot be read.
    """
    try:
        return _metadata_log_decoder.decode(fragment_bytes(array))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise InvalidMetadataError("Invalid table metadata: cannot parse metadata-log") from None


def last_snapshot_log_entry(array: Fragment) -> SnapshotLogEntry | None:
    """The newest entry of `snapshot-log`, usually without decoding the others.

    Raises:
        InvalidMetadataError: it cannot be read.
    """
    tail = bytes(array[-1][-256:]).rstrip()[:-1]
    try:
        return _snapshot_entry_decoder.decode(tail[tail.rindex(b"{") :])
    except (msgspec.MsgspecError, ValueError):
        # Empty, or the last entry has fields that this version does not know.
        entries = parse_snapshot_log(array)
        return entries[-1] if entries else None


def append_metadata_log(
    array: Fragment, metadata_file: str, timestamp_ms: int, max_entries: int
) -> tuple[Fragment, list[MetadataLogEntry]]:
    """Adds the file that a commit replaces, and drops the oldest ones.

    Args:
        array: `metadata-log` of the base.
        metadata_file: location of the file that holds the base.
        timestamp_ms: `last-updated-ms` of the base.
        max_entries: maximum length, the new entry included; at least 1.

    Returns:
        The next `metadata-log`, and the entries that were dropped, oldest first.

    Raises:
        InvalidMetadataError: the log of the base cannot be read.
    """
    added = encode_json(MetadataLogEntry(timestamp_ms, metadata_file))
    elements = split_array(array, "metadata-log")
    surplus = len(elements) - max_entries + 1
    if surplus <= 0:
        return append_elements(array, [added]), []
    dropped = [_read(element) for element in elements[:surplus]]
    return append_elements(_without_first(array, elements, surplus), [added]), dropped


def _without_first(array: Fragment, elements: list[msgspec.Raw], number: int) -> Fragment:
    """The array without its first elements; the others keep their bytes, and are not looked at."""
    if number >= len(elements):
        return EMPTY_ARRAY
    data, end = bytes(fragment_bytes(array)), 1
    for element in elements[:number]:
        # only a comma and blanks are before it
        end = data.index(element, end) + len(memoryview(element))
    return b"[", memoryview(data)[data.index(elements[number], end) :]


def _read(element: msgspec.Raw) -> MetadataLogEntry:
    try:
        return msgspec.json.decode(element, type=MetadataLogEntry)
    except (msgspec.MsgspecError, UnicodeError):
        raise InvalidMetadataError("Invalid table metadata: cannot parse metadata-log") from None
