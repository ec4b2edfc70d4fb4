"""Statistics, constraints and index artifacts of snapshots, and what captures them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_HAS_PARENT = sa.text("parent_id IS NOT NULL")


def upgrade() -> None:
    """Creates the tables. Commits of before are not captured by themselves: a backfill does that."""
    name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "artifact_owners",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("entry_id", sa.Uuid(), nullable=True),
        sa.Column("job_id", sa.Uuid(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_artifact_owners"),
        sa.ForeignKeyConstraint(
            ["entry_id"], ["entries.id"], name="fk_artifact_owners_entry_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_artifact_owners_job_id", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_artifact_owners_entry_id", "artifact_owners", ["entry_id"])
    op.create_index("ix_artifact_owners_job_id", "artifact_owners", ["job_id"])
    for table, owner in (
        ("target_statistics", "entries"),
        ("index_artifacts", "artifact_owners"),
        ("table_constraints", "entries"),
    ):
        _create(
            table,
            sa.Column("snapshot_id", sa.BigInteger(), nullable=False),
            sa.Column("storage_id", name, nullable=False),
            sa.Column("etag", sa.Text(), nullable=False),
            sa.Column("body", sa.LargeBinary(), nullable=False),
            sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
            key=("entry_id", "snapshot_id", "storage_id"),
            owner=owner,
        )
    _create(
        "snapshot_captures",
        sa.Column("snapshot_id", sa.BigInteger(), nullable=False),
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
        sa.CheckConstraint("status IN ('pending', 'finalized')", name="ck_snapshot_captures_status"),
        key=("entry_id", "snapshot_id"),
    )
    _create(
        "statistics_sidecars",
        sa.Column("path", name, nullable=False),
        sa.Column("result_id", name, nullable=False),
        sa.Column("columns", sa.Text(), nullable=False),
        sa.Column("files", sa.BigInteger(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("unused_since_ms", sa.BigInteger(), nullable=True),
        sa.UniqueConstraint("entry_id", "result_id", name="uq_statistics_sidecars_entry_id_result_id"),
        key=("entry_id", "path"),
    )
    _create(
        "file_statistics",
        sa.Column("file_key", name, nullable=False),
        sa.Column("sidecar", name, nullable=False),
        key=("entry_id", "file_key"),
    )
    op.create_table(
        "capture_positions",
        sa.Column("catalog_id", sa.Uuid(), nullable=False),
        sa.Column("commit_version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("catalog_id", name="pk_capture_positions"),
        sa.ForeignKeyConstraint(
            ["catalog_id"], ["catalogs.id"], name="fk_capture_positions_catalog_id", ondelete="CASCADE"
        ),
    )
    op.execute(
        "INSERT INTO capture_positions SELECT id, commit_version FROM catalogs WHERE commit_version > 0"
    )
    op.create_index(
        "ix_jobs_parent_id",
        "jobs",
        ["parent_id"],
        unique=False,
        sqlite_where=_HAS_PARENT,
        postgresql_where=_HAS_PARENT,
    )


def _create(table: str, *columns: sa.schema.SchemaItem, key: tuple[str, ...], owner: str = "entries") -> None:
    op.create_table(
        table,
        sa.Column("entry_id", sa.Uuid(), nullable=False),
        *columns,
        sa.PrimaryKeyConstraint(*key, name=f"pk_{table}"),
        sa.ForeignKeyConstraint(
            ["entry_id"], [f"{owner}.id"], name=f"fk_{table}_entry_id", ondelete="CASCADE"
        ),
    )
