"""Tables of statistics. All rows of a table of the catalog go with its entry."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from floecat.store.schema import metadata

__all__ = [
    "artifact_owners",
    "capture_positions",
    "file_statistics",
    "index_artifacts",
    "snapshot_captures",
    "statistics_sidecars",
    "table_constraints",
    "target_statistics",
]

# sorts by bytes on both databases: pages depend on it
_Name: Final = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def _entry_id(owner: str = "entries.id") -> sa.Column[Any]:
    return sa.Column("entry_id", sa.Uuid(), sa.ForeignKey(owner, ondelete="CASCADE"), primary_key=True)


def _snapshot_id() -> sa.Column[Any]:
    return sa.Column("snapshot_id", sa.BigInteger(), primary_key=True, autoincrement=False)


def _records(name: str, owner: str = "entries.id") -> sa.Table:
    """A table of records that belong to a snapshot, each with a key of its own there."""
    return sa.Table(
        name,
        metadata,
        _entry_id(owner),
        _snapshot_id(),
        sa.Column("storage_id", _Name, primary_key=True),
        sa.Column("etag", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
    )


artifact_owners: Final = sa.Table(
    "artifact_owners",
    metadata,
    sa.Column("id", sa.Uuid(), primary_key=True),
    sa.Column("entry_id", sa.Uuid(), sa.ForeignKey("entries.id", ondelete="CASCADE"), nullable=True),
    sa.Column("job_id", sa.Uuid(), sa.ForeignKey("jobs.id", ondelete="CASCADE"), nullable=True),
    sa.Index(None, "entry_id"),
    sa.Index(None, "job_id"),
)
"""Tables with index artifacts, by the id of their entry. A table that was dropped with purge has a job
instead of an entry, so that its artifacts stay until the purge is forgotten, without being copied."""

target_statistics: Final = _records("target_statistics")
index_artifacts: Final = _records("index_artifacts", "artifact_owners.id")
table_constraints: Final = _records("table_constraints")

snapshot_captures: Final = sa.Table(
    "snapshot_captures",
    metadata,
    _entry_id(),
    _snapshot_id(),
    sa.Column("generation", sa.BigInteger(), nullable=False),
    sa.Column("status", sa.Text(), nullable=False),
    sa.Column("job_id", sa.Uuid(), nullable=True),
    sa.Column("columns", sa.Text(), nullable=False),
    sa.Column("coverage", sa.Text(), nullable=False),
    sa.Column("problem", sa.Text(), nullable=True),
    sa.Column("statistics_file", sa.Text(), nullable=True),
    sa.Column("requested_at_ms", sa.BigInteger(), nullable=False),
    sa.Column("finalized_at_ms", sa.BigInteger(), nullable=True),
    sa.Column("published_at_ms", sa.BigInteger(), nullable=True),
    sa.CheckConstraint("status IN ('pending', 'finalized')", name="status"),
)

statistics_sidecars: Final = sa.Table(
    "statistics_sidecars",
    metadata,
    _entry_id(),
    sa.Column("path", _Name, primary_key=True),
    sa.Column("result_id", _Name, nullable=False),
    sa.Column("columns", sa.Text(), nullable=False),
    sa.Column("files", sa.BigInteger(), nullable=False),
    sa.Column("size_bytes", sa.BigInteger(), nullable=False),
    sa.Column("unused_since_ms", sa.BigInteger(), nullable=True),
    # a result that is sent twice is taken once
    sa.UniqueConstraint("entry_id", "result_id"),
)

file_statistics: Final = sa.Table(
    "file_statistics",
    metadata,
    _entry_id(),
    sa.Column("file_key", _Name, primary_key=True),
    sa.Column("sidecar", _Name, nullable=False),
)

capture_positions: Final = sa.Table(
    "capture_positions",
    metadata,
    sa.Column("catalog_id", sa.Uuid(), sa.ForeignKey("catalogs.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("commit_version", sa.BigInteger(), nullable=False),
)
