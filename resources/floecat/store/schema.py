"""The tables of the store.

Every id is a UUIDv7, every time is in milliseconds since the epoch, JSON is text that only this package
reads. On PostgreSQL the tables live in the schema `floecat`, which the connection's search path names.
"""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

__all__ = [
    "GIVES_NAME",
    "INDEXED_LOCATION",
    "IS_REGISTRATION",
    "LONGEST_INDEXED_LOCATION",
    "POSTGRESQL_SCHEMA",
    "WRONG_SCHEMA",
    "accounts",
    "catalogs",
    "commit_log",
    "connectors",
    "delta_tables",
    "entries",
    "entry_areas",
    "entry_folders",
    "idempotency_records",
    "jobs",
    "leases",
    "metadata",
    "metadata_documents",
    "metrics_reports",
    "namespaces",
    "plan_tasks",
    "plans",
    "purge_batches",
    "queries",
    "query_pins",
    "refs",
    "snapshots",
    "staged_tables",
    "transactions",
]

POSTGRESQL_SCHEMA: Final = "floecat"
"""Where all tables live on PostgreSQL."""

WRONG_SCHEMA: Final = "The store lacks a table or a column: run `floecat db upgrade`"
"""The message for an operator whose store has other tables."""

metadata: Final = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# Names sort by bytes on both databases, whatever the locale of PostgreSQL: pages and prefixes depend on it.
_Name: Final = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_Integer: Final = sa.BigInteger()

IS_REGISTRATION: Final = "{}operation = 'register'"
"""Condition on a row of the commit log: what the index over entries there holds."""

GIVES_NAME: Final = "operation IN ('create', 'register', 'rename')"
"""Condition on a row of the commit log: the commits that give an entry its name."""

LONGEST_INDEXED_LOCATION: Final = 512
"""Characters. PostgreSQL keeps at most 2,704 bytes in an entry of an index."""

INDEXED_LOCATION: Final = f"length({{}}) <= {LONGEST_INDEXED_LOCATION}"
"""Condition on a column, to be formatted in: what the index over locations in the commit log holds."""

_HAS_TABLE_TYPE: Final = sa.text("table_type IS NOT NULL")
_IS_REGISTRATION: Final = sa.text(IS_REGISTRATION.format(""))
_GIVES_NAME: Final = sa.text(GIVES_NAME)
_HAS_INDEXED_LOCATION: Final = sa.text(INDEXED_LOCATION.format("metadata_location"))


def _id(name: str = "id", *arguments: Any, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, sa.Uuid(), *arguments, nullable=False, **options)


def _text(name: str, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, sa.Text(), nullable=options.pop("nullable", False), **options)


def _name(name: str, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, _Name, nullable=False, **options)


def _integer(name: str, *, nullable: bool = False, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, _Integer, nullable=nullable, **options)


accounts: Final = sa.Table(
    "accounts",
    metadata,
    _id(primary_key=True),
    _integer("created_at_ms"),
)

catalogs: Final = sa.Table(
    "catalogs",
    metadata,
    _id(primary_key=True),
    _id("account_id", sa.ForeignKey("accounts.id", ondelete="RESTRICT")),
    _name("name"),
    _text("storage_location"),
    _text("allowed_locations"),
    _text("properties"),
    _integer("commit_version"),
    _integer("created_at_ms"),
    _integer("updated_at_ms"),
    # false once a commit saw no batch of a purge, until a purge announces one: see `store.purge_batches`
    sa.Column("purging", sa.Boolean(), nullable=False, server_default=sa.true()),
    sa.UniqueConstraint("account_id", "name"),
)

namespaces: Final = sa.Table(
    "namespaces",
    metadata,
    _id(primary_key=True),
    _id("catalog_id", sa.ForeignKey("catalogs.id", ondelete="RESTRICT")),
    sa.Column("parent_id", sa.Uuid(), sa.ForeignKey("namespaces.id", ondelete="RESTRICT"), nullable=True),
    _name("physical_name"),
    _text("levels"),
    _text("properties"),
    _integer("created_at_ms"),
    _integer("updated_at_ms"),
    sa.UniqueConstraint("catalog_id", "physical_name"),
    # lists children in order; its prefix serves the foreign key
    sa.Index(None, "parent_id", "catalog_id", "physical_name"),
)

