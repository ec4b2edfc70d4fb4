"""The two histories in table metadata: which snapshot was current when, and the metadata files before."""

from __future__ import annotations

import msgspec

from floecat.errors import InvalidMetadataError
from floecat.iceberg.values.json_arrays import Fragment, fragment_bytes
from floecat.iceberg.values.json_values import Int64

__all__ = [
    "CLOCK_SKEW_MS",
    "MetadataLogEntry",
    "SnapshotLogEntry",
    "last_snapshot_log_entry",
    "parse_metadata_log",
    "parse_snapshot_log",
]


CLOCK_SKEW_MS = 60_000
"""How far clocks of writers may differ in a log; the reference implementation allows the same."""


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
        InvalidMetadataError: it is none.
    """
    try:
        return _snapshot_log_decoder.decode(fragment_bytes(array))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise InvalidMetadataError("Invalid table metadata: cannot parse snapshot-log") from None


def parse_metadata_log(array: Fragment) -> tuple[MetadataLogEntry, ...]:
    """Decodes `metadata-log`, oldest first.

    Raises:
        InvalidMetadataError: it is none.
    """
    try:
        return _metadata_log_decoder.decode(fragment_bytes(array))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise InvalidMetadataError("Invalid table metadata: cannot parse metadata-log") from None


def last_snapshot_log_entry(array: Fragment) -> SnapshotLogEntry | None:
    """The newest entry of `snapshot-log`; as a rule without decoding the others.

    Raises:
        InvalidMetadataError: it is no log.
    """
    tail = bytes(array[-1][-256:]).rstrip()[:-1]
    try:
        return _snapshot_entry_decoder.decode(tail[tail.rindex(b"{") :])
    except (msgspec.MsgspecError, ValueError):
        # Empty, or the last entry holds more than this version knows of.
        entries = parse_snapshot_log(array)
        return entries[-1] if entries else None
