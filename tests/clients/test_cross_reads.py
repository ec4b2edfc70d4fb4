"""What one client wrote, every other reads, row for row."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.clients import samples
from tests.clients.connections import Connections
from tests.clients.readers import READERS
from tests.clients.warehouses import Warehouse, unique
from tests.clients.writers import WRITERS

pytestmark = pytest.mark.spark

Written = Callable[[Warehouse, str], tuple[str, list[samples.Row]]]

NOT_ON_DISK = {"clickhouse"}

# What a reader cannot do, with the text of its refusal: a failure here means that it has learned it.
LIMITS = {
    ("spark-v3", "clickhouse"): "Position deletes are supported only for parquet format",
    ("spark-v3", "daft"): "deletes.puffin",
    ("duckdb", "daft"): "list type must have a single child",
}


@pytest.fixture(scope="session")
def written(connections: Connections) -> Written:
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


def check(connections: Connections, warehouse: Warehouse, written: Written, writer: str, reader: str) -> None:
    name, rows = written(warehouse, writer)
    columns = [*samples.COLUMNS, "note"][: len(rows[0])]
    if limit := LIMITS.get((writer, reader)):
        with pytest.raises(Exception, match=limit):
            READERS[reader](connections, warehouse, name, columns)
    else:
        assert READERS[reader](connections, warehouse, name, columns) == rows


@pytest.mark.s3
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("writer", WRITERS)
def test_on_s3(
    connections: Connections, s3_warehouse: Warehouse, written: Written, writer: str, reader: str
) -> None:
    check(connections, s3_warehouse, written, writer, reader)


@pytest.mark.parametrize("reader", [name for name in READERS if name not in NOT_ON_DISK])
@pytest.mark.parametrize("writer", [name for name in WRITERS if name not in NOT_ON_DISK])
def test_on_disk(
    connections: Connections, disk_warehouse: Warehouse, written: Written, writer: str, reader: str
) -> None:
    check(connections, disk_warehouse, written, writer, reader)
