"""Tables of one type are listed by themselves: the property `table_type` of their metadata is a column."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_OLDER = sa.text("document_form < 2")
_TYPED = sa.text("table_type IS NOT NULL")


def upgrade() -> None:
    """Adds the column. It is filled where the documents are looked at, which are of an older form now."""
    op.execute("ALTER TABLE entries ADD COLUMN table_type TEXT")
    op.create_index(
        "ix_entries_namespace_id_table_type_name",
        "entries",
        ["namespace_id", "table_type", "name"],
        unique=False,
        sqlite_where=_TYPED,
        postgresql_where=_TYPED,
    )
    op.drop_index("ix_entries_id", "entries")
    op.create_index(
        "ix_entries_id", "entries", ["id"], unique=False, sqlite_where=_OLDER, postgresql_where=_OLDER
    )
