"""Purgers of other packages keep rows of their own with a purge."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the table."""
    key = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "purger_rows",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("key", key, nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_purger_rows_job_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", "key", name="pk_purger_rows"),
    )
