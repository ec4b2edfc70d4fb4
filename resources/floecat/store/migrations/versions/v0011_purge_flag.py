"""The commit log says of a drop whether it asked for the files to be deleted."""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the column; drops of earlier versions count as drops without purge."""
    op.execute("ALTER TABLE commit_log ADD COLUMN purge_requested BOOLEAN DEFAULT FALSE NOT NULL")
