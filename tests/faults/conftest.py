from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.behaviour.catalog.conftest import call, kernel, store_url
from tests.faults.answers import Sender
from tests.faults.deployment import Deployment
from tests.services.catalog import CatalogServer
from tests.services.cut import CutProxy
from tests.services.postgres import PostgresServer

__all__ = ["call", "closed_senders", "deployment", "kernel", "store_url"]


@pytest.fixture(autouse=True)
def closed_senders() -> Iterator[None]:
    """Leaves no connection open, however the test ends."""
    yield
    while Sender.opened:
        Sender.opened.pop().close()


@pytest.fixture(params=["sqlite", "postgresql"])
def deployment(
    request: pytest.FixtureRequest, tmp_path: Path, start_catalog: Callable[..., CatalogServer]
) -> Iterator[Deployment]:
    """An empty store of each database, with files on local disk."""
    if request.param == "sqlite":
        yield Deployment(tmp_path / "data", start_catalog)
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    name = server.create_database()
    yield Deployment(tmp_path / "data", start_catalog, postgres_url=server.url(name))
    server.drop_database(name)


@pytest.fixture
def postgres_proxy(postgres_server: PostgresServer) -> Iterator[CutProxy]:
    """The network between a service and PostgreSQL."""
    with CutProxy("127.0.0.1", postgres_server.port) as proxy:
        yield proxy


@pytest.fixture
def behind_proxy(
    postgres_server: PostgresServer,
    postgres_proxy: CutProxy,
    tmp_path: Path,
    start_catalog: Callable[..., CatalogServer],
) -> Iterator[Deployment]:
    """A store on PostgreSQL that services reach through the proxy."""
    name = postgres_server.create_database()
    url = postgres_server.url(name)
    deployment = Deployment(tmp_path / "data", start_catalog, postgres_url=url)
    through = url.replace(f":{postgres_server.port}/", f":{postgres_proxy.port}/")
    deployment.environment = {**deployment.environment, "FLOECAT_STORE_URL": through}
    yield deployment
    postgres_server.drop_database(name)
