"""How the clients that read files by themselves reach the storage of a warehouse."""

from __future__ import annotations

from typing import Any

from pyiceberg.table import Table

from tests.clients.warehouses import Warehouse

__all__ = ["daft_io_config", "polars_storage_options"]


def polars_storage_options(table: Table) -> dict[str, str]:
    """What Polars' own reader needs: it does not take over what PyIceberg's table knows."""
    return {key: value for key, value in table.io.properties.items() if key.startswith("s3.")}


def daft_io_config(warehouse: Warehouse) -> Any:
    """What Daft needs; nothing on the local disk, and nothing where the table has keys."""
    from daft.io import IOConfig, S3Config

    if warehouse.s3 is None or warehouse.vends:
        return None
    return IOConfig(
        s3=S3Config(
            endpoint_url=warehouse.s3.endpoint,
            key_id=warehouse.s3.access_key_id,
            access_key=warehouse.s3.secret_access_key,
            region_name=warehouse.s3.region,
            use_ssl=False,
        )
    )
