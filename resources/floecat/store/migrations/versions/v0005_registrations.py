"""The commit log is asked when an entry was last registered."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_REGISTRATIONS = sa.text("operation = 'register'")


def upgrade() -> None:
    """Indexes the registrations in the commit log by entries; they are few."""
    op.create_index(
        "ix_commit_log_entry_id",
        "commit_log",
        ["entry_id"],
        unique=False,
        sqlite_where=_REGISTRATIONS,
        postgresql_where=_REGISTRATIONS,
    )
