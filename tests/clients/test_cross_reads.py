"""What one client wrote, every other reads, row for row."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from floecat.iceberg.manifests.lists import read_manifest_list
from tests.clients import samples
from tests.clients.connections import Connections
from tests.clients.readers import READERS
from tests.clients.warehouses import Warehouse, unique
from tests.clients.writers import WRITERS
from tests.unit.iceberg.manifest_rows import rows_by_columns, rows_by_fastavro

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


@pytest.mark.s3
@pytest.mark.parametrize("writer", WRITERS)
def test_manifests_of_every_writer_are_read_by_columns(
    connections: Connections, s3_warehouse: Warehouse, written: Written, writer: str
) -> None:
    """As fastavro reads them; the rows that they count are those of the table."""
    name, rows = written(s3_warehouse, writer)
    table = connections.pyiceberg(s3_warehouse).load_table(name)
    counts: dict[int, int] = {}
    for snapshot in table.snapshots():
        lists = table.io.new_input(snapshot.manifest_list).open().read()
        for listed in read_manifest_list(lists, location=snapshot.manifest_list):
            data = table.io.new_input(listed.manifest_path).open().read()
            found = rows_by_columns(data)
            assert found == rows_by_fastavro(data)
            for entry in rows_by_columns(data, listed=listed):
                assert entry["snapshot_id"] is not None
                assert entry["status"] == 2 or entry["sequence_number"] is not None
                if snapshot == table.current_snapshot() and entry["status"] != 2:
                    content = entry["content"]
                    counts[content] = counts.get(content, 0) + entry["record_count"]
    assert counts[0] - counts.get(1, 0) == len(rows)
