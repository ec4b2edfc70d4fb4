from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from py4j.java_gateway import JavaGateway

from tests.clients.kit.java import Iceberg
from tests.clients.warehouses import Warehouse, unique


@pytest.fixture(scope="session")
def iceberg(iceberg_java: JavaGateway) -> Iceberg:
    """Iceberg's library."""
    return Iceberg(iceberg_java)


@pytest.fixture(scope="session")
def catalog(iceberg: Iceberg, warehouse: Warehouse) -> Iterator[Any]:
    """Java's REST catalog, connected to our service on the local disk, then to that on S3."""
    made = iceberg.catalog(warehouse)
    yield made
    made.close()


@pytest.fixture
def ns(iceberg: Iceberg, catalog: Any) -> str:
    """The name of an empty namespace."""
    name = unique("kit")
    catalog.createNamespace(iceberg.namespace(name))
    return name
