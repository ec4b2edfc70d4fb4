"""Clients that choose no location work where they may not choose one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import BadRequestError

from tests.clients.connections import open_duckdb
from tests.services.catalog import CatalogServer


def test_pyiceberg_and_duckdb(tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array([1, 2], pa.int64())})
    server = CatalogServer(tmp_path, {"FLOECAT_GATEWAY_CLIENT_LOCATIONS": "refuse"}).start()
    catalog = load_catalog("lake", type="rest", uri=server.base_url)
    catalog.create_namespace("ns")
    table = catalog.create_table("ns.t", rows.schema)
    table.append(rows)
    with catalog.create_table_transaction("ns.staged", rows.schema) as transaction:
        transaction.append(rows)
    with pytest.raises(BadRequestError, match=r"floecat\.gateway\.client-locations"):
        catalog.create_table("ns.chosen", rows.schema, location=f"{table.location()}/chosen")
    duckdb = open_duckdb()
    options = f"ENDPOINT '{server.base_url}', AUTHORIZATION_TYPE 'none', ACCESS_DELEGATION_MODE 'none'"
    duckdb.execute(f"ATTACH 'floecat' AS lake (TYPE iceberg, {options})")
    duckdb.execute("CREATE TABLE lake.ns.made AS SELECT * FROM lake.ns.staged")
    assert duckdb.execute("SELECT sum(id) FROM lake.ns.made").fetchall() == [(3,)]
    duckdb.close()
    server.stop()
