"""A view that another writer made in forms that no client reads, registered: Spark and PyIceberg read it."""

from __future__ import annotations

import json
import uuid
from typing import Any

import httpx
import pytest

from tests.clients.connections import Connections
from tests.clients.spark_lake import new_lake
from tests.clients.warehouses import Warehouse, unique

COLUMN = {"id": 1, "name": "n", "required": False, "type": "LONG", "doc": None}
VERSION = {
    "version-id": 1,
    "timestamp-ms": 1_700_000_000_000,
    "default-catalog": None,
    "summary": {"rows": 5, "engine": None},
    "representations": [{"type": "SQL", "sql": "SELECT 7L AS n", "dialect": "SPARK"}],
}


def document(location: str) -> dict[str, Any]:
    return {
        "format-version": 1,
        "view-uuid": str(uuid.uuid4()),
        "location": location,
        "schemas": [{"type": "struct", "fields": [COLUMN]}],
        "versions": [VERSION, VERSION],
        "properties": {"a": True, "b": None},
    }


@pytest.mark.spark
def test_a_registered_view(connections: Connections, disk_warehouse: Warehouse) -> None:
    lake = new_lake(connections, disk_warehouse)
    location = f"{disk_warehouse.root}/{unique('foreign')}"
    file = f"{location}/metadata/00000-made.metadata.json"
    disk_warehouse.put(file, json.dumps(document(location)).encode())
    path = f"{disk_warehouse.uri}/v1/{disk_warehouse.name}/namespaces/{lake.ns}/register-view"
    httpx.post(path, json={"name": "v", "metadata-location": file}, timeout=60).raise_for_status()

    assert lake.sql("SELECT n FROM {ns}.v") == [(7,)]
    loaded = lake.others.load_view(f"{lake.ns}.v")
    assert loaded.metadata.properties == {"a": "true"}
    assert loaded.metadata.versions[0].summary == {"rows": "5"}
    lake.sql("CREATE OR REPLACE VIEW {ns}.v AS SELECT 8L AS n")
    assert lake.sql("SELECT n FROM {ns}.v") == [(8,)]
    assert lake.others.load_view(f"{lake.ns}.v").metadata.current_version_id == 2
