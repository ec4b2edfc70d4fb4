"""Queries, what they pin, and the scan plans that some of them are."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_STATES = "state IN ('submitted', 'completed', 'failed', 'ended_commit', 'ended_abort')"
_OPEN_QUERY = sa.text("ended_at_ms IS NULL")
_OPEN_TASK = sa.text("consumed_at_ms IS NULL")


def upgrade() -> None:
    """Creates the tables."""
    name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "queries",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("catalog_id", sa.Uuid(), nullable=False),
        sa.Column("principal", name, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("obligations", sa.Text(), nullable=False),
        sa.Column("as_of_default_ms", sa.BigInteger(), nullable=True),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("ended_at_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_queries"),
        sa.ForeignKeyConstraint(
            ["catalog_id"], ["catalogs.id"], name="fk_queries_catalog_id", ondelete="CASCADE"
        ),
        sa.CheckConstraint(_STATES, name="ck_queries_state"),
    )
    op.create_index("ix_queries_expires_at_ms", "queries", ["expires_at_ms"], unique=False)
    op.create_index(
        "ix_queries_catalog_id_principal",
        "queries",
        ["catalog_id", "principal"],
        unique=False,
        sqlite_where=_OPEN_QUERY,
        postgresql_where=_OPEN_QUERY,
    )
    op.create_table(
        "query_pins",
        sa.Column("query_id", sa.Uuid(), nullable=False),
        sa.Column("table_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("snapshot_id", sa.BigInteger(), nullable=True),
        sa.Column("metadata_location", sa.Text(), nullable=False),
        sa.Column("schema_id", sa.BigInteger(), nullable=False),
        sa.Column("first_as_of_ms", sa.BigInteger(), nullable=True),
        sa.Column("last_as_of_ms", sa.BigInteger(), nullable=True),
        sa.Column("pinned_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("query_id", "table_id", name="pk_query_pins"),
        sa.ForeignKeyConstraint(
            ["query_id"], ["queries.id"], name="fk_query_pins_query_id", ondelete="CASCADE"
        ),
        sa.CheckConstraint("kind IN ('current', 'as_of', 'snapshot_id')", name="ck_query_pins_kind"),
    )
    op.create_table(
        "plans",
        sa.Column("query_id", sa.Uuid(), nullable=False),
        sa.Column("entry_id", sa.Uuid(), nullable=False),
        sa.Column("request", sa.LargeBinary(), nullable=False),
        sa.Column("answer", sa.LargeBinary(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("query_id", name="pk_plans"),
        sa.ForeignKeyConstraint(["query_id"], ["queries.id"], name="fk_plans_query_id", ondelete="CASCADE"),
    )
    op.create_table(
        "plan_tasks",
        sa.Column("query_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("answer", sa.LargeBinary(), nullable=True),
        sa.Column("first_manifest", sa.BigInteger(), nullable=True),
        sa.Column("end_manifest", sa.BigInteger(), nullable=True),
        sa.Column("consumed_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("consumed_key", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("query_id", "number", name="pk_plan_tasks"),
        sa.ForeignKeyConstraint(
            ["query_id"], ["plans.query_id"], name="fk_plan_tasks_query_id", ondelete="CASCADE"
        ),
    )
    op.create_index(
        "ix_plan_tasks_query_id",
        "plan_tasks",
        ["query_id"],
        unique=False,
        sqlite_where=_OPEN_TASK,
        postgresql_where=_OPEN_TASK,
    )
