"""The commit log is asked who created an entry, and for its earlier names."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_GIVES_NAME = sa.text("operation IN ('create', 'register', 'rename')")


def upgrade() -> None:
    """Indexes the commits that give names; most commits of a table give none."""
    op.create_index(
        "ix_commit_log_names",
        "commit_log",
        ["entry_id", "commit_version"],
        unique=False,
        sqlite_where=_GIVES_NAME,
        postgresql_where=_GIVES_NAME,
    )
