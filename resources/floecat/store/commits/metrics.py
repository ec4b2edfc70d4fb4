"""Metrics reports that clients send, kept for a time."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import msgspec
import sqlalchemy as sa

from floecat.store.database.connections import Connection
from floecat.store.database.statements import LIMIT
from floecat.store.schema import id_column, integer_column, metadata, text_column

__all__ = ["MetricsReportRow", "delete_before", "insert"]

_reports: Final = sa.Table(
    "metrics_reports",
    metadata,
    id_column(primary_key=True),
    id_column("catalog_id", sa.ForeignKey("catalogs.id", ondelete="CASCADE"), index=True),
    id_column("entry_id"),
    text_column("table_name"),
    text_column("report_type"),
    integer_column("snapshot_id", nullable=True),
    sa.Column("body", sa.LargeBinary(), nullable=False),
    text_column("principal"),
    integer_column("received_at_ms", index=True),
    sa.Index(None, "entry_id", "received_at_ms", "id"),
)

_INSERT: Final = sa.insert(_reports)
_doomed: Final = (
    sa.select(_reports.c.id)
    .where(_reports.c.received_at_ms < sa.bindparam("before_ms"))
    .order_by(_reports.c.received_at_ms)
    .limit(LIMIT)
)
_DELETE_BEFORE: Final = sa.delete(_reports).where(_reports.c.id.in_(_doomed))


class MetricsReportRow(msgspec.Struct, frozen=True):
    """A scan or commit report."""

    id: UUID
    catalog_id: UUID
    entry_id: UUID
    table_name: str
    """Identifier of the table when the report came."""
    report_type: str
    """`scan-report` or `commit-report`."""
    snapshot_id: int | None
    body: bytes
    """The report as JSON, compressed by `floecat.store.entries.documents`."""
    received_at_ms: int
    principal: str


def insert(conn: Connection, row: MetricsReportRow) -> None:
    """Inserts a report.

    Raises:
        ForeignKeyError: there is no such catalog.
    """
    conn.change(_INSERT, msgspec.structs.asdict(row))


def delete_before(conn: Connection, before_ms: int, limit: int) -> int:
    """Deletes reports that were received before a time, oldest first.

    Returns:
        How many; fewer than `limit` when none are left.
    """
    return conn.change(_DELETE_BEFORE, {"before_ms": before_ms, "limit": limit})
