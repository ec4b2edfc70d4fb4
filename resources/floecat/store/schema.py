"""The tables of the store.

Every id is a UUIDv7, every time is in milliseconds since the epoch, JSON is text that only this package
reads. On PostgreSQL the tables live in the schema `floecat`, which the connection's search path names.
"""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

__all__ = [
    "GIVES_NAME",
    "HEAD_REVISION",
    "INDEXED_LOCATION",
    "IS_REGISTRATION",
    "LONGEST_INDEXED_LOCATION",
    "POSTGRESQL_SCHEMA",
    "VERSION_TABLE",
    "WRONG_SCHEMA",
    "accounts",
    "catalogs",
    "commit_log",
    "delta_tables",
    "entries",
    "jobs",
    "metadata",
    "metadata_documents",
    "namespaces",
    "refs",
    "snapshots",
]

POSTGRESQL_SCHEMA: Final = "floecat"
"""Schema of all tables on PostgreSQL."""

HEAD_REVISION: Final = "ccaf869a9442"
"""The revision that this code works with: a digest of the schema, which a test computes."""

VERSION_TABLE: Final = "floecat_alembic_version"
"""Table of Alembic's revision of a store; not its usual name, which Dagster takes in its own schema."""

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


def id_column(name: str = "id", *arguments: Any, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, sa.Uuid(), *arguments, nullable=False, **options)


def text_column(name: str, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, sa.Text(), nullable=options.pop("nullable", False), **options)


def name_column(name: str, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, _Name, nullable=False, **options)


def integer_column(name: str, *, nullable: bool = False, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, _Integer, nullable=nullable, **options)


def contents_tag_column() -> sa.Column[Any]:
    # another one whenever a name directly below comes or goes: answers of listings are kept by it
    return sa.Column("contents_tag", _Integer, nullable=False, server_default=sa.text("0"))


def owner_column() -> sa.Column[Any]:
    # a principal or a role: each may go, and what they owned stays
    return sa.Column("owner_id", sa.Uuid(), nullable=True)


def principal_column(name: str) -> sa.Column[Any]:
    # the name of a principal as it was then, as in `commit_log`; null where nobody did it
    return text_column(name, nullable=True)


def flag_column(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Boolean(), nullable=False, server_default=sa.false())


accounts: Final = sa.Table(
    "accounts",
    metadata,
    id_column(primary_key=True),
    name_column("name", unique=True),
    sa.Column("disabled", sa.Boolean(), nullable=False, server_default=sa.false()),
    integer_column("created_at_ms"),
    # counts the changes of who may do what
    sa.Column("access_version", _Integer, nullable=False, server_default=sa.text("0")),
)

catalogs: Final = sa.Table(
    "catalogs",
    metadata,
    id_column(primary_key=True),
    id_column("account_id", sa.ForeignKey("accounts.id", ondelete="RESTRICT")),
    name_column("name"),
    text_column("storage_location"),
    text_column("allowed_locations"),
    text_column("properties"),
    integer_column("commit_version"),
    integer_column("created_at_ms"),
    integer_column("updated_at_ms"),
    # false once a commit saw no batch of a purge, until a purge announces one: see `store.jobs.purge_batches`
    sa.Column("purging", sa.Boolean(), nullable=False, server_default=sa.true()),
    contents_tag_column(),
    owner_column(),
    flag_column("protected"),
    principal_column("created_by"),
    principal_column("updated_by"),
    # between the levels of its namespaces, where they are written as one text; null in a flat catalog
    text_column("schema_separator", nullable=True),
    sa.UniqueConstraint("account_id", "name"),
)

namespaces: Final = sa.Table(
    "namespaces",
    metadata,
    id_column(primary_key=True),
    id_column("catalog_id", sa.ForeignKey("catalogs.id", ondelete="RESTRICT")),
    sa.Column("parent_id", sa.Uuid(), sa.ForeignKey("namespaces.id", ondelete="RESTRICT"), nullable=True),
    name_column("physical_name"),
    text_column("levels"),
    text_column("properties"),
    integer_column("created_at_ms"),
    integer_column("updated_at_ms"),
    contents_tag_column(),
    owner_column(),
    flag_column("protected"),
    principal_column("created_by"),
    principal_column("updated_by"),
    sa.UniqueConstraint("catalog_id", "physical_name"),
    # lists children in order; its prefix serves the foreign key
    sa.Index(None, "parent_id", "catalog_id", "physical_name"),
)

