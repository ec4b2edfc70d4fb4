"""What one client wrote, every other reads, row for row."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.clients import samples
from tests.clients.connections import Connections
from tests.clients.readers import READERS
from tests.clients.warehouses import Warehouse, unique
from tests.clients.writers import WRITERS

pytestmark = [pytest.mark.spark]

NOT_ON_DISK = {"clickhouse"}


@pytest.fixture(scope="session")
def written(connections: Connections) -> Callable[[Warehouse, str], tuple[str, list[samples.Row]]]:
    """Writes the table of a client once and returns its name and its rows."""
    made: dict[tuple[str, str], tuple[str, list[samples.Row]]] = {}

    def write(warehouse: Warehouse, writer: str) -> tuple[str, list[samples.Row]]:
        key = (warehouse.kind, writer)
        if key not in made:
            namespace = unique("cross")
            connections.pyiceberg(warehouse).create_namespace(namespace)
            name = f"{namespace}.written"
            made[key] = (name, WRITERS[writer](connections, warehouse, name))
        return made[key]

    return write


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("writer", WRITERS)
def test_on_s3(connections, s3_warehouse, written, writer, reader) -> None:
    name, rows = written(s3_warehouse, writer)
    columns = [*samples.COLUMNS, "note"][: len(rows[0])]
    assert READERS[reader](connections, s3_warehouse, name, columns) == rows


@pytest.mark.parametrize("reader", [name for name in READERS if name not in NOT_ON_DISK])
@pytest.mark.parametrize("writer", [name for name in WRITERS if name not in NOT_ON_DISK])
def test_on_disk(connections, disk_warehouse, written, writer, reader) -> None:
    name, rows = written(disk_warehouse, writer)
    columns = [*samples.COLUMNS, "note"][: len(rows[0])]
    assert READERS[reader](connections, disk_warehouse, name, columns) == rows
