"""Bodies of the management routes.

Unknown fields are refused: no other specification adds any, and a misspelt field would be ignored silently.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec

from floecat.connectors.adoption import Adopted
from floecat.connectors.connector_info import (
    ConnectorInfo,
    ConnectorPolicy,
    ConnectorUpdate,
    NewConnector,
    ScanProgress,
)
from floecat.connectors.followed_tables import FollowingChange
from floecat.connectors.following import Difference
from floecat.connectors.registrations import TableRegistration
from floecat.connectors.scan_reports import CatalogTable, ConnectorScanReport, FailedTable
from floecat.credentials.authorities import HiddenSecrets
from floecat.errors import BadRequestError, FloecatError
from floecat.identifiers.namespace import TableIdentifier
from floecat.settings import Duration
from floecat_rest.http.errors import describe_error

__all__ = [
    "ConnectorResponse",
    "CreateConnectorRequest",
    "ExplainRequest",
    "ListConnectorsResponse",
    "RegisterRequest",
    "RegisteredTable",
    "ScanResponse",
    "UpdateConnectorRequest",
    "ValidationResponse",
    "ValidationStep",
    "adopted_response",
    "connector_response",
    "difference_response",
    "registered_table",
    "scan_response",
]


class RegisterRequest(msgspec.Struct, rename="kebab", forbid_unknown_fields=True):
    """A table in storage, to be registered."""

    name: str
    format: str
    location: str
    format_version: int | None = None


class ExplainRequest(msgspec.Struct, rename="kebab", forbid_unknown_fields=True):
    """A scan whose plan is explained."""

    filter: str | None = None
    """Filter as in SQL: `day = '2026-11-01' and amount > 10`."""
    snapshot: str | None = None
    """An id, or the name of a branch or tag."""


class Identifier(msgspec.Struct):
    """A table by namespace and name."""

    namespace: tuple[str, ...]
    name: str

    @classmethod
    def of(cls, identifier: TableIdentifier) -> Identifier:
        """The identifier of the kernel."""
        return cls(identifier.namespace, identifier.name)


class StartScanRequest(msgspec.Struct, rename="kebab", forbid_unknown_fields=True):
    """A scan behind the requests."""

    full: bool = False
    """Read and capture everything again, whatever the policy says."""
    wait_seconds: float = 10
    """Longest time to wait, at most 60; the scan goes on if it takes longer."""


class Problem(msgspec.Struct):
    """An error, as in an error response."""

    type: str
    message: str


class RegisteredTable(msgspec.Struct, rename="kebab"):
    """A table that was registered."""

    identifier: Identifier
    id: UUID
    """Id of the table in the pipeline: its partition in Dagster."""
    format: str
    location: str
    table_uuid: str
    snapshot_id: int | None
    """Newest version that Iceberg readers see."""
    problem: Problem | None
    """Reason why the newest version cannot be read; loads of the table fail with the same error."""


class CreateConnectorRequest(HiddenSecrets, frozen=True, forbid_unknown_fields=True):
    """A place that is scanned for tables."""

    name: str
    kind: str
    location: str
    namespace: tuple[str, ...] = ()
    options: dict[str, str] = {}
    enabled: bool = True
    interval: str = "PT10M"
    """ISO-8601 duration between two scheduled scans."""
    credentials: dict[str, str] = {}
    """How it logs in to another catalog: `scheme`, and what that needs. No answer shows them."""
    policy: dict[str, Any] = {}
    """Values of its policy, as answers show it; all others have their defaults."""

    def to_kernel(self) -> NewConnector:
        """The kernel's form.

        Raises:
            BadRequestError: the interval is not a duration.
        """
        return NewConnector(
            self.name,
            self.kind,
            self.location,
            self.namespace,
            self.options,
            self.enabled,
            _interval_ms(self.interval),
            self.credentials,
            self.policy,
        )


class UpdateConnectorRequest(HiddenSecrets, frozen=True, forbid_unknown_fields=True):
    """Changes of a connector; what is left out stays."""

    options: dict[str, str] | None = None
    """All of them."""
    credentials: dict[str, str] | None = None
    """All of them; with an empty one it logs in no more."""
    enabled: bool | None = None
    interval: str | None = None
    policy: dict[str, Any] | None = None
    """The values that change; null sets one to its default."""

    def to_kernel(self) -> ConnectorUpdate:
        """The kernel's form.

        Raises:
            BadRequestError: the interval is not a duration.
        """
        interval_ms = None if self.interval is None else _interval_ms(self.interval)
        return ConnectorUpdate(self.options, self.credentials, self.enabled, interval_ms, self.policy)


def _interval_ms(text: str) -> int:
    try:
        return Duration.parse(text).ms
    except ValueError:
        raise BadRequestError("Invalid interval: must be an ISO-8601 duration such as PT10M") from None


class ValidationStep(msgspec.Struct):
    """A step of a trial of a connector."""

    what: str
    problem: str | None
    """What went wrong; null if nothing did."""


class ValidationResponse(msgspec.Struct):
    """What a connector reaches, and what its credentials may do there."""

    steps: Sequence[ValidationStep]
    """Up to the first that went wrong."""


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
    credentials: dict[str, str]
    """Their scheme, and `***` for each further field."""
    policy: ConnectorPolicy
    running_scan: ScanProgress | None
    """Progress of the scheduled scan that is under way; always null in listings."""


class ListConnectorsResponse(msgspec.Struct, rename="kebab"):
    """Connectors of a catalog, by name."""

    connectors: Sequence[ConnectorResponse]
    next_page_token: str | None


class SkippedTable(msgspec.Struct):
    """A table that was registered before."""

    identifier: Identifier
    location: str


class FailedResponse(msgspec.Struct):
    """A table that could not be registered, or a location that could not be read."""

    identifier: Identifier | None
    location: str
    problem: Problem


class DifferenceResponse(msgspec.Struct, rename="kebab"):
    """A table or view that differs from what is in the catalog that a connector follows."""

    identifier: Identifier
    location: str
    reason: str
    """What differs, in a few words."""
    since_ms: int | None
    """Time since which it differs, where that is known."""


class ListDifferencesResponse(msgspec.Struct):
    """All that differs."""

    differences: Sequence[DifferenceResponse]


class AdoptRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A table or view that a connector follows."""

    identifier: Identifier


