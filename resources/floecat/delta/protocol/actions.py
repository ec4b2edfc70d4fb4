"""What a Delta log says (Delta transaction log protocol, "Actions"), and the state that follows from it.

Single actions are structs. Those of files come by the hundred thousand and are Arrow tables, one row for each
action; their columns are in `floecat.delta.log.file_tables`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Commit", "CommitInfo", "Metadata", "Protocol", "Snapshot"]


class Protocol(msgspec.Struct, frozen=True):
    """What readers and writers of the table must know."""

    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] = ()
    """Empty below reader version 3."""
    writer_features: tuple[str, ...] = ()
    """Empty below writer version 7."""


class Metadata(msgspec.Struct, frozen=True):
    """Schema, partitioning and properties of the table."""

    id: str
    """A UUID; another one after the table was replaced by a new one."""
    schema_string: str
    """The schema as JSON text. Empty before some writers know it: such a version cannot be read."""
    partition_columns: tuple[str, ...] = ()
    """Logical names, in the order of the directories."""
    configuration: Mapping[str, str] = {}
    """Table properties."""
    name: str | None = None
    description: str | None = None
    format_provider: str = "parquet"
    created_time_ms: int | None = None


class CommitInfo(msgspec.Struct, frozen=True):
    """What the writer tells about a commit. By the protocol all but in-commit timestamps may be anything."""

    timestamp_ms: int | None = None
    """The writer's clock."""
    in_commit_timestamp_ms: int | None = None
    """Milliseconds since the epoch; meant only while in-commit timestamps are enabled."""
    operation: str | None = None


@dataclass(frozen=True)
class Commit:
    """The changes that one version makes.

    Attributes:
        version: the version.
        timestamp_ms: when it was made; see `floecat.delta.protocol.version_timestamps.commit_timestamp_ms`.
        protocol: the protocol from this version on, if it changes.
        metadata: likewise.
        commit_info: what its writer tells about it.
        adds: files that it adds; columns of `delta.log.file_tables.files_schema`, partition columns of
            the metadata in force after it. Ordered by path and deletion vector.
        removes: files that it removes; columns of `floecat.delta.log.file_tables.REMOVES_SCHEMA`. A file that
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
            vector, so that the same state is always the same table.
    """

    version: int
    timestamp_ms: int
    protocol: Protocol
    metadata: Metadata
    files: pa.Table
