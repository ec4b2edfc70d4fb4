from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.behaviour.catalog.conftest import call, kernel, store_url
from tests.services.catalog import CatalogServer, postgres_environment
from tests.services.postgres import PostgresServer

__all__ = ["call", "deployment", "kernel", "store_url"]

FAST_TAKEOVER = {"FLOECAT_GATEWAY_IDEMPOTENCY_IN_PROGRESS_TIMEOUT": "PT2S"}
"""A key whose owner was killed is free again before a test loses its patience."""


class Deployment(NamedTuple):
    """Where services keep their data; any number of them can share one."""

    data_dir: Path
    environment: dict[str, str]
    store_url: str
    """As the store takes it."""
    start_catalog: Callable[..., CatalogServer]

    def start(self, **environment: str) -> CatalogServer:
        """One more service."""
        return self.start_catalog(data_dir=self.data_dir, **{**self.environment, **environment})


@pytest.fixture(params=["sqlite", "postgresql"])
def deployment(
    request: pytest.FixtureRequest, tmp_path: Path, start_catalog: Callable[..., CatalogServer]
) -> Iterator[Deployment]:
    """An empty store of each database, with files on local disk."""
    data_dir = tmp_path / "data"
    if request.param == "sqlite":
        yield Deployment(data_dir, FAST_TAKEOVER, f"sqlite:///{data_dir / 'floecat.db'}", start_catalog)
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    name = server.create_database()
    url = server.url(name)
    yield Deployment(data_dir, {**FAST_TAKEOVER, **postgres_environment(url)}, url, start_catalog)
    # start_catalog was set up first: its services are still there
    server.drop_database(name)
