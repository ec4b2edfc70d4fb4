"""Metadata documents have a form, so that those of earlier versions are found."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_OLDER = sa.text("document_form < 1")


def upgrade() -> None:
    """Marks what is there as of no form; the documents themselves are looked at after the migrations."""
    # Both databases add such a column without rewriting rows, SQLite also without making the table anew.
    op.execute("ALTER TABLE entries ADD COLUMN document_form BIGINT DEFAULT 0 NOT NULL")
    op.create_index(
        "ix_entries_id", "entries", ["id"], unique=False, sqlite_where=_OLDER, postgresql_where=_OLDER
    )
