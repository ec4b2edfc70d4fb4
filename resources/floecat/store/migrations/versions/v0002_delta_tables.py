"""Delta tables beside Iceberg tables, and the connectors that find them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Marks the format of entries and purge jobs, and creates the tables of Delta tables and connectors."""
    # Both databases add such a column without rewriting rows, SQLite also without making the table anew.
    op.execute(
        "ALTER TABLE entries ADD COLUMN format TEXT DEFAULT 'iceberg' NOT NULL"
        " CONSTRAINT ck_entries_format CHECK (format IN ('iceberg', 'delta'))"
    )
    op.execute("ALTER TABLE purge_jobs ADD COLUMN format TEXT DEFAULT 'iceberg' NOT NULL")
    _create_connectors()
    _create_delta_tables()


def _create_connectors() -> None:
    op.create_table(
        "connectors",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("catalog_id", sa.Uuid(), nullable=False),
        sa.Column("name", _NAME, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("options", sa.Text(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("interval_ms", sa.BigInteger(), nullable=False),
        sa.Column("next_scan_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("last_scan_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["catalog_id"], ["catalogs.id"], name="fk_connectors_catalog_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_connectors"),
        sa.UniqueConstraint("catalog_id", "name", name="uq_connectors_catalog_id_name"),
    )
    op.create_index(
        "ix_connectors_enabled_next_scan_at_ms", "connectors", ["enabled", "next_scan_at_ms"], unique=False
    )


def _create_delta_tables() -> None:
    op.create_table(
        "delta_tables",
        sa.Column("entry_id", sa.Uuid(), nullable=False),
        sa.Column("location", _NAME, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=True),
        sa.Column("log_fingerprint", sa.Text(), nullable=True),
        sa.Column("field_ids", sa.LargeBinary(), nullable=False),
        sa.Column("state", sa.LargeBinary(), nullable=True),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("format_version", sa.BigInteger(), nullable=True),
        sa.Column("connector_id", sa.Uuid(), nullable=True),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("checked_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("refreshed_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["entry_id"], ["entries.id"], name="fk_delta_tables_entry_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["connector_id"], ["connectors.id"], name="fk_delta_tables_connector_id", ondelete="SET NULL"
        ),
        sa.PrimaryKeyConstraint("entry_id", name="pk_delta_tables"),
    )
    op.create_index("ix_delta_tables_location", "delta_tables", ["location"], unique=False)
    op.create_index("ix_delta_tables_connector_id", "delta_tables", ["connector_id"], unique=False)
