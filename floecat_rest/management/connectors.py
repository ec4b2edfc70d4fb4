"""Connectors: locations outside the catalog that are scanned for tables."""

from __future__ import annotations

from litestar import delete, get, post
from litestar.params import RawBody

from floecat.connectors.scanning.scan_jobs import ReconcileSettings
from floecat.identifiers.namespace import TableIdentifier
from floecat.jobs.operations import check_wait
from floecat_rest.http.options import WAITS_FOR_CATALOGS, WITHOUT_STORAGE
from floecat_rest.http.request_log import request_id_of
from floecat_rest.http.requests import CatalogRequest, PageSize, PageToken, path_name
from floecat_rest.management.controllers import ManagementController, listed_size
from floecat_rest.management.job_wire import JobResponse, job_response
from floecat_rest.management.wire import (
    AdoptedResponse,
    AdoptRequest,
    ConnectorResponse,
    CreateConnectorRequest,
    ListConnectorsResponse,
    ListDifferencesResponse,
    ScanResponse,
    StartScanRequest,
    UpdateConnectorRequest,
    ValidationResponse,
    ValidationStep,
    adopted_response,
    connector_response,
    difference_response,
    scan_response,
)

__all__ = [
    "ConnectorAdoptionController",
    "ConnectorController",
    "ConnectorDifferencesController",
    "ConnectorScanController",
    "ConnectorStartController",
    "ConnectorValidationController",
    "ConnectorsController",
    "ReconcileSettingsController",
]

_CONNECTORS = "/management/v1/catalogs/{catalog:str}/connectors"
_CONNECTOR = f"{_CONNECTORS}/{{connector:str}}"


class ConnectorsController(ManagementController):
    """The connectors of a catalog."""

    path = _CONNECTORS

    @get(operation_id="listConnectors", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def list_connectors(
        self, request: CatalogRequest, page_token: PageToken = None, page_size: PageSize = None
    ) -> ListConnectorsResponse:
        """Connectors, by name; at most 1,000."""
        found = request.kernel.connectors.connectors.page(request.call(), page_token, listed_size(page_size))
        return ListConnectorsResponse([connector_response(each) for each in found.items], found.next_token)

    @post(operation_id="createConnector", status_code=201, sync_to_thread=True)
    def create_connector(self, request: CatalogRequest, body: RawBody) -> ConnectorResponse:
        """Creates a connector. It is scanned by a schedule, or on request."""
        sent = request.read(body, CreateConnectorRequest)
        made = request.kernel.connectors.connectors.create(request.mutation(body), sent.to_kernel())
        return connector_response(made)


class ConnectorController(ManagementController):
    """A connector."""

    path = _CONNECTOR

    @get(operation_id="loadConnector", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def load_connector(self, request: CatalogRequest) -> ConnectorResponse:
        """The connector, and how its last scan went."""
        return connector_response(
            request.kernel.connectors.connectors.load(request.call(), path_name(request, "connector"))
        )

    @post(operation_id="updateConnector", status_code=200, sync_to_thread=True)
    def update_connector(self, request: CatalogRequest, body: RawBody) -> ConnectorResponse:
        """Changes options, credentials, the interval, or whether schedules scan it, from its next scan on."""
        sent = request.read(body, UpdateConnectorRequest)
        changed = request.kernel.connectors.connectors.update(
            request.mutation(body), path_name(request, "connector"), sent.to_kernel()
        )
        return connector_response(changed)

    @delete(operation_id="dropConnector", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def drop_connector(self, request: CatalogRequest) -> None:
        """Removes the connector; the tables that it found stay."""
        request.kernel.connectors.connectors.drop(request.mutation(), path_name(request, "connector"))


class ConnectorDifferencesController(ManagementController):
    """Tables and views that differ from what a connector finds."""

    path = f"{_CONNECTOR}/differences"

    @get(operation_id="listConnectorDifferences", sync_to_thread=True, opt={WAITS_FOR_CATALOGS: True})
    def list_connector_differences(self, request: CatalogRequest) -> ListDifferencesResponse:
        """Compares with what the connector finds now, and changes nothing."""
        found = request.kernel.connectors.scans.compare(request.call(), path_name(request, "connector"))
        return ListDifferencesResponse([difference_response(each) for each in found])


class ConnectorAdoptionController(ManagementController):
    """Tables and views that become the catalog's own."""

    path = f"{_CONNECTOR}/adopt"

    @post(operation_id="adoptTable", status_code=200, sync_to_thread=True, opt={WAITS_FOR_CATALOGS: True})
    def adopt_table(self, request: CatalogRequest, body: RawBody) -> AdoptedResponse:
        """Makes a table or view that the connector follows an own one. The other catalog is to stop first."""
        wanted = request.read(body, AdoptRequest).identifier
        identifier = TableIdentifier(wanted.namespace, wanted.name)
        made = request.kernel.connectors.adoption.adopt(
            request.call(), path_name(request, "connector"), identifier
        )
        return adopted_response(made)


class ConnectorScanController(ManagementController):
    """Scans that do not wait for a schedule."""

    path = f"{_CONNECTOR}/scan"

    @post(operation_id="scanConnector", status_code=200, sync_to_thread=True, opt={WAITS_FOR_CATALOGS: True})
    def scan_connector(self, request: CatalogRequest) -> ScanResponse:
        """Scans now, registers new tables, and reports the outcome of each."""
        report = request.kernel.connectors.scans.scan(request.call(), path_name(request, "connector"))
        return scan_response(report, request_id_of(request.scope))


class ConnectorStartController(ManagementController):
    """Scans behind the requests."""

    path = f"{_CONNECTOR}/start"

    @post(
        operation_id="startScan",
        status_code=200,
        sync_to_thread=True,
        opt={WAITS_FOR_CATALOGS: True},
    )
    def start_scan(self, request: CatalogRequest, body: RawBody) -> JobResponse:
        """Has the connector scanned, waits for it, and answers the job, which goes on if it takes longer.

        A scan that is open already is that job, so a request that is sent again is harmless.
        """
        sent = request.read(body or b"{}", StartScanRequest)
        call, kernel = request.call(), request.kernel
        # refused from a minute on; the largest numbers have no milliseconds
        wait_ms = check_wait(round(max(-1.0, min(sent.wait_seconds, 1e6)) * 1000))
        started = kernel.connectors.jobs.start(call, path_name(request, "connector"), full=sent.full)
        return job_response(kernel.jobs.wait(call, started.id, wait_ms))


class ReconcileSettingsController(ManagementController):
    """Settings of scans and captures."""

    path = "/management/v1/catalogs/{catalog:str}/reconcile-settings"

    @get(operation_id="loadReconcileSettings", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def load_settings(self, request: CatalogRequest) -> ReconcileSettings:
        """What is set for scans of connectors and their captures, or is the default."""
        return request.kernel.connectors.jobs.settings(request.call())


class ConnectorValidationController(ManagementController):
    """Trials of connectors."""

    path = f"{_CONNECTOR}/validate"

    @post(
        operation_id="validateConnector", status_code=200, sync_to_thread=True, opt={WAITS_FOR_CATALOGS: True}
    )
    def validate_connector(self, request: CatalogRequest) -> ValidationResponse:
        """Asks what a scan would ask, for one table, says in words how that went, and changes nothing."""
        steps = request.kernel.connectors.trial.run(request.call(), path_name(request, "connector"))
        return ValidationResponse([ValidationStep(*step) for step in steps])