entries: Final = sa.Table(
    "entries",
    metadata,
    _id(primary_key=True),
    _id("catalog_id", sa.ForeignKey("catalogs.id", ondelete="RESTRICT")),
    _id("namespace_id", sa.ForeignKey("namespaces.id", ondelete="RESTRICT")),
    _name("name"),
    _text("kind"),
    _text("object_uuid"),
    _text("location"),
    _text("metadata_location"),
    _integer("version"),
    _integer("format_version"),
    _integer("created_at_ms"),
    _integer("updated_at_ms"),
    _text("format"),
    _text("table_type", nullable=True),
    sa.CheckConstraint("kind IN ('table', 'view')", name="kind"),
    sa.CheckConstraint("format IN ('iceberg', 'delta')", name="format"),
    sa.UniqueConstraint("namespace_id", "name"),
    sa.Index(None, "namespace_id", "kind", "name"),
    sa.Index(
        None,
        "namespace_id",
        "table_type",
        "name",
        sqlite_where=_HAS_TABLE_TYPE,
        postgresql_where=_HAS_TABLE_TYPE,
    ),
    sa.Index(None, "object_uuid"),
)

metadata_documents: Final = sa.Table(
    "metadata_documents",
    metadata,
    _id("entry_id", sa.ForeignKey("entries.id", ondelete="CASCADE"), primary_key=True),
    _text("metadata_location"),
    _integer("size_bytes"),
    sa.Column("body", sa.LargeBinary(), nullable=False),
)

snapshots: Final = sa.Table(
    "snapshots",
    metadata,
    _id("entry_id", sa.ForeignKey("entries.id", ondelete="CASCADE"), primary_key=True),
    _integer("snapshot_id", primary_key=True, autoincrement=False),
    _integer("parent_snapshot_id", nullable=True),
    _integer("sequence_number"),
    _integer("timestamp_ms"),
    _integer("schema_id", nullable=True),
    _text("operation", nullable=True),
    _text("manifest_list", nullable=True),
)

refs: Final = sa.Table(
    "refs",
    metadata,
    _id("entry_id", sa.ForeignKey("entries.id", ondelete="CASCADE"), primary_key=True),
    _name("name", primary_key=True),
    _text("type"),
    _integer("snapshot_id"),
)

entry_areas: Final = sa.Table(
    "entry_areas",
    metadata,
    _id("entry_id", sa.ForeignKey("entries.id", ondelete="CASCADE"), primary_key=True),
    _integer("version"),
    _text("metadata_location"),
    _text("scope"),
    _text("problem", nullable=True),
)

entry_folders: Final = sa.Table(
    "entry_folders",
    metadata,
    _name("folder", primary_key=True),
    _id("entry_id", sa.ForeignKey("entries.id", ondelete="CASCADE"), primary_key=True, index=True),
)

commit_log: Final = sa.Table(
    "commit_log",
    metadata,
    _id("catalog_id", sa.ForeignKey("catalogs.id", ondelete="CASCADE"), primary_key=True),
    _integer("commit_version", primary_key=True, autoincrement=False),
    _id("transaction_id"),
    _id("entry_id"),
    _text("kind"),
    _text("operation"),
    _text("levels"),
    _text("name"),
    _integer("snapshot_id", nullable=True),
    _text("metadata_location", nullable=True),
    _text("previous_metadata_location", nullable=True),
    _text("principal"),
    _integer("committed_at_ms"),
    sa.Column("purge_requested", sa.Boolean(), nullable=False),
    # finds who wrote a metadata file, and every entry that it was current for
    sa.Index(
        None,
        "metadata_location",
        sqlite_where=_HAS_INDEXED_LOCATION,
        postgresql_where=_HAS_INDEXED_LOCATION,
    ),
    # finds the commit since which an entry has been this table
    sa.Index(None, "entry_id", sqlite_where=_IS_REGISTRATION, postgresql_where=_IS_REGISTRATION),
    # finds who created an entry, and its earlier names
    sa.Index(
        "ix_commit_log_names",
        "entry_id",
        "commit_version",
        sqlite_where=_GIVES_NAME,
        postgresql_where=_GIVES_NAME,
    ),
)

transactions: Final = sa.Table(
    "transactions",
    metadata,
    _id(primary_key=True),
    _integer("committed_at_ms", index=True),
)

staged_tables: Final = sa.Table(
    "staged_tables",
    metadata,
    _id(primary_key=True),
    _id("catalog_id", sa.ForeignKey("catalogs.id", ondelete="CASCADE")),
    _name("namespace"),
    _name("name"),
    _name("stage_id"),
    _text("principal"),
    sa.Column("body", sa.LargeBinary(), nullable=False),
    _integer("created_at_ms"),
    _integer("expires_at_ms", index=True),
    sa.UniqueConstraint("catalog_id", "namespace", "name", "stage_id"),
)

