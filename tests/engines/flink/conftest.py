from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pytest
from pyiceberg.catalog.rest import RestCatalog

from tests.clients.connections import connect_duckdb, connect_pyiceberg
from tests.clients.warehouses import Warehouse, unique
from tests.engines.conftest import EngineReport
from tests.engines.flink_process import ICEBERG, RELEASE, FlinkProcess
from tests.engines.pages import blocks, properties
from tests.services.authorities import prepare_authority
from tests.services.catalog import running_catalog, s3_environment
from tests.services.s3 import S3Server

_QUICK = {"execution.checkpointing.interval": "2 s", "parallelism.default": "2"}


class Lake(NamedTuple):
    """A service, Flink, and who reads what it wrote. `floecat` is Flink's current catalog."""

    warehouse: Warehouse
    flink: FlinkProcess
    pyiceberg: RestCatalog
    duckdb: duckdb.DuckDBPyConnection
    folder: Path

    def create_database(self) -> str:
        """A new database."""
        name = unique("flink")
        self.flink.sql(f"CREATE DATABASE {name}")
        return name

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """The rows as PyIceberg reads them, in order."""
        found = self.pyiceberg.load_table(table).scan().to_arrow().to_pylist()
        return sorted(tuple(row.values()) for row in found)

    def duckdb_rows(self, table: str) -> list[tuple[Any, ...]]:
        """The rows as DuckDB reads them, in order; it reads equality deletes, as PyIceberg does not."""
        return sorted(self.duckdb.execute(f"SELECT * FROM lake.{table}").fetchall())


def running_lake(warehouse: Warehouse, folder: Path) -> Iterator[Lake]:
    """Flink beside a service, with the settings of docs/clients/flink.md."""
    catalog, of_s3 = blocks("flink", "sql")[:2]
    assert "'http://127.0.0.1:9200'" in catalog
    catalog = catalog.replace("http://127.0.0.1:9200", warehouse.uri).replace(";", "")
    added = "'cache-enabled' = 'false'"
    if warehouse.s3 is not None:
        if warehouse.vends:
            of_s3 = blocks("flink", "sql")[2]
        for name, value in warehouse.access_keys.items():
            of_s3 = re.sub(f"'{name}' = '[^']*'", f"'{name}' = '{value}'", of_s3)
        added += f", {of_s3}"
    catalog = catalog.replace("'warehouse' = 'floecat'", f"'warehouse' = '{warehouse.name}', {added}")
    settings = properties(blocks("flink", "yaml")[0])
    assert settings.keys() >= {"execution.checkpointing.interval", "restart-strategy.type"}
    with FlinkProcess(folder, settings | _QUICK) as flink, connect_pyiceberg(warehouse) as pyiceberg:
        for mode in ("batch", "streaming"):
            flink.sql(catalog, mode)
            flink.sql("USE CATALOG floecat", mode)
        connection = connect_duckdb(warehouse)
        yield Lake(warehouse, flink, pyiceberg, connection, folder)
        connection.close()


@pytest.fixture(scope="package")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """On the local disk."""
    with running_catalog(tmp_path_factory.mktemp("flink-lake")) as server:
        yield from running_lake(Warehouse(server), tmp_path_factory.mktemp("flink"))


@pytest.fixture(scope="package")
def s3_lake(tmp_path_factory: pytest.TempPathFactory, s3_server: S3Server) -> Iterator[Lake]:
    """On S3."""
    bucket = s3_server.create_bucket()
    keys = s3_server.access_key_id, s3_server.secret_access_key
    environment = s3_environment(s3_server.endpoint, bucket, *keys)
    with running_catalog(tmp_path_factory.mktemp("flink-s3-lake"), environment) as server:
        warehouse = Warehouse(server, s3_server, bucket)
        yield from running_lake(warehouse, tmp_path_factory.mktemp("flink-s3"))


@pytest.fixture
def keyless_lake(
    tmp_path_factory: pytest.TempPathFactory, s3_server: S3Server, s3_bucket: str
) -> Iterator[Lake]:
    """On S3, without keys of its own."""
    keys = s3_server.access_key_id, s3_server.secret_access_key
    environment = s3_environment(s3_server.endpoint, s3_bucket, *keys)
    folder = tmp_path_factory.mktemp("flink-keyless-lake")
    prepare_authority(folder, environment, s3_server, f"s3://{s3_bucket}/warehouse")
    with running_catalog(folder, environment) as server:
        warehouse = Warehouse(server, s3_server, s3_bucket, vends=True)
        yield from running_lake(warehouse, tmp_path_factory.mktemp("flink-keyless"))


@pytest.fixture(autouse=True)
def _version(engine: EngineReport) -> None:
    engine.version = f"{RELEASE}, Iceberg {ICEBERG}"
