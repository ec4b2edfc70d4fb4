from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any

import pytest
from litestar.testing import TestClient

from floecat.runtime import Kernel, kernel
from floecat.settings import Settings, StorageSettings
from floecat.store.database.engine import Store
from floecat_rest.app import create_app

SCHEMA = {
    "type": "struct",
    "fields": [{"id": 1, "name": "id", "type": "long", "required": False}],
}

BASE_URL = "http://127.0.0.1"
CLIENT_HEADERS = {"x-client-version": "test"}
"""What tells a catalog client from a web page, with requests that have no body."""

_numbers = count()


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings of a catalog in a folder of its own, with a store that is up to date."""
    folder = tmp_path_factory.mktemp("catalog")
    storage = StorageSettings(fsync=False, addable_locations=((folder / "lakes").as_uri(),))
    settings = Settings(data_dir=str(folder), storage=storage)
    store = Store.open(settings.store_url)
    store.upgrade()
    store.close()
    return settings


@pytest.fixture(scope="session")
def opened_kernel(settings: Settings) -> Iterator[Kernel]:
    """The real kernel over these settings, with the default catalog."""
    with kernel(settings) as opened:
        account_id = settings.gateway.default_account_id
        opened.catalog.catalogs.ensure(
            account_id, settings.gateway.default_prefix, settings.warehouse_location
        )
        yield opened


@pytest.fixture
def start(opened_kernel: Kernel) -> Iterator[Callable[[Settings], TestClient[Any]]]:
    """Starts the application with settings, over the one kernel."""
    with ExitStack() as running:

        def run(settings: Settings) -> TestClient[Any]:
            app = create_app(settings, opened_kernel)
            client = TestClient(app, base_url=BASE_URL, raise_server_exceptions=False)
            client.headers.update(CLIENT_HEADERS)
            return running.enter_context(client)

        yield run


@pytest.fixture(scope="session")
def client(settings: Settings, opened_kernel: Kernel) -> Iterator[TestClient[Any]]:
    """The application with default settings."""
    with TestClient(
        create_app(settings, opened_kernel),
        base_url=BASE_URL,
        raise_server_exceptions=False,
    ) as running:
        running.headers.update(CLIENT_HEADERS)
        yield running


@pytest.fixture
def namespace(client: TestClient[Any]) -> str:
    """A namespace that no other test has."""
    name = f"ns{next(_numbers)}"
    assert client.post("/v1/namespaces", json={"namespace": [name]}).status_code == 200
    return name


@pytest.fixture
def table(client: TestClient[Any], namespace: str) -> str:
    """The path of an empty table."""
    path = f"/v1/floecat/namespaces/{namespace}/tables"
    assert client.post(path, json={"name": "t", "schema": SCHEMA}).status_code == 200
    return f"{path}/t"
