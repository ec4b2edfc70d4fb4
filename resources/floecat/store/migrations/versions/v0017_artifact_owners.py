"""Index artifacts of tables that are purged stay where they are: their owner gets a job for its entry."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Makes owners, of live tables and of purges."""
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
    op.execute(
        "INSERT INTO artifact_owners (id, entry_id) SELECT DISTINCT entry_id, entry_id FROM index_artifacts"
    )
    op.execute(
        "INSERT INTO artifact_owners (id, job_id) SELECT DISTINCT job_id, job_id FROM purged_artifacts"
    )
    with op.batch_alter_table("index_artifacts") as artifacts:
        artifacts.drop_constraint("fk_index_artifacts_entry_id", type_="foreignkey")
        artifacts.create_foreign_key(
            "fk_index_artifacts_entry_id", "artifact_owners", ["entry_id"], ["id"], ondelete="CASCADE"
        )
    op.execute(
        "INSERT INTO index_artifacts (entry_id, snapshot_id, storage_id, etag, body, updated_at_ms)"
        " SELECT job_id, snapshot_id, storage_id, '', body, 0 FROM purged_artifacts"
    )
    op.drop_table("purged_artifacts")