idempotency_records: Final = sa.Table(
    "idempotency_records",
    metadata,
    _id("account_id", primary_key=True),
    _name("principal", primary_key=True),
    _name("operation", primary_key=True),
    _name("key", primary_key=True),
    _text("request_hash"),
    _id("owner"),
    sa.Column("outcome", sa.LargeBinary(), nullable=True),
    _integer("claimed_at_ms"),
    _integer("expires_at_ms", index=True),
)

leases: Final = sa.Table(
    "leases",
    metadata,
    _name("name", primary_key=True),
    _id("owner"),
    _integer("acquired_at_ms"),
    _integer("expires_at_ms"),
)

_OPEN_JOB: Final = sa.text("finished_at_ms IS NULL")
_FINISHED_JOB: Final = sa.text("finished_at_ms IS NOT NULL")
_HAS_PARENT: Final = sa.text("parent_id IS NOT NULL")

jobs: Final = sa.Table(
    "jobs",
    metadata,
    _id(primary_key=True),
    _id("account_id"),
    # without a foreign key: a job outlives its catalog, and says in the end what became of it
    _id("catalog_id"),
    _text("kind"),
    _text("lane"),
    _text("title"),
    _text("subject"),
    _text("resource"),
    _text("payload"),
    _text("progress"),
    sa.Column("attachment", sa.LargeBinary(), nullable=True),
    _text("state"),
    _integer("attempts"),
    _integer("max_attempts"),
    _integer("not_before_ms"),
    _text("lease_owner", nullable=True),
    _integer("lease_epoch"),
    _integer("lease_expires_at_ms", nullable=True),
    sa.Column("parent_id", sa.Uuid(), nullable=True),
    _text("dedup_key", nullable=True),
    sa.Column("cancel_requested", sa.Boolean(), nullable=False),
    _text("created_by"),
    _text("request_id", nullable=True),
    _text("last_error", nullable=True),
    _integer("created_at_ms"),
    _integer("started_at_ms", nullable=True),
    _integer("updated_at_ms"),
    _integer("finished_at_ms", nullable=True),
    sa.CheckConstraint(
        "state IN ('queued', 'waiting', 'running', 'cancelling', 'succeeded', 'failed', 'cancelled')",
        name="state",
    ),
    # a worker looks here for due jobs of a kind, however many are finished, and takes one of the next account
    sa.Index(None, "kind", "not_before_ms", sqlite_where=_OPEN_JOB, postgresql_where=_OPEN_JOB),
    sa.Index(
        "ix_jobs_kind_account_id",
        "kind",
        "account_id",
        "not_before_ms",
        sqlite_where=_OPEN_JOB,
        postgresql_where=_OPEN_JOB,
    ),
    sa.Index(None, "subject", sqlite_where=_OPEN_JOB, postgresql_where=_OPEN_JOB),
    sa.Index(None, "resource", sqlite_where=_OPEN_JOB, postgresql_where=_OPEN_JOB),
    sa.Index(
        "uq_jobs_kind_dedup_key",
        "kind",
        "dedup_key",
        unique=True,
        sqlite_where=_OPEN_JOB,
        postgresql_where=_OPEN_JOB,
    ),
    sa.Index(None, "kind", "finished_at_ms", sqlite_where=_FINISHED_JOB, postgresql_where=_FINISHED_JOB),
    sa.Index(None, "catalog_id", "id"),
    # the jobs that another one waits for
    sa.Index(None, "parent_id", sqlite_where=_HAS_PARENT, postgresql_where=_HAS_PARENT),
)

_UNDER_WAY: Final = sa.text("under_way")

