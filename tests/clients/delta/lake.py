"""A service that has Delta tables registered, and how the engines read them there."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pyarrow as pa
from pyiceberg.table import Table

from tests.clients.connections import Connections
from tests.clients.delta.spark_rows import collected
from tests.clients.warehouses import Warehouse

__all__ = ["ENGINES", "DeltaLake", "DeltaWarehouse", "Reader", "sql_name", "table_name"]

# Compiling a statement takes longer than running it.
_FOR_FEW_ROWS = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}

_VIEW = "probed"

Reader = Callable[["DeltaLake", str, int | None], pa.Table]
"""Reads a table, named `namespace.table`, at a version; None is the newest one."""


class DeltaWarehouse(Warehouse, frozen=True):
    """A warehouse of these tests; the connections of clients go by its kind."""

    @property
    def kind(self) -> str:
        return "delta_s3" if self.s3 else "delta"


class DeltaLake:
    """A running service, where its Delta tables lie, and the clients' connections."""

    def __init__(self, warehouse: DeltaWarehouse, root: str, connections: Connections) -> None:
        self.warehouse = warehouse
        self.root = root.rstrip("/")
        self._connections = connections
        self.http = httpx.Client(base_url=warehouse.uri, timeout=120, headers={"x-client-version": "test"})
        self._namespaces: set[str] = set()

    def close(self) -> None:
        """Closes the clients' connections."""
        self.http.close()
        self._connections.close(self.warehouse)

    def create_namespace(self, name: str) -> str:
        """Makes sure that there is a namespace."""
        if name not in self._namespaces:
            body = {"namespace": [name]}
            answer = self.http.post(f"/v1/{self.warehouse.name}/namespaces", json=body)
            assert answer.status_code == 200, answer.text
            self._namespaces.add(name)
        return name

    def register(self, namespace: str, name: str, location: Path | str, **fields: Any) -> str:
        """Registers a Delta table and returns its name as `namespace.table`."""
        answer = self.register_answer(namespace, name, location, **fields)
        assert answer.is_success, answer.text
        return f"{namespace}.{name}"

    def register_answer(
        self, namespace: str, name: str, location: Path | str, **fields: Any
    ) -> httpx.Response:
        """The answer to a registration."""
        self.create_namespace(namespace)
        # Locations are not encoded.
        uri = f"file://{location}" if isinstance(location, Path) else location
        path = f"/management/v1/catalogs/{self.warehouse.name}/namespaces/{namespace}/tables"
        return self.http.post(path, json={"name": name, "format": "delta", "location": uri} | fields)

    def load_answer(self, table: str, **parameters: str) -> httpx.Response:
        """The answer to a load of a table."""
        namespace, _, name = table.partition(".")
        path = f"/v1/{self.warehouse.name}/namespaces/{namespace}/tables/{name}"
        return self.http.get(path, params=parameters)

    def metadata(self, table: str) -> dict[str, Any]:
        """The table's metadata as the service answers it."""
        answer = self.load_answer(table)
        assert answer.status_code == 200, answer.text
        metadata: dict[str, Any] = answer.json()["metadata"]
        return metadata

    def listed(self, namespace: str) -> set[str]:
        """The names of the tables of a namespace."""
        answer = self.http.get(f"/v1/{self.warehouse.name}/namespaces/{namespace}/tables")
        assert answer.status_code == 200, answer.text
        return {identifier["name"] for identifier in answer.json()["identifiers"]}

    def pyiceberg(self, table: str) -> Table:
        """The table as PyIceberg sees it."""
        return self._connections.pyiceberg(self.warehouse).load_table(table)

    def duckdb(self, statement: str) -> pa.Table:
        """The answer of DuckDB; the catalog is attached as `lake`."""
        connection = self._connections.duckdb(self.warehouse)
        try:
            return connection.execute(statement).to_arrow_table()
        except (duckdb.InternalException, duckdb.FatalException):
            # The database answers nothing afterwards.
            self._connections.close(self.warehouse)
            raise

    def spark(self, statement: str) -> pa.Table:
        """The answer of Spark, with the catalog as the current one."""
        catalog = self._connections.spark(self.warehouse)
        with warnings.catch_warnings():
            # PySpark leaves the socket of each answer to the garbage collector.
            warnings.simplefilter("ignore", ResourceWarning)
            catalog.session.catalog.setCurrentCatalog(catalog.name)
            with _settings(catalog.session, _FOR_FEW_ROWS):
                return collected(catalog.session.sql(statement))

    def spark_settings(self, values: Mapping[str, str]) -> AbstractContextManager[None]:
        """Sets options of Spark's session for a while."""
        return _settings(self._connections.spark(self.warehouse).session, values)

    @contextmanager
    def spark_view(self, table: str) -> Iterator[str]:
        """A temporary view of a table in Spark: statements that name it often load the table once."""
        catalog = self._connections.spark(self.warehouse)
        source = catalog.session.table(f"{catalog.name}.{sql_name(table, '`')}")
        source.createOrReplaceTempView(_VIEW)
        try:
            yield _VIEW
        finally:
            catalog.session.catalog.dropTempView(_VIEW)

    def java_table(self, table: str) -> tuple[Any, Any]:
        """The table in Iceberg's Java library, and the JVM in which that is."""
        catalog = self._connections.spark(self.warehouse)
        jvm: Any = catalog.session._jvm
        loader = jvm.org.apache.iceberg.spark.Spark3Util
        return jvm, loader.loadIcebergTable(catalog.session._jsparkSession, f"{catalog.name}.{table}")


@contextmanager
def _settings(session: Any, values: Mapping[str, str]) -> Iterator[None]:
    """Sets options of a session that other tests use too."""
    for key, value in values.items():
        session.conf.set(key, value)
    try:
        yield
    finally:
        for key in values:
            session.conf.unset(key)


def table_name(name: str) -> str:
    """The name under which a packed table is registered."""
    return re.sub(r"\W+", "_", name.removesuffix("/delta")).lower()


def sql_name(table: str, quote: str) -> str:
    """A name as `namespace.table` in SQL."""
    return ".".join(f"{quote}{part}{quote}" for part in table.split("."))


def _with_pyiceberg(lake: DeltaLake, table: str, version: int | None) -> pa.Table:
    found = lake.pyiceberg(table)
    if version == 0:
        return _first_version(found).scan().to_arrow()
    return found.scan(snapshot_id=version).to_arrow()


def _first_version(table: Table) -> Table:
    """PyIceberg takes the snapshot id 0 for none, and would read the newest version."""
    snapshot = table.snapshot_by_id(0)
    if snapshot is None:
        raise ValueError("Version 0 is not offered")
    then = {"current_snapshot_id": 0, "current_schema_id": snapshot.schema_id}
    metadata = table.metadata.model_copy(update=then)
    return Table(table.name(), metadata, table.metadata_location, table.io, table.catalog)


def _with_duckdb(lake: DeltaLake, table: str, version: int | None) -> pa.Table:
    at = "" if version is None else f" AT (VERSION => {version})"
    return lake.duckdb(f"SELECT * FROM lake.{sql_name(table, chr(34))}{at}")


def _with_spark(lake: DeltaLake, table: str, version: int | None) -> pa.Table:
    at = "" if version is None else f" VERSION AS OF {version}"
    return lake.spark(f"SELECT * FROM {sql_name(table, '`')}{at}")


ENGINES: dict[str, Reader] = {"pyiceberg": _with_pyiceberg, "duckdb": _with_duckdb, "spark": _with_spark}
"""What each engine reads."""
