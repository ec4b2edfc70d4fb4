"""How each client reads the columns of a table, in the order of `id`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.clients import samples
from tests.clients.connections import Connections
from tests.clients.storage_options import daft_io_config, polars_storage_options
from tests.clients.warehouses import Warehouse

__all__ = ["READERS", "Reader"]

Reader = Callable[[Connections, Warehouse, str, Sequence[str]], list[samples.Row]]


def read_with_pyiceberg(
    connections: Connections, warehouse: Warehouse, name: str, columns: Sequence[str]
) -> list[samples.Row]:
    """Its scan, to Arrow."""
    table = connections.pyiceberg(warehouse).load_table(name)
    return _rows(table.scan(selected_fields=tuple(columns)).to_arrow().to_pydict(), columns)


def read_as_planned(
    connections: Connections, warehouse: Warehouse, name: str, columns: Sequence[str]
) -> list[samples.Row]:
    """A scan of PyIceberg that the service has planned, and its count."""
    scan = connections.planned(warehouse).load_table(name).scan(selected_fields=tuple(columns))
    rows = _rows(scan.to_arrow().to_pydict(), columns)
    assert scan.count() == len(rows)
    return rows


def read_with_duckdb(
    connections: Connections, warehouse: Warehouse, name: str, columns: Sequence[str]
) -> list[samples.Row]:
    """A query."""
    return (
        connections.duckdb(warehouse)
        .execute(f"SELECT {', '.join(columns)} FROM lake.{name} ORDER BY id")
        .fetchall()
    )


def read_with_spark(
    connections: Connections, warehouse: Warehouse, name: str, columns: Sequence[str]
) -> list[samples.Row]:
    """A query."""
    return sorted(connections.spark(warehouse).sql(f"SELECT {', '.join(columns)} FROM {name}"))


def read_with_clickhouse(
    connections: Connections, warehouse: Warehouse, name: str, columns: Sequence[str]
) -> list[samples.Row]:
    """A query. ClickHouse gives every time a zone."""
    table = connections.clickhouse(warehouse).select(f"SELECT {', '.join(columns)} FROM lake.`{name}`")
    without_zone = samples.SCHEMA.field("seen_at")
    index = table.schema.get_field_index("seen_at")
    if index >= 0:
        table = table.set_column(index, without_zone, table["seen_at"].cast(without_zone.type))
    return _rows(table.to_pydict(), columns)


def read_with_polars(
    connections: Connections, warehouse: Warehouse, name: str, columns: Sequence[str]
) -> list[samples.Row]:
    """A lazy frame, planned by PyIceberg."""
    import polars

    table = connections.pyiceberg(warehouse).load_table(name)
    frame = polars.scan_iceberg(table, storage_options=polars_storage_options(table))
    return frame.select(columns).sort("id").collect().rows()


def read_with_daft(
    connections: Connections, warehouse: Warehouse, name: str, columns: Sequence[str]
) -> list[samples.Row]:
    """A lazy frame, planned by PyIceberg."""
    import daft

    table = connections.pyiceberg(warehouse).load_table(name)
    frame = daft.read_iceberg(table, io_config=daft_io_config(warehouse))
    return _rows(frame.select(*columns).to_pydict(), columns)


def _rows(values: dict[str, list[Any]], columns: Sequence[str]) -> list[samples.Row]:
    return sorted(zip(*(values[column] for column in columns), strict=True))


READERS: dict[str, Reader] = {
    "pyiceberg": read_with_pyiceberg,
    "pyiceberg-planned": read_as_planned,
    "duckdb": read_with_duckdb,
    "spark": read_with_spark,
    "clickhouse": read_with_clickhouse,
    "polars": read_with_polars,
    "daft": read_with_daft,
}