purge_batches: Final = sa.Table(
    "purge_batches",
    metadata,
    _id("job_id", sa.ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    _integer("lease_epoch"),
    _text("folders"),
    sa.Column("under_way", sa.Boolean(), nullable=False),
    _integer("hold_until_ms"),
    sa.Index(None, "job_id", sqlite_where=_UNDER_WAY, postgresql_where=_UNDER_WAY),
)

metrics_reports: Final = sa.Table(
    "metrics_reports",
    metadata,
    _id(primary_key=True),
    _id("catalog_id", sa.ForeignKey("catalogs.id", ondelete="CASCADE"), index=True),
    _id("entry_id"),
    _text("table_name"),
    _text("report_type"),
    _integer("snapshot_id", nullable=True),
    sa.Column("body", sa.LargeBinary(), nullable=False),
    _text("principal"),
    _integer("received_at_ms", index=True),
    sa.Index(None, "entry_id", "received_at_ms", "id"),
)

connectors: Final = sa.Table(
    "connectors",
    metadata,
    _id(primary_key=True),
    _id("catalog_id", sa.ForeignKey("catalogs.id", ondelete="CASCADE")),
    _name("name"),
    _text("kind"),
    _text("location"),
    _text("namespace"),
    _text("options"),
    sa.Column("enabled", sa.Boolean(), nullable=False),
    _integer("interval_ms"),
    _integer("next_scan_at_ms"),
    _integer("last_scan_at_ms", nullable=True),
    _text("last_error", nullable=True),
    _integer("created_at_ms"),
    _integer("updated_at_ms"),
    sa.UniqueConstraint("catalog_id", "name"),
    # a schedule takes the due ones from here
    sa.Index(None, "enabled", "next_scan_at_ms"),
)

delta_tables: Final = sa.Table(
    "delta_tables",
    metadata,
    _id("entry_id", sa.ForeignKey("entries.id", ondelete="CASCADE"), primary_key=True),
    _name("location"),
    _integer("version", nullable=True),
    _text("log_fingerprint", nullable=True),
    sa.Column("field_ids", sa.LargeBinary(), nullable=False),
    sa.Column("state", sa.LargeBinary(), nullable=True),
    _integer("generation"),
    _integer("format_version", nullable=True),
    sa.Column("connector_id", sa.Uuid(), sa.ForeignKey("connectors.id", ondelete="SET NULL"), nullable=True),
    _text("problem", nullable=True),
    _integer("checked_at_ms", nullable=True),
    _integer("refreshed_at_ms", nullable=True),
    _integer("created_at_ms"),
    sa.Index(None, "location"),
    sa.Index(None, "connector_id"),
)

_OPEN_QUERY: Final = sa.text("ended_at_ms IS NULL")
_OPEN_TASK: Final = sa.text("consumed_at_ms IS NULL")

queries: Final = sa.Table(
    "queries",
    metadata,
    _id(primary_key=True),
    _id("catalog_id", sa.ForeignKey("catalogs.id", ondelete="CASCADE")),
    _name("principal"),
    _text("state"),
    _text("obligations"),
    _integer("as_of_default_ms", nullable=True),
    _integer("created_at_ms"),
    _integer("expires_at_ms", index=True),
    _integer("ended_at_ms", nullable=True),
    sa.CheckConstraint(
        "state IN ('submitted', 'completed', 'failed', 'ended_commit', 'ended_abort')", name="state"
    ),
    # counts those of a catalog that are open, and those of a principal
    sa.Index(None, "catalog_id", "principal", sqlite_where=_OPEN_QUERY, postgresql_where=_OPEN_QUERY),
)

query_pins: Final = sa.Table(
    "query_pins",
    metadata,
    _id("query_id", sa.ForeignKey("queries.id", ondelete="CASCADE"), primary_key=True),
    # without a foreign key: the pin of a table that was dropped stays as it was
    _id("table_id", primary_key=True),
    _text("kind"),
    _integer("snapshot_id", nullable=True),
    _text("metadata_location"),
    _integer("schema_id"),
    _integer("first_as_of_ms", nullable=True),
    _integer("last_as_of_ms", nullable=True),
    _integer("pinned_at_ms"),
    sa.CheckConstraint("kind IN ('current', 'as_of', 'snapshot_id')", name="kind"),
)

plans: Final = sa.Table(
    "plans",
    metadata,
    _id("query_id", sa.ForeignKey("queries.id", ondelete="CASCADE"), primary_key=True),
    _id("entry_id"),
    sa.Column("request", sa.LargeBinary(), nullable=False),
    sa.Column("answer", sa.LargeBinary(), nullable=True),
    _text("error", nullable=True),
    _integer("epoch"),
)

plan_tasks: Final = sa.Table(
    "plan_tasks",
    metadata,
    _id("query_id", sa.ForeignKey("plans.query_id", ondelete="CASCADE"), primary_key=True),
    _integer("number", primary_key=True, autoincrement=False),
    sa.Column("answer", sa.LargeBinary(), nullable=True),
    _integer("first_manifest", nullable=True),
    _integer("end_manifest", nullable=True),
    _integer("consumed_at_ms", nullable=True),
    _text("consumed_key", nullable=True),
    # says whether a plan has tasks left
    sa.Index(None, "query_id", sqlite_where=_OPEN_TASK, postgresql_where=_OPEN_TASK),
)
