"""Daft: lazy frames over tables of the catalog, appends and overwrites."""

from __future__ import annotations

from typing import Any

import daft
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog

from tests.clients.connections import Connections
from tests.clients.storage_options import daft_io_config
from tests.clients.warehouses import Warehouse, unique


class Frames:
    """One table, as Daft reads and writes it."""

    def __init__(self, catalog: RestCatalog, warehouse: Warehouse, name: str) -> None:
        self.catalog = catalog
        self.name = name
        self._io = daft_io_config(warehouse)

    def read(self, snapshot_id: int | None = None) -> Any:
        """A lazy frame of what the catalog has now."""
        return daft.read_iceberg(
            self.catalog.load_table(self.name), snapshot_id=snapshot_id, io_config=self._io
        )

    def write(self, rows: dict[str, list[Any]], mode: str) -> dict[str, list[Any]]:
        """Writes rows and returns what Daft says of it."""
        answer: dict[str, list[Any]] = (
            daft.from_pydict(rows)
            .write_iceberg(self.catalog.load_table(self.name), mode=mode, io_config=self._io)
            .to_pydict()
        )
        return answer


@pytest.fixture
def frames(connections: Connections, warehouse: Warehouse) -> Frames:
    """A table with three rows."""
    catalog = connections.pyiceberg(warehouse)
    namespace = unique("daft")
    catalog.create_namespace(namespace)
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", None]})
    catalog.create_table(f"{namespace}.t", rows.schema).append(rows)
    return Frames(catalog, warehouse, f"{namespace}.t")


def test_filters_and_aggregates(frames: Frames) -> None:
    frame = frames.read()
    assert frame.where(daft.col("id") > 1).sort("id").to_pydict() == {"id": [2, 3], "name": ["b", None]}
    assert frame.agg(daft.col("id").sum()).to_pydict() == {"id": [6]}


def test_appends_and_overwrites(frames: Frames) -> None:
    assert frames.write({"id": [4], "name": ["d"]}, "append")["operation"] == ["ADD"]
    assert frames.read().sort("id").to_pydict()["id"] == [1, 2, 3, 4]
    assert "DELETE" in frames.write({"id": [9], "name": ["only"]}, "overwrite")["operation"]
    assert frames.read().to_pydict() == {"id": [9], "name": ["only"]}
    assert frames.catalog.load_table(frames.name).scan().to_arrow().to_pylist() == [{"id": 9, "name": "only"}]


def test_reads_an_older_snapshot(frames: Frames) -> None:
    first = frames.catalog.load_table(frames.name).snapshots()[0].snapshot_id
    frames.write({"id": [4], "name": ["d"]}, "append")
    assert frames.read(first).count_rows() == 3
    assert frames.read().count_rows() == 4


def test_catalog(connections: Connections, warehouse: Warehouse) -> None:
    """Its own interface to catalogs. On S3 it reads by the settings of PyIceberg's catalog."""
    others = connections.pyiceberg(warehouse)
    catalog = daft.Catalog.from_iceberg(others)
    namespace = unique("daft")
    catalog.create_namespace(namespace)
    catalog.create_namespace(f"{namespace}.child")
    assert others.list_namespaces(namespace) == [(namespace, "child")]
    table = catalog.create_table(f"{namespace}.child.t", daft.from_pydict({"id": [1, 2]}))
    table.append(daft.from_pydict({"id": [3]}))
    assert table.read().sort("id").to_pydict() == {"id": [1, 2, 3]}
    table.overwrite(daft.from_pydict({"id": [9]}))
    name = (namespace, "child", "t")
    assert others.load_table(name).scan().to_arrow().to_pydict() == {"id": [9]}
    assert [str(found) for found in catalog.list_tables(f"{namespace}.child")] == [".".join(name)]
    catalog.drop_table(f"{namespace}.child.t")
    catalog.drop_namespace(f"{namespace}.child")
    assert not others.table_exists(name)