class AdoptedResponse(msgspec.Struct, rename="kebab"):
    """A table or view that is the catalog's own now."""

    identifier: Identifier
    kind: str
    location: str
    """Where the other catalog has it, or had it."""
    is_gone: bool
    """Whether the other catalog does not have it any more."""


class ChangedTable(msgspec.Struct):
    """A table or view that follows another catalog, and what a scan did about it."""

    identifier: Identifier
    location: str
    change: FollowingChange


class ScanResponse(msgspec.Struct):
    """The result of a scan."""

    registered: Sequence[RegisteredTable]
    changed: Sequence[ChangedTable]
    skipped: Sequence[SkippedTable]
    failed: Sequence[FailedResponse]
    folders: int
    """Number of folders that were searched."""
    problem: Problem | None
    """Reason why the scan ended early, if it did."""


def registered_table(registration: TableRegistration, request_id: str) -> RegisteredTable:
    """Renders a registration."""
    return RegisteredTable(
        Identifier.of(registration.identifier),
        registration.entry_id,
        registration.format,
        registration.location,
        registration.table_uuid,
        registration.snapshot_id,
        _problem(registration.problem, request_id) if registration.problem else None,
    )


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
        credentials=connector.credentials,
        policy=connector.policy,
        running_scan=connector.running_scan,
    )


def adopted_response(adopted: Adopted) -> AdoptedResponse:
    """Renders an adoption."""
    return AdoptedResponse(Identifier.of(adopted.identifier), adopted.kind, adopted.address, adopted.is_gone)


def difference_response(difference: Difference) -> DifferenceResponse:
    """Renders a difference."""
    return DifferenceResponse(
        Identifier.of(difference.identifier), difference.address, difference.reason, difference.since_ms
    )


def scan_response(report: ConnectorScanReport, request_id: str) -> ScanResponse:
    """Renders a scan."""
    return ScanResponse(
        registered=[registered_table(registration, request_id) for registration in report.registered],
        changed=[
            ChangedTable(Identifier.of(each.identifier), each.address, each.change) for each in report.changed
        ],
        skipped=[_skipped(known) for known in report.skipped],
        failed=[_failed(failure, request_id) for failure in report.failed],
        folders=report.folders,
        problem=_problem(report.error, request_id) if report.error else None,
    )


def _skipped(known: CatalogTable) -> SkippedTable:
    return SkippedTable(Identifier.of(known.identifier), known.location)


def _failed(failure: FailedTable, request_id: str) -> FailedResponse:
    identifier = Identifier.of(failure.identifier) if failure.identifier else None
    return FailedResponse(identifier, failure.location, _problem(failure.error, request_id))


def _problem(error: FloecatError, request_id: str) -> Problem:
    """Renders an error that is part of an answer."""
    described, _ = describe_error(error, request_id)
    return Problem(described.type, described.message)
