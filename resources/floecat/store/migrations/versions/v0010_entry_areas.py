"""Purges find the live tables that may share a file by an index over folders."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_FOLDER = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Creates the tables empty; the next purge fills them."""
    op.create_table(
        "entry_areas",
        sa.Column("entry_id", sa.Uuid(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("metadata_location", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["entry_id"], ["entries.id"], name="fk_entry_areas_entry_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("entry_id", name="pk_entry_areas"),
    )
    op.create_table(
        "entry_folders",
        sa.Column("folder", _FOLDER, nullable=False),
        sa.Column("entry_id", sa.Uuid(), nullable=False),
        sa.ForeignKeyConstraint(
            ["entry_id"], ["entries.id"], name="fk_entry_folders_entry_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("folder", "entry_id", name="pk_entry_folders"),
    )
    op.create_index("ix_entry_folders_entry_id", "entry_folders", ["entry_id"], unique=False)
