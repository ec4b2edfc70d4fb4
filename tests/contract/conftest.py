from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.contract.client import Catalog, Namespace, Table, View, unique
from tests.services.catalog import CatalogServer


@pytest.fixture(scope="session")
def catalog(request: pytest.FixtureRequest) -> Iterator[Catalog]:
    """The catalog under test: the one that the environment names, else our own service."""
    url = os.environ.get("FLOECAT_CONTRACT_URL")
    warehouse = os.environ.get("FLOECAT_CONTRACT_WAREHOUSE")
    if url is None:
        server: CatalogServer = request.getfixturevalue("catalog_server")
        url, warehouse = server.base_url, server.warehouse
    client = Catalog(url, warehouse, os.environ.get("FLOECAT_CONTRACT_TOKEN"))
    yield client
    client.close()


@pytest.fixture(scope="session")
def local_catalog(catalog_server: CatalogServer) -> Iterator[Catalog]:
    """Our own service on local disk, for tests that look into its files."""
    client = Catalog(catalog_server.base_url, catalog_server.warehouse)
    yield client
    client.close()


@pytest.fixture
def connect() -> Iterator[Callable[[CatalogServer], Catalog]]:
    """Makes clients of services that the test started."""
    clients: list[Catalog] = []

    def make(server: CatalogServer) -> Catalog:
        clients.append(Catalog(server.base_url, server.warehouse))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def namespace(catalog: Catalog) -> Iterator[Namespace]:
    """An empty namespace, removed afterwards with what the test left in it."""
    name = catalog.create_namespace((unique("contract"),))
    yield name
    catalog.clear(name)


@pytest.fixture
def table(catalog: Catalog, namespace: Namespace) -> Table:
    """A table of format version 2 with the columns id and data, without snapshots."""
    return catalog.create_table(namespace)


@pytest.fixture
def view(catalog: Catalog, namespace: Namespace) -> View:
    """A view with one version."""
    return catalog.create_view(namespace)


@pytest.fixture
def local_namespace(local_catalog: Catalog) -> Iterator[Namespace]:
    """A namespace of the service whose files can be looked at."""
    name = local_catalog.create_namespace((unique("contract"),))
    yield name
    local_catalog.clear(name)


@pytest.fixture
def local_table(local_catalog: Catalog, local_namespace: Namespace) -> Table:
    """A table whose files can be looked at."""
    return local_catalog.create_table(local_namespace)


@pytest.fixture(scope="session")
def warehouse_folder(catalog_server: CatalogServer) -> Path:
    """The folder below which the service whose files can be looked at keeps its tables."""
    return catalog_server.data_dir / "warehouse"
