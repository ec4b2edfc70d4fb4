"""`GET /v1/config`, and the routes with and without a prefix."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.contract.answers import assert_error
from tests.contract.client import Catalog, Namespace, Table, unique

SERVED = {
    "GET /v1/config",
    "GET /v1/{prefix}/namespaces",
    "POST /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "HEAD /v1/{prefix}/namespaces/{namespace}",
    "DELETE /v1/{prefix}/namespaces/{namespace}",
    "POST /v1/{prefix}/namespaces/{namespace}/properties",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "POST /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/functions",
    "GET /v1/{prefix}/namespaces/{namespace}/functions/{function}",
    "POST /v1/{prefix}/namespaces/{namespace}/register",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/unregister",
    "POST /v1/{prefix}/tables/rename",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan-id}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan-id}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/sign",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/tasks",
    "POST /v1/{prefix}/transactions/commit",
    "GET /v1/{prefix}/namespaces/{namespace}/views",
    "POST /v1/{prefix}/namespaces/{namespace}/views",
    "GET /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "POST /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "POST /v1/{prefix}/views/rename",
    "POST /v1/{prefix}/namespaces/{namespace}/register-view",
}
"""The operations of the specification without OAuth."""


def test_config_has_the_fields_of_the_specification_and_no_others(catalog: Catalog):
    assert set(catalog.config) == {"defaults", "overrides", "endpoints", "idempotency-key-lifetime"}


def test_endpoints_list_exactly_what_is_served(catalog: Catalog):
    listed = catalog.config["endpoints"]
    assert sorted(listed) == sorted(SERVED)


def test_lifetime_of_idempotency_keys_is_told(catalog: Catalog):
    assert catalog.config["idempotency-key-lifetime"] == "PT30M"


def test_warehouse_by_name_gives_the_prefix_as_default_and_as_override(catalog: Catalog):
    assert catalog.config["defaults"]["prefix"] == catalog.warehouse
    overrides = dict(catalog.config["overrides"])
    UUID(overrides.pop("floecat.catalog-id"))
    assert overrides == {"prefix": catalog.warehouse, "namespace-separator": "%1F"}


def test_without_a_warehouse_the_default_catalog_is_a_default_that_a_client_may_change(catalog: Catalog):
    config = catalog.http.get("/v1/config").json()
    assert config["defaults"]["prefix"] == catalog.warehouse
    assert "prefix" not in config["overrides"]


def test_warehouse_by_storage_location_does_not_replace_the_prefix_of_the_client(
    local_catalog: Catalog, warehouse_folder
):
    location = f"{warehouse_folder.as_uri()}/some/folder"
    config = local_catalog.http.get("/v1/config", params={"warehouse": location}).json()
    assert config["defaults"]["prefix"] == local_catalog.warehouse
    assert "prefix" not in config["overrides"]


@pytest.mark.parametrize(
    "warehouse", ["no_such_warehouse", "s3://no-such-bucket/folder", "file:///etc", "../etc", "s3://"]
)
def test_unknown_warehouse_is_404(catalog: Catalog, warehouse: str):
    answer = catalog.http.get("/v1/config", params={"warehouse": warehouse})
    message = assert_error(answer, 404, "NoSuchWarehouseException")
    assert message == f"Warehouse does not exist: {warehouse}"


def test_empty_warehouse_is_none(catalog: Catalog):
    config = catalog.http.get("/v1/config?warehouse=").json()
    assert config["defaults"]["prefix"] == catalog.warehouse


def test_unknown_prefix_is_404(catalog: Catalog):
    answer = catalog.http.get("/v1/no_such_catalog/namespaces")
    assert_error(answer, 404, "NoSuchWarehouseException", "Warehouse does not exist: no_such_catalog")


def test_paths_without_a_prefix_mean_the_default_catalog(catalog: Catalog, table: Table):
    path = table.path
    with_prefix = catalog.http.get(f"/v1/{catalog.prefix}{path}")
    without_prefix = catalog.http.get(f"/v1{path}")
    assert without_prefix.status_code == 200
    assert without_prefix.json() == with_prefix.json()


def test_mutations_without_a_prefix_mean_the_default_catalog(catalog: Catalog, namespace: Namespace):
    name = (*namespace, unique("child"))
    answer = catalog.http.post("/v1/namespaces", json={"namespace": list(name)})
    assert answer.status_code == 200
    assert catalog.head(catalog.namespace_path(name)).status_code == 204


def test_a_namespace_may_be_called_like_a_route(catalog: Catalog, namespace: Namespace):
    for level in ("tables", "namespaces", "views", "config", "properties", "register"):
        name = catalog.create_namespace((*namespace, level))
        made = catalog.create_table(name, "tables")
        assert made.get()["metadata"]["table-uuid"] == made.created.json()["metadata"]["table-uuid"]


def test_a_base_url_that_ends_in_a_slash_is_fine(catalog: Catalog):
    config = catalog.http.get(f"{catalog.url}//v1/config")
    assert config.json() == catalog.http.get("/v1/config").json()


def test_unknown_query_parameters_are_ignored(catalog: Catalog, table: Table):
    plain = catalog.get(table.path)
    # Some clients send their headers as parameters.
    odd = catalog.get(table.path, params={"X-Client-Version": "1", "accept": "*/*", "x": ["1", "2"], "": ""})
    assert odd.status_code == 200
    assert odd.json() == plain.json()
