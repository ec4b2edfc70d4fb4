from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyiceberg.catalog.rest import RestCatalog

from tests.clients.connections import connect_pyiceberg
from tests.clients.warehouses import Warehouse, unique
from tests.contract.client import Catalog
from tests.engines.conftest import EngineReport
from tests.engines.pages import blocks, properties
from tests.engines.spark_process import ICEBERG, RELEASE, SparkProcess
from tests.services.authorities import prepare_authority
from tests.services.catalog import running_catalog, s3_environment
from tests.services.s3 import S3Server

PLANNERS = ("client", "server")


class Lake(NamedTuple):
    """A service, Spark with its tables as the catalogs `client` and `server`, and PyIceberg beside it."""

    warehouse: Warehouse
    spark: SparkProcess
    pyiceberg: RestCatalog
    http: Catalog
    folder: Path
    delegation: str = "vended-credentials"
    """What Spark asks the catalog for on S3, where it has no keys of its own."""

    @property
    def signatures(self) -> int:
        """How many requests to S3 the service has signed, for tables that the path names."""
        counted = r'^floecat_http_requests_total{method="POST",route="\S*{table\S*/sign",status="200"} (\S+)$'
        return sum(map(int, map(float, re.findall(counted, self.http.http.get("/metrics").text, re.M))))

    def create_namespace(self) -> str:
        """A new namespace."""
        name = unique("spark")
        self.spark.sql(f"CREATE NAMESPACE client.{name}")
        return name

    def rows(self, table: str, columns: str = "*") -> list[tuple[Any, ...]]:
        """The rows in order, which are the same whoever plans their scan."""
        [client, server] = [
            self.spark.sql(f"SELECT {columns} FROM {planner}.{table} ORDER BY 1") for planner in PLANNERS
        ]
        assert server == client
        return client


def settings_of(warehouse: Warehouse, delegation: str = "vended-credentials") -> dict[str, str]:
    """The settings of docs/clients/spark.md, with the catalog once for each way of planning.

    Args:
        warehouse: the service and its storage.
        delegation: what Spark asks for where it has no keys of its own.
    """
    page, of_s3 = [properties(block) for block in blocks("spark", "properties")[:2]]
    assert page["spark.sql.catalog.floecat.uri"] == "http://127.0.0.1:9200"
    page |= {"spark.sql.catalog.floecat.uri": warehouse.uri}
    if warehouse.s3 is not None:
        page |= of_s3 | {f"spark.sql.catalog.floecat.{key}": v for key, v in warehouse.access_keys.items()}
    if warehouse.vends:
        page["spark.sql.catalog.floecat.header.X-Iceberg-Access-Delegation"] = delegation
    page |= {"spark.sql.catalog.floecat.cache-enabled": "false"}
    settings = {}
    for planner in PLANNERS:
        settings |= {name.replace(".floecat", f".{planner}"): value for name, value in page.items()}
        settings[f"spark.sql.catalog.{planner}.scan-planning-mode"] = planner
    return settings


def running_lake(
    warehouse: Warehouse, folder: Path, delegation: str = "vended-credentials"
) -> Iterator[Lake]:
    """Spark beside a service."""
    http, settings = Catalog(warehouse.uri, warehouse.name), settings_of(warehouse, delegation)
    with SparkProcess(folder, settings) as spark, connect_pyiceberg(warehouse) as pyiceberg:
        yield Lake(warehouse, spark, pyiceberg, http, folder, delegation)
    http.close()


@pytest.fixture(scope="package")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """On the local disk."""
    with running_catalog(tmp_path_factory.mktemp("spark-lake")) as server:
        yield from running_lake(Warehouse(server), tmp_path_factory.mktemp("spark"))


@pytest.fixture(scope="package", params=["keys", "keyless", "signed"])
def s3_lake(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, s3_server: S3Server
) -> Iterator[Lake]:
    """On S3, with keys of its own, with those that the catalog makes, or with requests that it signs."""
    bucket = s3_server.create_bucket()
    keys = s3_server.access_key_id, s3_server.secret_access_key
    environment = s3_environment(s3_server.endpoint, bucket, *keys)
    folder = tmp_path_factory.mktemp("spark-s3-lake")
    if vends := request.param != "keys":
        prepare_authority(folder, environment, s3_server, f"s3://{bucket}/warehouse")
    with running_catalog(folder, environment) as server:
        warehouse = Warehouse(server, s3_server, bucket, vends=vends)
        delegation = "remote-signing" if request.param == "signed" else "vended-credentials"
        yield from running_lake(warehouse, tmp_path_factory.mktemp("spark-s3"), delegation)


@pytest.fixture(autouse=True)
def _version(engine: EngineReport) -> None:
    engine.version = f"{RELEASE}, Iceberg {ICEBERG}"
