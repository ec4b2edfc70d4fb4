"""Index artifacts of tables that are purged, until their purge is forgotten."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates the table."""
    name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "purged_artifacts",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("snapshot_id", sa.BigInteger(), nullable=False),
        sa.Column("storage_id", name, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "snapshot_id", "storage_id", name="pk_purged_artifacts"),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_purged_artifacts_job_id", ondelete="CASCADE"
        ),
    )
