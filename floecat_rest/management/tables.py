"""Tables in storage that are registered by their location."""

from __future__ import annotations

from litestar import Controller, post
from litestar.params import RawBody

from floecat_rest.management.wire import RegisteredTable, RegisterRequest, registered_table
from floecat_rest.request_log import request_id_of
from floecat_rest.requests import CatalogRequest

__all__ = ["ManagedTablesController"]


class ManagedTablesController(Controller):
    """The tables of a namespace."""

    path = "/management/v1/catalogs/{catalog:str}/namespaces/{namespace:str}/tables"
    tags = ["Management"]

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
