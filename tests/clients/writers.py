"""How each client writes the sample table. Those that can change rows and columns do so too."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyiceberg.expressions import EqualTo
from pyiceberg.transforms import DayTransform
from pyiceberg.types import StringType

from tests.clients import samples
from tests.clients.connections import Connections
from tests.clients.sql_literals import sql_values
from tests.clients.storage_options import daft_io_config
from tests.clients.warehouses import Warehouse

__all__ = ["WRITERS", "Writer"]

Writer = Callable[[Connections, Warehouse, str], list[samples.Row]]
"""Creates and fills the table of that name, `namespace.table`, and returns the rows that are in it then."""

_CHANGED_SCHEMA = samples.SCHEMA.append(pa.field("note", pa.string()))
_NEW_ROW = (*samples.NEW_ROW, "note of five")
_SQL_COLUMNS = (
    "id BIGINT, name {text}, amount DECIMAL(10, 2), ratio DOUBLE, flag BOOLEAN, day DATE,"
    " seen_at {timestamp}, tags {texts}"
)


def write_with_pyiceberg(connections: Connections, warehouse: Warehouse, name: str) -> list[samples.Row]:
    """Partitioned by day; rows change by copy-on-write."""
    catalog = connections.pyiceberg(warehouse)
    table = catalog.create_table(name, samples.SCHEMA)
    with table.update_spec() as update:
        update.add_field("seen_at", DayTransform(), "seen_day")
    table.append(samples.table_of(samples.FIRST_BATCH))
    table.append(samples.table_of(samples.SECOND_BATCH))
    changed = (2, "changed", *samples.FIRST_BATCH[1][2:])
    table.overwrite(samples.table_of([changed]), EqualTo("id", 2))
    table.delete(EqualTo("id", 1))
    with table.update_schema() as change:
        change.add_column("note", StringType())
    table.append(samples.table_of([_NEW_ROW], _CHANGED_SCHEMA))
    return samples.CHANGED


def write_with_duckdb(connections: Connections, warehouse: Warehouse, name: str) -> list[samples.Row]:
    """Rows change by position deletes."""
    connection = connections.duckdb(warehouse)
    columns = _SQL_COLUMNS.format(text="VARCHAR", timestamp="TIMESTAMP", texts="VARCHAR[]")
    connection.execute(f"CREATE TABLE lake.{name} ({columns})")
    for rows in (samples.FIRST_BATCH, samples.SECOND_BATCH):
        connection.execute(f"INSERT INTO lake.{name} VALUES {sql_values(rows)}")
    connection.execute(f"UPDATE lake.{name} SET name = 'changed' WHERE id = 2")
    connection.execute(f"DELETE FROM lake.{name} WHERE id = 1")
    connection.execute(f"ALTER TABLE lake.{name} ADD COLUMN note VARCHAR")
    connection.execute(f"INSERT INTO lake.{name} VALUES {sql_values([_NEW_ROW])}")
    return samples.CHANGED


def write_with_spark(connections: Connections, warehouse: Warehouse, name: str) -> list[samples.Row]:
    """Partitioned by day and bucket; rows change by position deletes."""
    partitions = "PARTITIONED BY (days(seen_at), bucket(4, id))"
    return _write_with_spark(connections, warehouse, name, partitions, format_version=2)


def write_with_spark_v3(connections: Connections, warehouse: Warehouse, name: str) -> list[samples.Row]:
    """Format version 3: rows change by deletion vectors and have a lineage."""
    return _write_with_spark(connections, warehouse, name, "", format_version=3)


def _write_with_spark(
    connections: Connections, warehouse: Warehouse, name: str, partitions: str, *, format_version: int
) -> list[samples.Row]:
    spark = connections.spark(warehouse)
    columns = _SQL_COLUMNS.format(text="STRING", timestamp="TIMESTAMP_NTZ", texts="ARRAY<STRING>")
    modes = ", ".join(f"'write.{kind}.mode' = 'merge-on-read'" for kind in ("delete", "update", "merge"))
    spark.sql(
        f"CREATE TABLE {name} ({columns}) USING iceberg {partitions}"
        f" TBLPROPERTIES ('format-version' = '{format_version}', {modes})"
    )
    for rows in (samples.FIRST_BATCH, samples.SECOND_BATCH):
        spark.sql(f"INSERT INTO {name} VALUES {sql_values(rows, array='array', time='TIMESTAMP_NTZ')}")
    spark.sql(f"UPDATE {name} SET name = 'changed' WHERE id = 2")
    spark.sql(f"DELETE FROM {name} WHERE id = 1")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN note STRING")
    spark.sql(f"INSERT INTO {name} VALUES {sql_values([_NEW_ROW], array='array', time='TIMESTAMP_NTZ')}")
    return samples.CHANGED


def write_with_clickhouse(connections: Connections, warehouse: Warehouse, name: str) -> list[samples.Row]:
    """Appends to a table that PyIceberg made: ClickHouse creates none in a catalog."""
    catalog = connections.pyiceberg(warehouse)
    catalog.create_table(name, samples.SCHEMA)
    source = catalog.create_table(f"{name}_source", samples.SCHEMA)
    source.append(samples.table_of(samples.APPENDED))
    clickhouse = connections.clickhouse(warehouse)
    for batch in ("id <= 2", "id > 2"):
        clickhouse.sql(f"INSERT INTO lake.`{name}` SELECT * FROM lake.`{name}_source` WHERE {batch}")
    return samples.APPENDED


def write_with_polars(connections: Connections, warehouse: Warehouse, name: str) -> list[samples.Row]:
    """Appends to a table that PyIceberg made."""
    import polars

    table = connections.pyiceberg(warehouse).create_table(name, samples.SCHEMA)
    for rows in (samples.FIRST_BATCH, samples.SECOND_BATCH):
        frame = polars.DataFrame(samples.table_of(rows))
        frame.write_iceberg(table, mode="append")
    return samples.APPENDED


def write_with_daft(connections: Connections, warehouse: Warehouse, name: str) -> list[samples.Row]:
    """Appends to a table that PyIceberg made."""
    import daft

    table = connections.pyiceberg(warehouse).create_table(name, samples.SCHEMA)
    for rows in (samples.FIRST_BATCH, samples.SECOND_BATCH):
        frame = daft.from_arrow(samples.table_of(rows))
        frame.write_iceberg(table, mode="append", io_config=daft_io_config(warehouse))
        table.refresh()
    return samples.APPENDED


WRITERS: dict[str, Writer] = {
    "pyiceberg": write_with_pyiceberg,
    "duckdb": write_with_duckdb,
    "spark": write_with_spark,
    "spark-v3": write_with_spark_v3,
    "clickhouse": write_with_clickhouse,
    "polars": write_with_polars,
    "daft": write_with_daft,
}
