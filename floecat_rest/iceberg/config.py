"""`/v1/config`: the first thing that every client asks."""

from __future__ import annotations

from litestar import Controller, get

from floecat.identifiers.encoding import encode_segment
from floecat_rest.iceberg.wire.config import CatalogConfig
from floecat_rest.requests import CatalogRequest, Warehouse

__all__ = ["ConfigController"]


class ConfigController(Controller):
    """Tells a client its prefix and what is served."""

    path = "/v1/config"
    tags = ["Configuration"]

    @get(operation_id="getConfig", sync_to_thread=True)
    def get_config(self, request: CatalogRequest, warehouse: Warehouse = None) -> CatalogConfig:
        """The catalog that a warehouse means, by name or by a storage location in it.

        The prefix is a default, so that a client may set another, and binding only where the client itself
        named the catalog: a warehouse that is a location must not replace the prefix beside it.
        """
        gateway = request.services.settings.gateway
        name = warehouse or gateway.default_prefix
        catalog = request.kernel.calls.open_warehouse(request.principal, name).catalog
        prefix = encode_segment(catalog.name)
        overrides = {"namespace-separator": request.kernel.separator.config_value}
        if warehouse == catalog.name:
            overrides["prefix"] = prefix
        return CatalogConfig(
            defaults={"prefix": prefix},
            overrides=overrides,
            endpoints=request.services.endpoints,
            idempotency_key_lifetime=str(gateway.idempotency_key_lifetime),
        )
