"""Purges announce each batch of files, so that commits that may add one of them wait."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_UNDER_WAY = sa.text("under_way")


def upgrade() -> None:
    """Adds the table, and to catalogs the column that spares commits a look at it."""
    op.add_column("catalogs", sa.Column("purging", sa.Boolean(), nullable=False, server_default=sa.true()))
    op.create_table(
        "purge_batches",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("lease_epoch", sa.BigInteger(), nullable=False),
        sa.Column("folders", sa.Text(), nullable=False),
        sa.Column("under_way", sa.Boolean(), nullable=False),
        sa.Column("hold_until_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_purge_batches_job_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", name="pk_purge_batches"),
    )
    op.create_index(
        "ix_purge_batches_job_id",
        "purge_batches",
        ["job_id"],
        unique=False,
        sqlite_where=_UNDER_WAY,
        postgresql_where=_UNDER_WAY,
    )
