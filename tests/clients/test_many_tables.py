"""250 tables in one namespace, listed by clients that page and clients that do not."""

from __future__ import annotations

import httpx
import pytest

from tests.clients.connections import Connections
from tests.clients.warehouses import Warehouse, unique

pytestmark = pytest.mark.spark

COUNT = 250
NAMES = [f"t{number:03}" for number in range(COUNT)]


@pytest.fixture(scope="module")
def namespace(disk_warehouse: Warehouse) -> str:
    """A namespace with the tables."""
    name = unique("many")
    base = f"{disk_warehouse.uri}/v1/{disk_warehouse.name}/namespaces"
    fields = [{"id": 1, "name": "id", "type": "long", "required": False}]
    with httpx.Client(timeout=60) as client:
        client.post(base, json={"namespace": [name]}).raise_for_status()
        for table in NAMES:
            body = {"name": table, "schema": {"type": "struct", "fields": fields}}
            client.post(f"{base}/{name}/tables", json=body).raise_for_status()
    return name


def test_pyiceberg(connections: Connections, disk_warehouse: Warehouse, namespace: str) -> None:
    listed = connections.pyiceberg(disk_warehouse).list_tables(namespace)
    assert listed == [(namespace, name) for name in NAMES]


def test_duckdb(connections: Connections, disk_warehouse: Warehouse, namespace: str) -> None:
    connection = connections.duckdb(disk_warehouse)
    listed = connection.execute("SHOW ALL TABLES").fetchall()
    assert sorted(row[2] for row in listed if row[1] == namespace) == NAMES


def test_spark(connections: Connections, disk_warehouse: Warehouse, namespace: str) -> None:
    spark = connections.spark(disk_warehouse)
    spark.session.conf.set(f"spark.sql.catalog.{spark.name}.rest-page-size", "40")
    listed = spark.sql(f"SHOW TABLES IN {namespace}")
    assert sorted(row[1] for row in listed) == NAMES


def test_pages(disk_warehouse: Warehouse, namespace: str) -> None:
    url = f"{disk_warehouse.uri}/v1/{disk_warehouse.name}/namespaces/{namespace}/tables"
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
