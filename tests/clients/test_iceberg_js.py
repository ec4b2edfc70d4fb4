"""iceberg-js: a catalog client without data. It makes and changes what PyIceberg fills, and the reverse."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog

from tests.clients.connections import Connections
from tests.clients.iceberg_js_process import IcebergJs
from tests.clients.warehouses import Warehouse, unique
from tests.services.nodejs import NodeProject

SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "identifier-field-ids": [],
    "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
}


@pytest.fixture
def client(iceberg_js: NodeProject, warehouse: Warehouse) -> Iterator[IcebergJs]:
    """The client, connected."""
    made = IcebergJs(iceberg_js, warehouse)
    yield made
    made.close()


@pytest.fixture
def catalog(connections: Connections, warehouse: Warehouse) -> RestCatalog:
    """The other client."""
    return connections.pyiceberg(warehouse)


@pytest.fixture
def namespace(catalog: RestCatalog) -> str:
    """An empty namespace."""
    name = unique("js")
    catalog.create_namespace(name)
    return name


def test_namespaces(client: IcebergJs, catalog: RestCatalog) -> None:
    parent = {"namespace": [unique("js")]}
    child = {"namespace": [*parent["namespace"], "eu west"]}
    client("createNamespace", parent, {"properties": {"owner": "me"}})
    client("createNamespace", child)
    client("updateNamespaceProperties", parent, {"updates": {"owner": "us"}, "removals": ["absent"]})
    assert client("loadNamespaceMetadata", parent)["properties"]["owner"] == "us"
    assert client("listNamespaces", {"parent": parent})["namespaces"] == [child]
    assert catalog.list_namespaces(tuple(parent["namespace"])) == [tuple(child["namespace"])]
    with pytest.raises(RuntimeError, match=r"409: .*not empty"):
        client("dropNamespace", parent)
    client("dropNamespace", child)
    client("dropNamespace", parent)
    assert not client("namespaceExists", parent)


def test_makes_a_table_that_others_fill(client: IcebergJs, catalog: RestCatalog, namespace: str) -> None:
    identifier = {"namespace": [namespace], "name": "t"}
    request = {"name": "t", "schema": SCHEMA, "partition-spec": {"spec-id": 0, "fields": []}}
    client("createTable", {"namespace": [namespace]}, request)
    assert client("tableExists", identifier)
    with pytest.raises(RuntimeError, match="409: Table already exists"):
        client("createTable", {"namespace": [namespace]}, request)
    table = catalog.load_table(f"{namespace}.t")
    table.append(pa.table({"id": [1, 2, 3]}))
    loaded = client("loadTable", identifier)
    assert [field["name"] for field in loaded["schemas"][0]["fields"]] == ["id"]
    assert loaded["snapshots"][-1]["summary"]["total-records"] == "3"
    client("dropTable", identifier)
    assert not catalog.table_exists(f"{namespace}.t")


def test_changes_a_table_of_others(client: IcebergJs, catalog: RestCatalog, namespace: str) -> None:
    table = catalog.create_table(f"{namespace}.t", pa.schema([("id", pa.int64())]))
    identifier = {"namespace": [namespace], "name": "t"}
    changes = {
        "requirements": [{"type": "assert-table-uuid", "uuid": str(table.metadata.table_uuid)}],
        "updates": [{"action": "set-properties", "updates": {"owner": "me"}}],
    }
    client("commitTable", identifier, changes)
    assert catalog.load_table(f"{namespace}.t").properties["owner"] == "me"
    destination = {"namespace": [namespace], "name": "renamed"}
    client("renameTable", {"source": identifier, "destination": destination})
    assert client("listTables", {"namespace": [namespace]})["identifiers"] == [destination]
    location = catalog.load_table(f"{namespace}.renamed").metadata_location
    client("dropTable", destination)
    client("registerTable", {"namespace": [namespace]}, {"name": "again", "metadata-location": location})
    assert catalog.load_table(f"{namespace}.again").metadata.table_uuid == table.metadata.table_uuid


def test_drop_with_purge(
    client: IcebergJs, catalog: RestCatalog, warehouse: Warehouse, namespace: str
) -> None:
    table = catalog.create_table(f"{namespace}.t", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1]}))
    assert warehouse.files_below(table.location())
    client("dropTable", {"namespace": [namespace], "name": "t"}, {"purge": True})
    assert not catalog.table_exists(table.name())
    assert not warehouse.wait_until_empty(table.location())
