"""Reports that clients send after scans and commits: validated, logged, kept for a while."""

from __future__ import annotations

import logging

import uuid_utils.compat as uuids

from floecat.auth.authorizer import Privilege
from floecat.clock import Clock
from floecat.entries.calls import Call
from floecat.entries.names import existing_entry
from floecat.errors import ForbiddenError, NoSuchTableError, PayloadTooLargeError
from floecat.iceberg.metrics_reports import ScanReport, parse_report
from floecat.identifiers.encoding import physical_name
from floecat.identifiers.namespace import TableIdentifier
from floecat.store.commits import metrics
from floecat.store.database.engine import Store
from floecat.store.entries import staged_tables
from floecat.store.entries.documents import compress

__all__ = ["MetricsService"]

_log = logging.getLogger(__name__)


class MetricsService:
    """Takes metrics reports (Iceberg REST specification, `ReportMetricsRequest`)."""

    def __init__(self, store: Store, clock: Clock, *, max_report_bytes: int) -> None:
        self._store = store
        self._max_report_bytes = max_report_bytes
        self._clock = clock

    def report(self, call: Call, identifier: TableIdentifier, body: bytes) -> None:
        """Validates and keeps a report; one of a table that is staged is dropped.

        Raises:
            BadRequestError: a required field is missing or has the wrong type.
            ForbiddenError: the principal may not read the table.
            NoSuchTableError: the table does not exist.
            PayloadTooLargeError: the report is larger than `floecat.limits.metrics-report-bytes`.
        """
        if len(body) > self._max_report_bytes:
            raise PayloadTooLargeError(
                "The metrics report is larger than floecat.limits.metrics-report-bytes: "
                f"{self._max_report_bytes} bytes"
            )
        report = parse_report(body)
        kind = "scan-report" if isinstance(report, ScanReport) else "commit-report"
        try:
            row = existing_entry(self._store, call, "table", identifier, Privilege.READ_TABLE)
        except (NoSuchTableError, ForbiddenError):
            # clients report the first append before they commit it, and own the table from then on
            if self._is_staged(call, identifier):
                return
            raise
        _log.info(
            "%s of table %s, snapshot %d", kind, identifier, report.snapshot_id,
            extra={"principal": call.principal.name},
        )  # fmt: skip
        kept = metrics.MetricsReportRow(
            id=uuids.uuid7(),
            catalog_id=call.catalog.id,
            entry_id=row.id,
            table_name=str(identifier),
            report_type=kind,
            snapshot_id=report.snapshot_id,
            body=compress(body),
            received_at_ms=self._clock.now_ms(),
            principal=call.principal.name,
        )
        self._store.run(lambda conn: metrics.insert(conn, kept))

    def _is_staged(self, call: Call, identifier: TableIdentifier) -> bool:
        namespace = physical_name(identifier.namespace)
        with self._store.read() as conn:
            rows = staged_tables.find(conn, call.catalog.id, namespace, identifier.name, self._clock.now_ms())
        return any(row.principal == call.principal.name for row in rows)
