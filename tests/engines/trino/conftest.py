"""Trino with catalogs on the local disk and on S3, with the settings that the page tells people to copy."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyiceberg.catalog.rest import RestCatalog

from tests.clients.connections import connect_pyiceberg
from tests.clients.warehouses import Warehouse
from tests.engines.conftest import EngineReport
from tests.engines.pages import blocks, properties
from tests.engines.trino_server import RELEASE, TrinoServer, running_trino
from tests.services.catalog import CatalogServer, running_catalog, s3_environment
from tests.services.s3 import S3Server
from tests.services.spark import spark

__all__ = ["Lake", "page_settings", "spark"]

_S3, _DISK, _CREDENTIAL, _TOKEN, _KEYLESS = range(5)
_AT_ONCE = {"iceberg.expire-snapshots.min-retention": "0s", "iceberg.remove-orphan-files.min-retention": "0s"}
"""Tests cannot wait for a week."""


class Lake(msgspec.Struct, frozen=True):
    """A schema of its own in a catalog of Trino, and the service behind it."""

    trino: TrinoServer
    warehouse: Warehouse
    schema: str

    @property
    def catalog(self) -> str:
        """The catalog in Trino, which has the name of the warehouse."""
        return self.warehouse.name

    @property
    def server(self) -> CatalogServer:
        """The service."""
        return self.warehouse.server

    def sql(self, statement: str) -> list[list[Any]]:
        """Runs a statement in the schema."""
        return self.trino.run(statement, catalog=self.catalog, schema=self.schema)

    def pyiceberg(self) -> RestCatalog:
        """The same catalog in PyIceberg."""
        return connect_pyiceberg(self.warehouse)


def page_settings(warehouse: Warehouse, login: dict[str, str] | None = None) -> dict[str, str]:
    """The settings of the page, for a running service.

    Args:
        warehouse: the service and its storage.
        login: what stands for the placeholders of a login, such as `<token>`.
    """
    page = blocks("trino", "properties")
    chosen = properties(page[_S3 if warehouse.s3 else _DISK])
    if login is not None:
        chosen |= properties(page[_TOKEN if "<token>" in login else _CREDENTIAL])
    if warehouse.vends:
        chosen = {name: value for name, value in chosen.items() if not name.startswith("s3.aws-")}
        chosen |= properties(page[_KEYLESS])
    known = {"http://127.0.0.1:9200": warehouse.uri, "floecat": warehouse.name} | (login or {})
    if warehouse.s3:
        known["http://127.0.0.1:8333"] = warehouse.s3.endpoint
        known |= {"<access key>": warehouse.s3.access_key_id, "<secret key>": warehouse.s3.secret_access_key}
    for placeholder, value in known.items():
        chosen = {name: text.replace(placeholder, value) for name, text in chosen.items()}
    return chosen


@pytest.fixture(scope="session")
def trino() -> Iterator[TrinoServer]:
    """One server; tests add catalogs."""
    with running_trino() as server:
        yield server


@pytest.fixture(autouse=True)
def version(engine: EngineReport) -> None:
    """What the table of the run says."""
    engine.version = RELEASE


@pytest.fixture(scope="session", params=["disk", "s3"])
def warehouse(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, trino: TrinoServer
) -> Iterator[Warehouse]:
    """A service, and a catalog of Trino with its name."""
    folder: Path = tmp_path_factory.mktemp(request.param)
    environment = {"FLOECAT_GATEWAY_DEFAULT_PREFIX": f"on_{request.param}"}
    s3: S3Server | None = None
    bucket = ""
    if request.param == "s3":
        s3 = request.getfixturevalue("s3_server")
        bucket = s3.create_bucket()
        environment |= s3_environment(s3.endpoint, bucket, s3.access_key_id, s3.secret_access_key)
    with running_catalog(folder, environment) as server:
        made = Warehouse(server, s3, bucket)
        trino.add_catalog(made.name, page_settings(made) | _AT_ONCE)
        yield made
        trino.remove_catalog(made.name)


@pytest.fixture
def lake(trino: TrinoServer, warehouse: Warehouse) -> Lake:
    """A schema that no other test uses."""
    made = Lake(trino, warehouse, f"s_{secrets.token_hex(4)}")
    trino.run(f"CREATE SCHEMA {made.catalog}.{made.schema}")
    return made
