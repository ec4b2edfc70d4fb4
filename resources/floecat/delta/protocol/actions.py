"""Actions of a Delta log (Delta transaction log protocol, "Actions"), and the state that follows from them.

Single actions are structs. Actions of files come by the hundred thousand and are Arrow tables, one row for
each action; `floecat.delta.log.file_tables` describes their columns. Also here: when a version was made
("In-Commit Timestamps") and whether the table can be read ("Table Features", "Requirements for Readers").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from floecat.errors import InvalidDeltaTableError, UnsupportedDeltaTableError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "READER_FEATURES",
    "Commit",
    "CommitInfo",
    "Metadata",
    "Protocol",
    "Snapshot",
    "check_readable",
    "commit_timestamp_ms",
    "has_in_commit_timestamps",
]

READER_FEATURES: Final = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "variantType",
        "variantType-preview",
    }
)
"""Supported reader features. The translation refuses columns whose types have no equivalent.

Shredded variants are missing: engines read the data files themselves, and not all of them support shredding.
"""

_LAST_READER_VERSION: Final = 3

_OUTSIDE_THE_LOG: Final = frozenset({"catalogManaged", "catalogOwned-preview"})
"""Features by which only another catalog knows the newest versions; listed for readers or for writers."""


class Protocol(msgspec.Struct, frozen=True):
    """The features that readers and writers of the table must support."""

    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] = ()
    """Empty below reader version 3."""
    writer_features: tuple[str, ...] = ()
    """Empty below writer version 7."""


class Metadata(msgspec.Struct, frozen=True):
    """Schema, partitioning and properties of the table."""

    id: str
    """A UUID; changes if the table is replaced."""
    schema_string: str
    """The schema as JSON text. Some writers leave it empty at first; such a version cannot be read."""
    partition_columns: tuple[str, ...] = ()
    """Logical names, in the order of the directories."""
    configuration: Mapping[str, str] = {}
    """Table properties."""
    name: str | None = None
    description: str | None = None
    format_provider: str = "parquet"
    created_time_ms: int | None = None


class CommitInfo(msgspec.Struct, frozen=True):
    """Provenance of a commit. Only in-commit timestamps are in the protocol; other fields may be anything."""

    timestamp_ms: int | None = None
    """The writer's clock."""
    in_commit_timestamp_ms: int | None = None
    """Milliseconds since the epoch; valid only while in-commit timestamps are enabled."""
    operation: str | None = None


@dataclass(frozen=True)
class Commit:
    """The changes of one version.

    Attributes:
        version: the version.
        timestamp_ms: when it was made; see `commit_timestamp_ms`.
        protocol: the protocol from this version on, None if it stays.
        metadata: the metadata from this version on, None if it stays.
        commit_info: its provenance.
        adds: added files; columns of `delta.log.file_tables.files_schema`, partition columns of
            the metadata in force after it. Ordered by path and deletion vector.
        removes: removed files; columns of `floecat.delta.log.file_tables.REMOVES_SCHEMA`. A file that
            gets another deletion vector is removed with the old one and added with the new one. One that is
            live may be added again as it is, with other statistics.
    """

    version: int
    timestamp_ms: int
    protocol: Protocol | None
    metadata: Metadata | None
    commit_info: CommitInfo | None
    adds: pa.Table
    removes: pa.Table


@dataclass(frozen=True)
class Snapshot:
    """The state of the table at a version.

    Attributes:
        version: the version.
        timestamp_ms: when it was made.
        protocol: the protocol in force.
        metadata: the metadata in force.
        files: live files; columns of `delta.log.file_tables.files_schema`. Ordered by path and deletion
            vector, so that equal states are equal tables.
    """

    version: int
    timestamp_ms: int
    protocol: Protocol
    metadata: Metadata
    files: pa.Table


def has_in_commit_timestamps(metadata: Metadata) -> bool:
    """Whether commits under this metadata carry in-commit timestamps."""
    return metadata.configuration.get("delta.enableInCommitTimestamps", "").strip().lower() == "true"


def commit_timestamp_ms(
    metadata: Metadata, commit_info: CommitInfo | None, written_at_ms: int, *, location: str
) -> int:
    """The time of a version.

    Args:
        metadata: in force at the version. It enables in-commit timestamps from a version that it names, so
            only the metadata in force matters.
        commit_info: of the version.
        written_at_ms: when the file of the version was written, later than that of the version before.
        location: of the commit, for messages.

    Raises:
        InvalidDeltaTableError: the in-commit timestamp is missing.
    """
    if not has_in_commit_timestamps(metadata):
        return written_at_ms
    if commit_info is None or commit_info.in_commit_timestamp_ms is None:
        raise InvalidDeltaTableError(
            f"Commit {location} lacks the in-commit timestamp that the table requires"
        )
    return commit_info.in_commit_timestamp_ms


def check_readable(protocol: Protocol, metadata: Metadata) -> None:
    """Refuses tables that cannot be read exactly.

    Args:
        protocol: the protocol in force.
        metadata: the metadata in force.

    Raises:
        UnsupportedDeltaTableError: the table needs a reader version or features that are not supported, which
            the message names, or its files are not in Parquet.
        InvalidDeltaTableError: the table has no schema (yet), or a reader version that does not exist.
    """
    version = protocol.min_reader_version
    if version < 1:
        raise InvalidDeltaTableError(f"There is no Delta reader version {version}")
    unknown = set(protocol.reader_features) - READER_FEATURES
    unknown |= _OUTSIDE_THE_LOG.intersection(protocol.writer_features)
    reasons = []
    if version > _LAST_READER_VERSION:
        reasons.append(f"Delta reader version {version}")
    if unknown:
        reasons.append("table features that are not supported: " + ", ".join(sorted(unknown)))
    if reasons:
        raise UnsupportedDeltaTableError(f"Reading the table needs {' and '.join(reasons)}")
    if not metadata.schema_string:
        raise InvalidDeltaTableError("The metadata of the table has no schema")
    if metadata.format_provider.lower() != "parquet":
        raise UnsupportedDeltaTableError(
            f"Files of the table are in the format {metadata.format_provider!r}, not in Parquet"
        )
