from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from floecat.clients.lance import IcebergRestNamespace
from tests.unit.clients.lance.scripted_server import ScriptedServer, scripted_server

__all__: list[str] = []


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """A catalog that answers what the test says; the prefix of its warehouses is `p`."""
    with scripted_server() as running:
        yield running


@pytest.fixture
def connect(server: ScriptedServer) -> Callable[..., IcebergRestNamespace]:
    """Connects to that catalog, with properties as keywords."""

    def connected(**properties: object) -> IcebergRestNamespace:
        return IcebergRestNamespace(**{"endpoint": server.url, "root": "s3://lake", **properties})

    return connected
