"""Metrics reports that clients send, kept for a time."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import msgspec
import sqlalchemy as sa

from floecat.store.database.connections import Connection
from floecat.store.database.statements import LIMIT
from floecat.store.schema import id_column, integer_column, metadata, text_column

__all__ = ["MetricsReportRow", "Surplus", "delete_before", "insert"]

_reports: Final = sa.Table(
    "metrics_reports",
    metadata,
    id_column(primary_key=True),
    id_column("catalog_id", sa.ForeignKey("catalogs.id", ondelete="CASCADE")),
    id_column("entry_id"),
    text_column("table_name"),
    text_column("report_type"),
    integer_column("snapshot_id", nullable=True),
    text_column("principal"),
    integer_column("received_at_ms", index=True),
    integer_column("size_bytes"),
    # last, so that SQLite passes over it
    sa.Column("body", sa.LargeBinary(), nullable=False),
    sa.Index(None, "entry_id", "received_at_ms", "id"),
    # finds the oldest reports of a catalog that has too many; they are weighed in it alone
    sa.Index(None, "catalog_id", "received_at_ms", "size_bytes"),
)

_ROW_BYTES: Final = 512
"""Of a report beside its body, about."""

_INSERT: Final = sa.insert(_reports)
_doomed: Final = (
    sa.select(_reports.c.id)
    .where(_reports.c.received_at_ms < sa.bindparam("before_ms"))
    .order_by(_reports.c.received_at_ms)
    .limit(LIMIT)
)
_DELETE_BEFORE: Final = sa.delete(_reports).where(_reports.c.id.in_(_doomed))
_with_newer: Final = sa.select(
    _reports.c.catalog_id,
    _reports.c.received_at_ms,
    sa.func.sum(_reports.c.size_bytes)
    .over(partition_by=_reports.c.catalog_id, order_by=_reports.c.received_at_ms, range_=(0, None))
    .label("size_bytes"),
).subquery()
_BEYOND: Final = (
    sa.select(_with_newer.c.catalog_id, sa.func.max(_with_newer.c.received_at_ms))
    .where(_with_newer.c.size_bytes > sa.bindparam("most_bytes"))
    .group_by(_with_newer.c.catalog_id)
)
_of_catalog: Final = _doomed.where(_reports.c.catalog_id == sa.bindparam("of_catalog"))
_DELETE_OF_CATALOG: Final = sa.delete(_reports).where(_reports.c.id.in_(_of_catalog))


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
    size_bytes = len(row.body) + _ROW_BYTES
    conn.change(_INSERT, {**msgspec.structs.asdict(row), "size_bytes": size_bytes})


def delete_before(conn: Connection, before_ms: int, limit: int) -> int:
    """Deletes reports that were received before a time, oldest first.

    Returns:
        How many; fewer than `limit` when none are left.
    """
    return conn.change(_DELETE_BEFORE, {"before_ms": before_ms, "limit": limit})


class Surplus:
    """Deletes reports of catalogs that have too many bytes of them, the oldest ones."""

    def __init__(self, most_bytes: int) -> None:
        """Sets the most bytes of the reports of a catalog."""
        self._most_bytes = most_bytes
        self._left: list[tuple[UUID, int]] = []
        """Catalogs, each with the time before which its reports are too many; weighing all is not cheap."""

    def delete(self, conn: Connection, _now_ms: int, limit: int) -> int:
        """Deletes some; returns how many, fewer than `limit` when none are left."""
        self._left = self._left or [
            (row[0], row[1] + 1) for row in conn.all(_BEYOND, {"most_bytes": self._most_bytes})
        ]
        removed = 0
        while self._left and removed < limit:
            of_catalog, before_ms = self._left[-1]
            parameters = {"of_catalog": of_catalog, "before_ms": before_ms, "limit": limit - removed}
            removed += conn.change(_DELETE_OF_CATALOG, parameters)
            if removed < limit:
                self._left.pop()
        return removed
