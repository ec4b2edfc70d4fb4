"""`/v1/config`: the first thing that every client asks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from litestar import Controller, get
from litestar.routes import BaseRoute

from floecat.catalog.load_table import SCAN_PLANNING_MODE
from floecat.connectors.spi import CATALOG_ID
from floecat.identifiers.encoding import encode_segment
from floecat.identifiers.schema_names import SCHEMA_SEPARATOR
from floecat_rest.http.options import AT_ONCE, UNLISTED, WITHOUT_STORAGE
from floecat_rest.http.requests import CatalogRequest, Warehouse
from floecat_rest.iceberg.wire import CatalogConfig
from floecat_rest.openapi.operations import served_operations

if TYPE_CHECKING:
    pass

__all__ = ["OAUTH2_SERVER", "ConfigController", "served_endpoints"]

OAUTH2_SERVER = "oauth2-server-uri"
"""Property of the URL where clients renew their tokens."""


class ConfigController(Controller):
    """Tells a client its prefix and what is served."""

    path = "/v1/config"
    tags = ["Configuration"]

    @get(operation_id="getConfig", sync_to_thread=True, opt={WITHOUT_STORAGE: True, AT_ONCE: True})
    def get_config(self, request: CatalogRequest, warehouse: Warehouse = None) -> CatalogConfig:
        """The catalog that a warehouse means, by name or by a storage location in it.

        The prefix is a default, so that a client may set another, and binding only where the client itself
        named the catalog: a warehouse that is a location must not replace the prefix beside it.
        """
        gateway = request.services.settings.gateway
        name = warehouse or gateway.default_prefix
        catalog = request.kernel.catalog.calls.open_warehouse(request.principal, name).catalog
        prefix = encode_segment(catalog.name)
        overrides = {"namespace-separator": request.kernel.separator.config_value}
        overrides[CATALOG_ID] = str(catalog.id)
        planning_mode = request.kernel.catalog.loader.planning_mode(catalog)
        if planning_mode is not None:
            overrides[SCAN_PLANNING_MODE] = planning_mode
        if warehouse == catalog.name:
            overrides["prefix"] = prefix
        defaults = {"prefix": prefix}
        if catalog.schema_separator is not None:
            defaults[SCHEMA_SEPARATOR] = catalog.schema_separator
        token_url = request.services.authenticator.token_url(request.principal)
        if token_url is not None:
            defaults[OAUTH2_SERVER] = token_url
        return CatalogConfig(
            defaults=defaults,
            overrides=overrides,
            endpoints=request.services.endpoints,
            idempotency_key_lifetime=str(gateway.idempotency_key_lifetime),
        )


def served_endpoints(routes: Iterable[BaseRoute]) -> list[str]:
    """The operations below `/v1/` as `<verb> <path template>`, spelled as in the REST specification."""
    return sorted(
        f"{operation.method.upper()} {operation.path}"
        for operation in served_operations(routes)
        if operation.path.startswith("/v1/") and not operation.handler.opt.get(UNLISTED)
    )
