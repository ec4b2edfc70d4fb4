"""PyIceberg on Google Cloud Storage, with what the catalog sends."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyiceberg.catalog import load_catalog

from tests.services.catalog import CatalogServer
from tests.services.gcs import GcsServer

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", "c"]})


def test_a_table_on_google_is_written_and_read(
    gcs_server: GcsServer, start_catalog: Callable[..., CatalogServer]
) -> None:
    server = start_catalog(
        FLOECAT_GATEWAY_DEFAULT_WAREHOUSE_PATH=f"{gcs_server.create_bucket()}/lake",
        FLOECAT_STORAGE_GCS_ENDPOINT=gcs_server.endpoint,
        FLOECAT_STORAGE_GCS_TOKEN="of-the-service",
    )
    keys = {"gcs.oauth2.token": "of-the-client", "gcs.oauth2.token-expires-at": "4102444800000"}
    catalog = load_catalog("g", type="rest", uri=server.base_url, warehouse=server.warehouse, **keys)
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", ROWS.schema)
    table.append(ROWS)
    table.append(ROWS)
    table.delete("id = 2")
    found = catalog.load_table("n.t").scan(row_filter="id > 1").to_arrow()
    assert found.column("name").to_pylist() == ["c", "c"]
