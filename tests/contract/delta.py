"""Delta tables in the storage of a service under test."""

from __future__ import annotations

import json
from typing import Any

import httpx

from tests.contract.client import Catalog, Namespace, segment, unique
from tests.contract.lakes import Lake
from tests.delta_tables import delta_table

__all__ = ["DV_TABLE", "PLAIN_TABLE", "UNKNOWN_FEATURE", "add_version", "copy_in", "management", "register"]

DV_TABLE = "kernel-rs/table-with-dv-small"
"""Two versions, the second with a deletion vector."""

PLAIN_TABLE = "golden/time-travel-start-start20-start40/delta"
"""Several versions that append."""

UNKNOWN_FEATURE = "delta-rs/simple_table_features"
"""Needs a reader that nobody knows."""


def copy_in(lake: Lake, name: str, location: str | None = None) -> str:
    """Copies a Delta table to a location of the service, by default a new one, and returns it."""
    location = location or f"{lake.root}/{unique('delta')}"
    folder = delta_table(name)
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            lake.put(f"{location}/{file.relative_to(folder)}", file.read_bytes())
    return location


def add_version(lake: Lake, location: str, version: int) -> None:
    """Commits a version that changes no rows."""
    info = {"commitInfo": {"timestamp": 1_800_000_000_000 + version, "operation": "SET TBLPROPERTIES"}}
    lake.put(f"{location}/_delta_log/{version:020d}.json", json.dumps(info).encode())


def management(catalog: Catalog, path: str) -> str:
    """A management route of the catalog."""
    return f"/management/v1/catalogs/{segment(catalog.prefix)}{path}"


def register(
    catalog: Catalog, namespace: Namespace, name: str, location: str, **fields: Any
) -> httpx.Response:
    """Registers a Delta table; `fields` are further ones of the body."""
    body = {"name": name, "format": "delta", "location": location} | fields
    path = management(catalog, catalog.tables_path(namespace))
    return catalog.http.post(path, json=body)
