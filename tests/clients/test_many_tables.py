"""250 tables in one namespace, listed by clients that page and clients that do not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import daft
import httpx
import pytest

from tests.clients.connections import Connections
from tests.clients.iceberg_js_process import IcebergJs
from tests.clients.warehouses import Warehouse, unique
from tests.services.nodejs import NodeProject

pytestmark = pytest.mark.spark

COUNT = 250
NAMES = [f"t{number:03}" for number in range(COUNT)]


@pytest.fixture(scope="module")
def namespace(warehouse: Warehouse) -> str:
    """A namespace with the tables."""
    name = unique("many")
    base = f"{warehouse.uri}/v1/{warehouse.name}/namespaces"
    fields = [{"id": 1, "name": "id", "type": "long", "required": False}]
    with httpx.Client(timeout=60) as client:
        client.post(base, json={"namespace": [name]}).raise_for_status()

        def create(table: str) -> None:
            body = {"name": table, "schema": {"type": "struct", "fields": fields}}
            client.post(f"{base}/{name}/tables", json=body).raise_for_status()

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(create, NAMES))
    return name


def test_pyiceberg(connections: Connections, warehouse: Warehouse, namespace: str) -> None:
    listed = connections.pyiceberg(warehouse).list_tables(namespace)
    assert listed == [(namespace, name) for name in NAMES]


def test_duckdb(connections: Connections, warehouse: Warehouse, namespace: str) -> None:
    connection = connections.duckdb(warehouse)
    listed = connection.execute("SHOW ALL TABLES").fetchall()
    assert sorted(row[2] for row in listed if row[1] == namespace) == NAMES


def test_spark(connections: Connections, warehouse: Warehouse, namespace: str) -> None:
    spark = connections.spark(warehouse)
    spark.session.conf.set(f"spark.sql.catalog.{spark.name}.rest-page-size", "40")
    listed = spark.sql(f"SHOW TABLES IN {namespace}")
    assert sorted(row[1] for row in listed) == NAMES


@pytest.mark.s3
@pytest.mark.parametrize("warehouse", ["s3"], indirect=True)
def test_clickhouse(connections: Connections, warehouse: Warehouse, namespace: str) -> None:
    listed = connections.clickhouse(warehouse).select("SHOW TABLES FROM lake")["name"].to_pylist()
    assert sorted(name for name in listed if name.startswith(f"{namespace}.")) == [
        f"{namespace}.{name}" for name in NAMES
    ]


def test_daft(connections: Connections, warehouse: Warehouse, namespace: str) -> None:
    catalog = daft.Catalog.from_iceberg(connections.pyiceberg(warehouse))
    assert [str(each) for each in catalog.list_tables(namespace)] == [f"{namespace}.{name}" for name in NAMES]


def test_iceberg_js(iceberg_js: NodeProject, warehouse: Warehouse, namespace: str) -> None:
    client = IcebergJs(iceberg_js, warehouse)
    listed = client("listTables", {"namespace": [namespace]})["identifiers"]
    names: list[str] = []
    options: dict[str, Any] = {"pageSize": 100}
    while options:
        page = client("listTables", {"namespace": [namespace]}, options)
        names += [each["name"] for each in page["identifiers"]]
        token = page.get("nextPageToken")
        options = {"pageSize": 100, "pageToken": token} if token else {}
    client.close()
    assert [each["name"] for each in listed] == names == NAMES


def test_pages(warehouse: Warehouse, namespace: str) -> None:
    url = f"{warehouse.uri}/v1/{warehouse.name}/namespaces/{namespace}/tables"
    names: list[str] = []
    token: str | None = ""
    sizes = []
    while token is not None:
        page = httpx.get(url, params={"pageToken": token, "pageSize": "40"}, timeout=60).json()
        names += [each["name"] for each in page["identifiers"]]
        sizes.append(len(page["identifiers"]))
        token = page.get("next-page-token")
    assert names == NAMES
    assert sizes == [40] * 6 + [10]
