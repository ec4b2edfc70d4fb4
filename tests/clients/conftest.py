from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.connections import Connections
from tests.clients.warehouses import Warehouse
from tests.services.authorities import prepare_authority
from tests.services.catalog import CatalogServer, s3_environment
from tests.services.nodejs import NodeProject
from tests.services.s3 import S3Server
from tests.services.spark import iceberg_java, spark

__all__ = ["iceberg_java", "spark"]

# Files of purged tables go while a test waits for it.
_SETTINGS = {"FLOECAT_PURGE_POLL_INTERVAL_MS": "100"}


@pytest.fixture(scope="session")
def disk_warehouse(tmp_path_factory: pytest.TempPathFactory, connections: Connections) -> Iterator[Warehouse]:
    """A service with its tables on the local disk."""
    server = CatalogServer(tmp_path_factory.mktemp("clients-disk"), _SETTINGS).start()
    warehouse = Warehouse(server)
    yield warehouse
    connections.close(warehouse)
    server.stop()


@pytest.fixture(scope="session")
def s3_warehouse(
    tmp_path_factory: pytest.TempPathFactory, s3_server: S3Server, connections: Connections
) -> Iterator[Warehouse]:
    """A service with its tables on S3."""
    bucket = s3_server.create_bucket()
    environment = s3_environment(
        s3_server.endpoint, bucket, s3_server.access_key_id, s3_server.secret_access_key
    )
    server = CatalogServer(tmp_path_factory.mktemp("clients-s3"), _SETTINGS | environment).start()
    warehouse = Warehouse(server, s3_server, bucket)
    yield warehouse
    connections.close(warehouse)
    server.stop()


@pytest.fixture(scope="session")
def keyless_warehouse(
    tmp_path_factory: pytest.TempPathFactory, s3_server: S3Server, connections: Connections
) -> Iterator[Warehouse]:
    """A service with its tables on S3 whose clients have no keys: an authority makes them."""
    bucket = s3_server.create_bucket()
    environment = s3_environment(
        s3_server.endpoint, bucket, s3_server.access_key_id, s3_server.secret_access_key
    )
    folder = tmp_path_factory.mktemp("clients-keyless")
    prepare_authority(folder, environment, s3_server, f"s3://{bucket}/warehouse")
    server = CatalogServer(folder, _SETTINGS | environment).start()
    warehouse = Warehouse(server, s3_server, bucket, vends=True)
    yield warehouse
    connections.close(warehouse)
    server.stop()


@pytest.fixture(scope="session", params=["disk", pytest.param("s3", marks=pytest.mark.s3)])
def warehouse(request: pytest.FixtureRequest) -> Warehouse:
    """Both, one after the other."""
    found: Warehouse = request.getfixturevalue(f"{request.param}_warehouse")
    return found


@pytest.fixture(scope="session")
def connections(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Connections]:
    """The clients' connections of this worker, each made when it is first asked for."""

    def start_spark() -> Any:
        return request.getfixturevalue("spark")

    with pytest.MonkeyPatch.context() as patch:
        # Its own planner is a package of its own, and does not know position deletes.
        patch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
        yield Connections(start_spark, tmp_path_factory.mktemp("connections"))


@pytest.fixture(scope="session")
def iceberg_js(tmp_path_factory: pytest.TempPathFactory) -> NodeProject:
    """iceberg-js, installed."""
    return NodeProject(Path(__file__).parent / "iceberg_js", tmp_path_factory.mktemp("iceberg-js"))
