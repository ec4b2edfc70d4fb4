"""The commit log is asked who wrote a metadata file."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_INDEXED = sa.text("length(metadata_location) <= 512")


def upgrade() -> None:
    """Indexes the commit log by metadata files."""
    op.create_index(
        "ix_commit_log_metadata_location",
        "commit_log",
        ["metadata_location"],
        unique=False,
        sqlite_where=_INDEXED,
        postgresql_where=_INDEXED,
    )
