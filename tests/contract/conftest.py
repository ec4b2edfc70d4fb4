from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.contract.client import Catalog, Namespace, Table, View, unique
from tests.contract.lakes import BucketLake, FolderLake, Lake
from tests.services.catalog import (
    CatalogServer,
    postgres_environment,
    prepare_catalog,
    running_catalog,
    s3_environment,
)
from tests.services.postgres import PostgresServer
from tests.services.s3 import S3Server

STORE = os.environ.get("CONTRACT_STORE", "sqlite")
STORAGE = os.environ.get("CONTRACT_STORAGE", "local")
FOREIGN_URL = os.environ.get("CONTRACT_URL")

_CHOICES = {"CONTRACT_STORE": ("sqlite", "postgresql"), "CONTRACT_STORAGE": ("local", "s3")}
_OWN_SERVICE = {"lake", "local_lake", "start_catalog"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a foreign server only what goes over HTTP alone is asked."""
    if FOREIGN_URL is None:
        return
    here = Path(__file__).parent
    kept, left_out = [], []
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        asks_it = "catalog" in fixtures and not fixtures & _OWN_SERVICE
        (kept if asks_it or here not in item.path.parents else left_out).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left_out)


@pytest.fixture(scope="session")
def deploy(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, str], Any]:
    """Starts a service on a store (`sqlite`, `postgresql`) and a storage (`local`, `s3`), for a block.

    Called as `with deploy("postgresql", "s3") as lake`.
    """

    @contextmanager
    def deployed(store: str, storage: str) -> Iterator[Lake]:
        environment = _store_environment(request, store)
        if storage == "local":
            with running_catalog(tmp_path_factory.mktemp("catalog"), environment) as server:
                yield FolderLake(server)
            return
        s3: S3Server = request.getfixturevalue("s3_server")
        bucket = s3.create_bucket()
        environment |= s3_environment(s3.endpoint, bucket, s3.access_key_id, s3.secret_access_key)
        with running_catalog(tmp_path_factory.mktemp("catalog"), environment) as server:
            yield BucketLake(server, s3, bucket)

    return deployed


@pytest.fixture(scope="session")
def local_lake(deploy: Callable[[str, str], Any]) -> Iterator[FolderLake]:
    """Our own service on local disk, for tests that look into its files."""
    with deploy(_chosen("CONTRACT_STORE", STORE), "local") as lake:
        yield lake


@pytest.fixture(scope="session")
def lake(request: pytest.FixtureRequest, deploy: Callable[[str, str], Any]) -> Iterator[Lake]:
    """Our own service on the store and storage that the environment names, with a look at its files."""
    if _chosen("CONTRACT_STORAGE", STORAGE) == "local":
        yield request.getfixturevalue("local_lake")
        return
    with deploy(_chosen("CONTRACT_STORE", STORE), STORAGE) as lake:
        yield lake


@pytest.fixture(scope="session")
def catalog(request: pytest.FixtureRequest) -> Iterator[Catalog]:
    """The catalog under test: the one that the environment names, else our own service."""
    if FOREIGN_URL is None:
        server = request.getfixturevalue("lake").server
        client = Catalog(server.base_url, server.warehouse)
    else:
        token = os.environ.get("CONTRACT_TOKEN")
        client = Catalog(FOREIGN_URL, os.environ.get("CONTRACT_WAREHOUSE"), token)
    yield client
    client.close()


@pytest.fixture(scope="session")
def local_server(local_lake: FolderLake) -> CatalogServer:
    """Our own service on local disk."""
    return local_lake.server


@pytest.fixture(scope="session")
def local_catalog(local_server: CatalogServer) -> Iterator[Catalog]:
    """A client of our own service on local disk."""
    client = Catalog(local_server.base_url, local_server.warehouse)
    yield client
    client.close()


@pytest.fixture
def start_catalog(
    request: pytest.FixtureRequest, tmp_path: Path, start_catalog: Callable[..., CatalogServer]
) -> Callable[..., CatalogServer]:
    """As everywhere, and on the store that the environment names; services in one folder share it."""
    stores: dict[Path, dict[str, str]] = {}

    def start(*, data_dir: Path | None = None, **environment: str) -> CatalogServer:
        folder = data_dir or tmp_path / f"catalog-{len(stores)}"
        if folder not in stores:
            stores[folder] = _store_environment(request, STORE)
            prepare_catalog(folder, stores[folder] | environment)
        return start_catalog(data_dir=folder, **(stores[folder] | environment))

    return start


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
    """An empty namespace. A foreign server gets rid of it afterwards, with what the test left in it."""
    name = catalog.create_namespace((unique("contract"),))
    yield name
    # Our own services are thrown away as a whole; names are never used twice.
    if FOREIGN_URL is not None:
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
def local_namespace(local_catalog: Catalog) -> Namespace:
    """A namespace of the service whose files can be looked at."""
    return local_catalog.create_namespace((unique("contract"),))


@pytest.fixture
def local_table(local_catalog: Catalog, local_namespace: Namespace) -> Table:
    """A table whose files can be looked at."""
    return local_catalog.create_table(local_namespace)


@pytest.fixture(scope="session")
def warehouse_folder(local_server: CatalogServer) -> Path:
    """The folder below which the service whose files can be looked at keeps its tables."""
    return local_server.data_dir / "warehouse"


def _chosen(variable: str, value: str) -> str:
    if value not in _CHOICES[variable]:
        raise pytest.UsageError(f"{variable} is one of {', '.join(_CHOICES[variable])}")
    return value


def _store_environment(request: pytest.FixtureRequest, store: str) -> dict[str, str]:
    few = {"FLOECAT_GATEWAY_PLAN_TASK_FILES_PER_TASK": "128"}  # plans of few files have several tasks
    if store == "sqlite":
        return few
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return few | postgres_environment(server.url(server.create_database()))
