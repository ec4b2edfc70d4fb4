"""PyIceberg on Google Cloud Storage, and keys to Azure, with what the catalog sends.

fake-gcs-server takes any token, so that what a token opens is seen nowhere; Google's token services are a
fake. Azurite checks signatures, and knows no directories.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
from obstore.store import AzureStore
from pyiceberg.catalog import load_catalog

from floecat.credentials.authorities import AdlsMethod, GcsMethod
from tests.services.authorities import prepare_cloud_authority
from tests.services.azure import ACCOUNT, AzureServer
from tests.services.catalog import CatalogServer, running_catalog
from tests.services.cloud_services import cloud_service
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


def test_a_table_on_google_needs_no_token_of_the_client(gcs_server: GcsServer, tmp_path: Path) -> None:
    bucket = gcs_server.create_bucket()
    environment = {
        "FLOECAT_GATEWAY_DEFAULT_WAREHOUSE_PATH": f"{bucket}/lake",
        "FLOECAT_STORAGE_GCS_ENDPOINT": gcs_server.endpoint,
        "FLOECAT_STORAGE_GCS_TOKEN": "of-the-service",
    }
    with cloud_service() as google:
        google.answers["/v1/token"] = 200, {"access_token": "of-the-table", "expires_in": 3600}
        method = GcsMethod(keys_of="service", endpoint=gcs_server.endpoint, sts_endpoint=google.url)
        prepare_cloud_authority(tmp_path, environment, f"{bucket}/lake", method, {})
        with running_catalog(tmp_path, environment) as server:
            catalog = load_catalog("g", type="rest", uri=server.base_url, warehouse=server.warehouse)
            catalog.create_namespace("n")
            table = catalog.create_table("n.t", ROWS.schema)
            assert table.io.properties["gcs.oauth2.token"] == "of-the-table"
            table.append(ROWS)
            table.delete("id = 2")
            assert catalog.load_table("n.t").scan().to_arrow()["id"].to_pylist() == [1, 3]
            # one key for all
            [asked] = google.asked
            assert asked.form["subject_token"] == "of-the-service"
            assert f"objects/{table.location().removeprefix(bucket)[1:]}/" in unquote(asked.form["options"])


def test_a_load_has_a_signature_for_azure(azure_server: AzureServer, tmp_path: Path) -> None:
    container = azure_server.create_container()
    environment = {
        "FLOECAT_GATEWAY_DEFAULT_WAREHOUSE_PATH": f"{container}/lake",
        "FLOECAT_STORAGE_ADLS_ENDPOINT": azure_server.endpoint,
        "FLOECAT_STORAGE_ADLS_ACCOUNT_KEY": azure_server.account_key,
    }
    method = AdlsMethod(keys_of="service", endpoint=azure_server.endpoint, hierarchical=False)
    prepare_cloud_authority(tmp_path, environment, f"{container}/lake", method, {})
    with running_catalog(tmp_path, environment) as server:
        catalog = load_catalog("a", type="rest", uri=server.base_url, warehouse=server.warehouse)
        catalog.create_namespace("n")
        table = catalog.create_table("n.t", ROWS.schema)
    name, _, host = container.removeprefix("abfss://").partition("@")
    store = AzureStore(
        name,
        account_name=ACCOUNT,
        sas_token=table.io.properties[f"adls.sas-token.{host}"],
        endpoint=f"{azure_server.endpoint}/{ACCOUNT}",
        client_options={"allow_http": True},
    )
    key = table.metadata_location.removeprefix(f"{container}/")
    assert b'"table-uuid"' in bytes(store.get(key).bytes())
    store.put(f"{key}.more", b"a")
    store.delete(f"{key}.more")
