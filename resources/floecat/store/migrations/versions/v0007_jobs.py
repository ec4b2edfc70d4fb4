"""One table of jobs of all kinds in place of that of purge jobs."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_STATES = {"pending": "queued", "running": "waiting", "dead": "failed"}
_OPEN = sa.text("finished_at_ms IS NULL")
_FINISHED = sa.text("finished_at_ms IS NOT NULL")
_MAX_ATTEMPTS = 10
_OLD_COLUMNS = (
    "object_uuid",
    "identifier",
    "location",
    "metadata_location",
    "state",
    "attempts",
    "next_attempt_at_ms",
    "last_error",
    "deleted_files",
    "created_at_ms",
    "finished_at_ms",
    "document",
    "format",
)


def upgrade() -> None:
    """Creates the table and moves every purge job into it that is not done."""
    jobs = _create_jobs()
    connection = op.get_bind()
    texts: list[sa.ColumnClause[Any]] = [sa.column(name) for name in _OLD_COLUMNS]
    ids = [sa.column(name, sa.Uuid()) for name in ("id", "catalog_id", "entry_id")]
    old = sa.table("purge_jobs", *texts, *ids)
    catalogs = sa.table("catalogs", sa.column("id", sa.Uuid()), sa.column("account_id", sa.Uuid()))
    query = (
        sa.select(old, catalogs.c.account_id)
        .join(catalogs, catalogs.c.id == old.c.catalog_id)
        .where(old.c.state != "done")
    )
    for row in connection.execute(query).mappings().all():
        connection.execute(jobs.insert(), _job(row))
    op.drop_table("purge_jobs")


def _job(row: Any) -> dict[str, object]:
    delta = row["format"] == "delta"
    payload = {
        "entry_id": str(row["entry_id"]),
        "table_uuid": row["object_uuid"],
        "location": row["location"],
        "metadata_location": row["metadata_location"],
        "format": row["format"],
    }
    return {
        "id": row["id"],
        "account_id": row["account_id"],
        "catalog_id": row["catalog_id"],
        "kind": "purge",
        "lane": "default",
        "title": row["identifier"],
        "subject": row["object_uuid"].lower(),
        "resource": row["location"] if delta else row["metadata_location"],
        "payload": json.dumps(payload),
        "progress": json.dumps({"deleted_files": row["deleted_files"]}),
        "attachment": row["document"],
        "state": _STATES[row["state"]],
        "attempts": row["attempts"],
        "max_attempts": _MAX_ATTEMPTS,
        "not_before_ms": row["next_attempt_at_ms"],
        "lease_epoch": 0,
        "cancel_requested": False,
        "created_by": "",
        "last_error": row["last_error"],
        "created_at_ms": row["created_at_ms"],
        "updated_at_ms": row["created_at_ms"],
        "finished_at_ms": row["finished_at_ms"],
    }


def _create_jobs() -> sa.Table:
    jobs = op.create_table(
        "jobs",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("catalog_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("resource", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("progress", sa.Text(), nullable=False),
        sa.Column("attachment", sa.LargeBinary(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("max_attempts", sa.BigInteger(), nullable=False),
        sa.Column("not_before_ms", sa.BigInteger(), nullable=False),
        sa.Column("lease_owner", sa.Text(), nullable=True),
        sa.Column("lease_epoch", sa.BigInteger(), nullable=False),
        sa.Column("lease_expires_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("parent_id", sa.Uuid(), nullable=True),
        sa.Column("dedup_key", sa.Text(), nullable=True),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("started_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("finished_at_ms", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(
            "state IN ('queued', 'waiting', 'running', 'cancelling', 'succeeded', 'failed', 'cancelled')",
            name="ck_jobs_state",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
    )
    for name, columns, condition, unique in (
        ("ix_jobs_kind_not_before_ms", ["kind", "not_before_ms"], _OPEN, False),
        ("ix_jobs_subject", ["subject"], _OPEN, False),
        ("ix_jobs_resource", ["resource"], _OPEN, False),
        ("uq_jobs_kind_dedup_key", ["kind", "dedup_key"], _OPEN, True),
        ("ix_jobs_kind_finished_at_ms", ["kind", "finished_at_ms"], _FINISHED, False),
    ):
        op.create_index(
            name, "jobs", columns, unique=unique, sqlite_where=condition, postgresql_where=condition
        )
    op.create_index("ix_jobs_catalog_id_id", "jobs", ["catalog_id", "id"], unique=False)
    return jobs