entries: Final = sa.Table(
    "entries",
    metadata,
    id_column(primary_key=True),
    id_column("catalog_id", sa.ForeignKey("catalogs.id", ondelete="RESTRICT")),
    id_column("namespace_id", sa.ForeignKey("namespaces.id", ondelete="RESTRICT")),
    name_column("name"),
    text_column("kind"),
    text_column("object_uuid"),
    text_column("location"),
    text_column("metadata_location"),
    integer_column("version"),
    integer_column("format_version"),
    integer_column("created_at_ms"),
    integer_column("updated_at_ms"),
    text_column("format"),
    text_column("table_type", nullable=True),
    owner_column(),
    flag_column("protected"),
    # of a view: whether what it reads is read with the rights of its owner
    flag_column("definer"),
    sa.CheckConstraint("kind IN ('table', 'view')", name="kind"),
    sa.CheckConstraint("format IN ('iceberg', 'delta', 'followed')", name="format"),
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
    id_column("entry_id", sa.ForeignKey("entries.id", ondelete="CASCADE"), primary_key=True),
    text_column("metadata_location"),
    integer_column("size_bytes"),
    sa.Column("body", sa.LargeBinary(), nullable=False),
)

snapshots: Final = sa.Table(
    "snapshots",
    metadata,
    id_column("entry_id", sa.ForeignKey("entries.id", ondelete="CASCADE"), primary_key=True),
    integer_column("snapshot_id", primary_key=True, autoincrement=False),
    integer_column("parent_snapshot_id", nullable=True),
    integer_column("sequence_number"),
    integer_column("timestamp_ms"),
    integer_column("schema_id", nullable=True),
    text_column("operation", nullable=True),
    text_column("manifest_list", nullable=True),
)

refs: Final = sa.Table(
    "refs",
    metadata,
    id_column("entry_id", sa.ForeignKey("entries.id", ondelete="CASCADE"), primary_key=True),
    name_column("name", primary_key=True),
    text_column("type"),
    integer_column("snapshot_id"),
)


commit_log: Final = sa.Table(
    "commit_log",
    metadata,
    id_column("catalog_id", sa.ForeignKey("catalogs.id", ondelete="CASCADE"), primary_key=True),
    integer_column("commit_version", primary_key=True, autoincrement=False),
    id_column("transaction_id"),
    id_column("entry_id"),
    text_column("kind"),
    text_column("operation"),
    text_column("levels"),
    text_column("name"),
    integer_column("snapshot_id", nullable=True),
    text_column("metadata_location", nullable=True),
    text_column("previous_metadata_location", nullable=True),
    text_column("principal"),
    integer_column("committed_at_ms"),
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


_OPEN_JOB: Final = sa.text("finished_at_ms IS NULL")
_FINISHED_JOB: Final = sa.text("finished_at_ms IS NOT NULL")
_HAS_PARENT: Final = sa.text("parent_id IS NOT NULL")

jobs: Final = sa.Table(
    "jobs",
    metadata,
    id_column(primary_key=True),
    id_column("account_id"),
    # without a foreign key: a job outlives its catalog, and says in the end what became of it
    id_column("catalog_id"),
    text_column("kind"),
    text_column("lane"),
    text_column("title"),
    text_column("subject"),
    text_column("resource"),
    text_column("payload"),
    text_column("progress"),
    sa.Column("attachment", sa.LargeBinary(), nullable=True),
    text_column("state"),
    integer_column("attempts"),
    integer_column("max_attempts"),
    integer_column("not_before_ms"),
    text_column("lease_owner", nullable=True),
    integer_column("lease_epoch"),
    integer_column("lease_expires_at_ms", nullable=True),
    sa.Column("parent_id", sa.Uuid(), nullable=True),
    text_column("dedup_key", nullable=True),
    sa.Column("cancel_requested", sa.Boolean(), nullable=False),
    text_column("created_by"),
    text_column("request_id", nullable=True),
    text_column("last_error", nullable=True),
    integer_column("created_at_ms"),
    integer_column("started_at_ms", nullable=True),
    integer_column("updated_at_ms"),
    integer_column("finished_at_ms", nullable=True),
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
    sa.Index(None, "parent_id", "finished_at_ms", sqlite_where=_HAS_PARENT, postgresql_where=_HAS_PARENT),
)


delta_tables: Final = sa.Table(
    "delta_tables",
    metadata,
    id_column("entry_id", sa.ForeignKey("entries.id", ondelete="CASCADE"), primary_key=True),
    name_column("location"),
    integer_column("version", nullable=True),
    text_column("log_fingerprint", nullable=True),
    sa.Column("field_ids", sa.LargeBinary(), nullable=False),
    sa.Column("state", sa.LargeBinary(), nullable=True),
    integer_column("generation"),
    integer_column("format_version", nullable=True),
    sa.Column("connector_id", sa.Uuid(), sa.ForeignKey("connectors.id", ondelete="SET NULL"), nullable=True),
    # since when the connector has not found it
    integer_column("gone_at_ms", nullable=True),
    text_column("problem", nullable=True),
    integer_column("checked_at_ms", nullable=True),
    integer_column("refreshed_at_ms", nullable=True),
    integer_column("created_at_ms"),
    sa.Index(None, "location"),
    sa.Index(None, "connector_id", "entry_id"),
)
