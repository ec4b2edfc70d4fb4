"""Bodies about connectors."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from floecat.connectors.connector_service import ConnectorInfo, NewConnector
from floecat.connectors.scans import FailedTable, KnownTable, ScanReport
from floecat.errors import BadRequestError
from floecat.settings import Duration
from floecat_rest.management.wire.tables import (
    Identifier,
    Problem,
    RegisteredTable,
    problem_of,
    registered_table,
)

__all__ = [
    "ConnectorResponse",
    "CreateConnectorRequest",
    "ListConnectorsResponse",
    "ScanResponse",
    "connector_response",
    "scan_response",
]


class CreateConnectorRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A place that is scanned for tables."""

    name: str
    kind: str
    location: str
    namespace: tuple[str, ...] = ()
    options: dict[str, str] = {}
    enabled: bool = True
    interval: str = "PT10M"
    """ISO-8601 duration between two scheduled scans."""

    def to_kernel(self) -> NewConnector:
        """The kernel's form.

        Raises:
            BadRequestError: the interval is no duration.
        """
        try:
            interval_ms = Duration.parse(self.interval).ms
        except ValueError:
            raise BadRequestError("Invalid interval: must be an ISO-8601 duration such as PT10M") from None
        return NewConnector(
            self.name, self.kind, self.location, self.namespace, self.options, self.enabled, interval_ms
        )


class ConnectorResponse(msgspec.Struct, rename="kebab"):
    """A connector."""

    name: str
    kind: str
    location: str
    namespace: tuple[str, ...]
    options: dict[str, str]
    enabled: bool
    interval: str
    next_scan_at_ms: int
    last_scan_at_ms: int | None
    last_error: str | None
    created_at_ms: int


class ListConnectorsResponse(msgspec.Struct):
    """The connectors of a catalog, by name."""

    connectors: Sequence[ConnectorResponse]


class SkippedTable(msgspec.Struct):
    """A table that the catalog had before."""

    identifier: Identifier
    location: str


class FailedResponse(msgspec.Struct):
    """A table that did not become one of the catalog, or a place that could not be looked at."""

    identifier: Identifier | None
    location: str
    problem: Problem


class ScanResponse(msgspec.Struct):
    """What a scan found."""

    registered: Sequence[RegisteredTable]
    skipped: Sequence[SkippedTable]
    failed: Sequence[FailedResponse]
    problem: Problem | None
    """Why the scan ended before everything was looked at, if so."""


def connector_response(connector: ConnectorInfo) -> ConnectorResponse:
    """Renders a connector."""
    return ConnectorResponse(
        name=connector.name,
        kind=connector.kind,
        location=connector.location,
        namespace=connector.namespace,
        options=connector.options,
        enabled=connector.enabled,
        interval=str(Duration(connector.interval_ms)),
        next_scan_at_ms=connector.next_scan_at_ms,
        last_scan_at_ms=connector.last_scan_at_ms,
        last_error=connector.last_error,
        created_at_ms=connector.created_at_ms,
    )


def scan_response(report: ScanReport, request_id: str) -> ScanResponse:
    """Renders a scan."""
    return ScanResponse(
        registered=[registered_table(registration, request_id) for registration in report.registered],
        skipped=[_skipped(known) for known in report.skipped],
        failed=[_failed(failure, request_id) for failure in report.failed],
        problem=problem_of(report.error, request_id) if report.error else None,
    )


def _skipped(known: KnownTable) -> SkippedTable:
    return SkippedTable(Identifier.of(known.identifier), known.location)


def _failed(failure: FailedTable, request_id: str) -> FailedResponse:
    identifier = Identifier.of(failure.identifier) if failure.identifier else None
    return FailedResponse(identifier, failure.location, problem_of(failure.error, request_id))
