"""Trino without keys: the catalog gives it some for each table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.warehouses import Warehouse
from tests.engines.conftest import EngineReport
from tests.engines.trino.conftest import Lake, page_settings
from tests.engines.trino_server import TrinoServer
from tests.services.authorities import prepare_authority
from tests.services.catalog import running_catalog, s3_environment
from tests.services.s3 import S3Server

pytestmark = pytest.mark.s3


@pytest.fixture
def keyless(trino: TrinoServer, s3_server: S3Server, s3_bucket: str, tmp_path: Path) -> Iterator[Lake]:
    """A schema in a catalog of Trino that has no keys."""
    environment = {"FLOECAT_GATEWAY_DEFAULT_PREFIX": "keyless"} | s3_environment(
        s3_server.endpoint, s3_bucket, s3_server.access_key_id, s3_server.secret_access_key
    )
    prepare_authority(tmp_path / "data", environment, s3_server, f"s3://{s3_bucket}/warehouse")
    with running_catalog(tmp_path / "data", environment) as server:
        warehouse = Warehouse(server, s3_server, s3_bucket, vends=True)
        trino.add_catalog(warehouse.name, page_settings(warehouse))
        lake = Lake(trino, warehouse, "s")
        trino.run("CREATE SCHEMA keyless.s")
        yield lake
        trino.remove_catalog(warehouse.name)


def test_without_keys(keyless: Lake, engine: EngineReport) -> None:
    with engine.step("create, write and read"):
        keyless.sql("CREATE TABLE t (id bigint, name varchar) WITH (partitioning = ARRAY['name'])")
        keyless.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        assert keyless.sql("SELECT id FROM t ORDER BY id") == [[1], [2], [3]]
    with engine.step("create as a query"):
        keyless.sql("CREATE TABLE u AS SELECT * FROM t WHERE id > 1")
        assert keyless.sql("SELECT count(*) FROM u") == [[2]]
    with engine.step("evolve, change and delete rows"):
        keyless.sql("ALTER TABLE t ADD COLUMN amount integer")
        keyless.sql("UPDATE t SET amount = 7 WHERE id = 2")
        keyless.sql("DELETE FROM t WHERE id = 1")
        assert keyless.sql("SELECT * FROM t ORDER BY id") == [[2, "b", 7], [3, "c", None]]
    with engine.step("another client without keys reads it"):
        found = keyless.pyiceberg().load_table("s.t").scan().to_arrow().sort_by("id").to_pydict()
        assert found == {"id": [2, 3], "name": ["b", "c"], "amount": [7, None]}
