"""The first schema: catalogs, namespaces, entries, and what requests and workers leave behind."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Creates all tables."""
    _create_namespaces()
    _create_entries()
    _create_records_of_requests()
    _create_work()


def _create_namespaces() -> None:
    op.create_table(
        "accounts",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_accounts"),
    )
    op.create_table(
        "catalogs",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("name", _NAME, nullable=False),
        sa.Column("storage_location", sa.Text(), nullable=False),
        sa.Column("allowed_locations", sa.Text(), nullable=False),
        sa.Column("properties", sa.Text(), nullable=False),
        sa.Column("commit_version", sa.BigInteger(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name="fk_catalogs_account_id", ondelete="RESTRICT"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_catalogs"),
        sa.UniqueConstraint("account_id", "name", name="uq_catalogs_account_id_name"),
    )
    op.create_table(
        "namespaces",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("catalog_id", sa.Uuid(), nullable=False),
        sa.Column("parent_id", sa.Uuid(), nullable=True),
        sa.Column("physical_name", _NAME, nullable=False),
        sa.Column("levels", sa.Text(), nullable=False),
        sa.Column("properties", sa.Text(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["catalog_id"], ["catalogs.id"], name="fk_namespaces_catalog_id", ondelete="RESTRICT"
        ),
        sa.ForeignKeyConstraint(
            ["parent_id"], ["namespaces.id"], name="fk_namespaces_parent_id", ondelete="RESTRICT"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_namespaces"),
        sa.UniqueConstraint("catalog_id", "physical_name", name="uq_namespaces_catalog_id_physical_name"),
    )
    op.create_index(
        "ix_namespaces_parent_id_catalog_id_physical_name",
        "namespaces",
        ["parent_id", "catalog_id", "physical_name"],
        unique=False,
    )


def _create_entries() -> None:
    op.create_table(
        "entries",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("catalog_id", sa.Uuid(), nullable=False),
        sa.Column("namespace_id", sa.Uuid(), nullable=False),
        sa.Column("name", _NAME, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("object_uuid", sa.Text(), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("metadata_location", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("format_version", sa.BigInteger(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("kind IN ('table', 'view')", name=op.f("ck_entries_kind")),
        sa.ForeignKeyConstraint(
            ["catalog_id"], ["catalogs.id"], name="fk_entries_catalog_id", ondelete="RESTRICT"
        ),
        sa.ForeignKeyConstraint(
            ["namespace_id"], ["namespaces.id"], name="fk_entries_namespace_id", ondelete="RESTRICT"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_entries"),
        sa.UniqueConstraint("namespace_id", "name", name="uq_entries_namespace_id_name"),
    )
    op.create_index("ix_entries_object_uuid", "entries", ["object_uuid"], unique=False)
    op.create_index(
        "ix_entries_namespace_id_kind_name", "entries", ["namespace_id", "kind", "name"], unique=False
    )
    op.create_table(
        "metadata_documents",
        sa.Column("entry_id", sa.Uuid(), nullable=False),
        sa.Column("metadata_location", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["entry_id"], ["entries.id"], name="fk_metadata_documents_entry_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("entry_id", name="pk_metadata_documents"),
    )
    op.create_table(
        "snapshots",
        sa.Column("entry_id", sa.Uuid(), nullable=False),
        sa.Column("snapshot_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("parent_snapshot_id", sa.BigInteger(), nullable=True),
        sa.Column("sequence_number", sa.BigInteger(), nullable=False),
        sa.Column("timestamp_ms", sa.BigInteger(), nullable=False),
        sa.Column("schema_id", sa.BigInteger(), nullable=True),
        sa.Column("operation", sa.Text(), nullable=True),
        sa.Column("manifest_list", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["entry_id"], ["entries.id"], name="fk_snapshots_entry_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("entry_id", "snapshot_id", name="pk_snapshots"),
    )
    op.create_table(
        "refs",
        sa.Column("entry_id", sa.Uuid(), nullable=False),
        sa.Column("name", _NAME, nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("snapshot_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["entry_id"], ["entries.id"], name="fk_refs_entry_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("entry_id", "name", name="pk_refs"),
    )
    if op.get_bind().dialect.name == "postgresql":
        # bodies are compressed already
        op.execute("ALTER TABLE metadata_documents ALTER COLUMN body SET STORAGE EXTERNAL")


def _create_records_of_requests() -> None:
    op.create_table(
        "commit_log",
        sa.Column("catalog_id", sa.Uuid(), nullable=False),
        sa.Column("commit_version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("transaction_id", sa.Uuid(), nullable=False),
        sa.Column("entry_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("operation", sa.Text(), nullable=False),
        sa.Column("levels", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("snapshot_id", sa.BigInteger(), nullable=True),
        sa.Column("metadata_location", sa.Text(), nullable=True),
        sa.Column("previous_metadata_location", sa.Text(), nullable=True),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("committed_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["catalog_id"], ["catalogs.id"], name="fk_commit_log_catalog_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("catalog_id", "commit_version", name="pk_commit_log"),
    )
    op.create_table(
        "staged_tables",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("catalog_id", sa.Uuid(), nullable=False),
        sa.Column("namespace", _NAME, nullable=False),
        sa.Column("name", _NAME, nullable=False),
        sa.Column("stage_id", _NAME, nullable=False),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["catalog_id"], ["catalogs.id"], name="fk_staged_tables_catalog_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_staged_tables"),
        sa.UniqueConstraint(
            "catalog_id",
            "namespace",
            "name",
            "stage_id",
            name="uq_staged_tables_catalog_id_namespace_name_stage_id",
        ),
    )
    op.create_index("ix_staged_tables_expires_at_ms", "staged_tables", ["expires_at_ms"], unique=False)
    op.create_table(
        "idempotency_records",
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("principal", _NAME, nullable=False),
        sa.Column("operation", _NAME, nullable=False),
        sa.Column("key", _NAME, nullable=False),
        sa.Column("request_hash", sa.Text(), nullable=False),
        sa.Column("owner", sa.Uuid(), nullable=False),
        sa.Column("outcome", sa.LargeBinary(), nullable=True),
        sa.Column("claimed_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("account_id", "principal", "operation", "key", name="pk_idempotency_records"),
    )
    op.create_index(
        "ix_idempotency_records_expires_at_ms", "idempotency_records", ["expires_at_ms"], unique=False
    )
    op.create_table(
        "metrics_reports",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("catalog_id", sa.Uuid(), nullable=False),
        sa.Column("entry_id", sa.Uuid(), nullable=False),
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("report_type", sa.Text(), nullable=False),
        sa.Column("snapshot_id", sa.BigInteger(), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("received_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["catalog_id"], ["catalogs.id"], name="fk_metrics_reports_catalog_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_metrics_reports"),
    )
    op.create_index("ix_metrics_reports_catalog_id", "metrics_reports", ["catalog_id"], unique=False)
    op.create_index(
        "ix_metrics_reports_entry_id_received_at_ms_id",
        "metrics_reports",
        ["entry_id", "received_at_ms", "id"],
        unique=False,
    )
    op.create_index("ix_metrics_reports_received_at_ms", "metrics_reports", ["received_at_ms"], unique=False)


def _create_work() -> None:
    op.create_table(
        "leases",
        sa.Column("name", _NAME, nullable=False),
        sa.Column("owner", sa.Uuid(), nullable=False),
        sa.Column("acquired_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_leases"),
    )
    op.create_table(
        "purge_jobs",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("catalog_id", sa.Uuid(), nullable=False),
        sa.Column("entry_id", sa.Uuid(), nullable=False),
        sa.Column("object_uuid", sa.Text(), nullable=False),
        sa.Column("identifier", sa.Text(), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("metadata_location", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("next_attempt_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("lease_owner", sa.Uuid(), nullable=True),
        sa.Column("lease_expires_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("deleted_files", sa.BigInteger(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("finished_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("document", sa.LargeBinary(), nullable=True),
        sa.CheckConstraint(
            "state IN ('pending', 'running', 'done', 'dead')", name=op.f("ck_purge_jobs_state")
        ),
        sa.ForeignKeyConstraint(
            ["catalog_id"], ["catalogs.id"], name="fk_purge_jobs_catalog_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_purge_jobs"),
    )
    op.create_index("ix_purge_jobs_catalog_id_id", "purge_jobs", ["catalog_id", "id"], unique=False)
    op.create_index(
        "ix_purge_jobs_finished_at_ms",
        "purge_jobs",
        ["finished_at_ms"],
        unique=False,
        sqlite_where=sa.text("finished_at_ms IS NOT NULL"),
        postgresql_where=sa.text("finished_at_ms IS NOT NULL"),
    )
    op.create_index(
        "ix_purge_jobs_next_attempt_at_ms",
        "purge_jobs",
        ["next_attempt_at_ms"],
        unique=False,
        sqlite_where=sa.text("finished_at_ms IS NULL"),
        postgresql_where=sa.text("finished_at_ms IS NULL"),
    )
