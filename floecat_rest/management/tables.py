"""Tables: registered by their location, and how scans of them are planned."""

from __future__ import annotations

from litestar import post
from litestar.params import RawBody

from floecat.planning.plans.explanations import Explanation
from floecat_rest.http.request_log import request_id_of
from floecat_rest.http.requests import CatalogRequest
from floecat_rest.management.controllers import ManagementController
from floecat_rest.management.wire import ExplainRequest, RegisteredTable, RegisterRequest, registered_table

__all__ = ["ExplainController", "ManagedTablesController"]

_TABLES = "/management/v1/catalogs/{catalog:str}/namespaces/{namespace:str}/tables"


class ManagedTablesController(ManagementController):
    """The tables of a namespace."""

    path = _TABLES

    @post(operation_id="registerByLocation", status_code=201, sync_to_thread=True)
    def register(self, request: CatalogRequest, body: RawBody) -> RegisteredTable:
        """Registers a Delta table. One that cannot be read is registered too; the answer says why."""
        sent = request.read(body, RegisterRequest)
        registrations = request.kernel.registrations.of(sent.format)
        call = request.mutation(body)
        registration = registrations.register(
            call,
            request.namespace(call),
            sent.name,
            sent.location,
            format_version=sent.format_version,
        )
        return registered_table(registration, request_id_of(request.scope))


class ExplainController(ManagementController):
    """Plans that are explained."""

    path = f"{_TABLES}/{{table:str}}/plan"

    @post(operation_id="explainPlan", status_code=200, sync_to_thread=True)
    def explain(self, request: CatalogRequest, body: RawBody) -> Explanation:
        """Explains the plan of a scan: the files that each stage leaves, and its cost."""
        sent = request.read(body, ExplainRequest)
        call = request.call()
        return request.kernel.planning.explanations.explain(
            call, request.entry(call), sent.filter, sent.snapshot
        )
