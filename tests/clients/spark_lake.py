"""A namespace in Spark, for tests that look at its tables from several sides."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from pyiceberg.table import Table

from tests.clients.connections import Connections
from tests.clients.warehouses import Warehouse, unique

__all__ = ["Lake", "new_lake"]

_HOUR_S = 3_600


class Lake:
    """A namespace in Spark."""

    def __init__(self, connections: Connections, warehouse: Warehouse, ns: str) -> None:
        self.catalog = connections.spark(warehouse)
        self.others = connections.pyiceberg(warehouse)
        self.warehouse = warehouse
        self.ns = ns
        self.catalog.sql(f"CREATE NAMESPACE {ns}")

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Runs a statement in which `{ns}` is the namespace."""
        return self.catalog.sql(statement.replace("{ns}", self.ns))

    def call(self, procedure: str, arguments: str) -> tuple[Any, ...]:
        """Calls a procedure that answers one row."""
        [row] = self.rows_of(procedure, arguments)
        return row

    def rows_of(self, procedure: str, arguments: str) -> list[tuple[Any, ...]]:
        """Calls a procedure."""
        return self.sql(f"CALL {self.catalog.name}.system.{procedure}({arguments})")

    def ids(self, relation: str) -> list[int]:
        """The column `id`, sorted."""
        return sorted(row[0] for row in self.sql(f"SELECT id FROM {relation}"))

    def location(self, table: str) -> str:
        """Where a table is, as its metadata says."""
        [(file,)] = self.sql(
            f"SELECT file FROM {{ns}}.{table}.metadata_log_entries ORDER BY timestamp DESC LIMIT 1"
        )
        return str(file).rpartition("/metadata/")[0]

    def load(self, table: str) -> Table:
        """A table as PyIceberg loads it, for what Spark does not show."""
        return self.others.load_table(f"{self.ns}.{table}")

    def remove_orphans(
        self, table: str, location: str, equal_schemes: Mapping[str, str] | None = None
    ) -> list[str]:
        """Deletes the files below a location that the table does not know, of any age, and returns them.

        The procedure refuses files younger than a day, and on S3 nobody can make a file older. Its message
        names this action for the case.
        """
        session: Any = self.catalog.session
        iceberg = session._jvm.org.apache.iceberg.spark
        name = f"{self.catalog.name}.{self.ns}.{table}"
        action = (
            iceberg.actions.SparkActions.get(session._jsparkSession)
            .deleteOrphanFiles(iceberg.Spark3Util.loadIcebergTable(session._jsparkSession, name))
            .location(location)
            .olderThan((int(time.time()) + _HOUR_S) * 1000)
            .usePrefixListing(True)
        )
        if equal_schemes is not None:
            schemes = session._jvm.java.util.HashMap()
            for scheme, like in equal_schemes.items():
                schemes.put(scheme, like)
            action = action.equalSchemes(schemes)
        return sorted(str(found) for found in action.execute().orphanFileLocations())


def new_lake(connections: Connections, warehouse: Warehouse) -> Lake:
    """A new namespace."""
    return Lake(connections, warehouse, unique("spark"))
