"""How each client connects to a warehouse: the settings of docs/clients/, as code."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyspark.sql import SparkSession

from tests.clients.warehouses import Warehouse
from tests.services.s3 import S3Server
from tests.services.spark import add_rest_catalog

__all__ = ["ClickHouse", "Connections", "SparkCatalog", "connect_duckdb", "connect_pyiceberg", "open_duckdb"]

_DUCKDB_EXTENSIONS = ("httpfs", "aws", "avro", "iceberg")


def connect_pyiceberg(warehouse: Warehouse, **properties: str) -> RestCatalog:
    """A catalog of PyIceberg."""
    catalog = load_catalog(
        warehouse.kind,
        type="rest",
        uri=warehouse.uri,
        warehouse=warehouse.name,
        **warehouse.access_keys,
        **properties,
    )
    assert isinstance(catalog, RestCatalog)
    return catalog


def open_duckdb() -> duckdb.DuckDBPyConnection:
    """A connection of DuckDB with the extensions that it needs."""
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false", "threads": "2"})
    for name in _DUCKDB_EXTENSIONS:
        [extension] = Path(str(files(f"duckdb_extension_{name}"))).rglob("*.duckdb_extension")
        connection.execute(f"LOAD '{extension}'")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def connect_duckdb(warehouse: Warehouse, *attach_options: str) -> duckdb.DuckDBPyConnection:
    """A connection of DuckDB that has the warehouse attached as `lake`."""
    connection = open_duckdb()
    options = ["TYPE iceberg", f"ENDPOINT '{warehouse.uri}'", "AUTHORIZATION_TYPE 'none'", *attach_options]
    if warehouse.s3 is not None and not warehouse.vends:
        connection.execute(_duckdb_secret(warehouse.s3))
        options.append("ACCESS_DELEGATION_MODE 'none'")
    connection.execute(f"ATTACH '{warehouse.name}' AS lake ({', '.join(options)})")
    return connection


def _duckdb_secret(s3: S3Server) -> str:
    endpoint = s3.endpoint.removeprefix("http://")
    return (
        f"CREATE SECRET (TYPE s3, KEY_ID '{s3.access_key_id}', SECRET '{s3.secret_access_key}',"
        f" REGION '{s3.region}', ENDPOINT '{endpoint}', URL_STYLE 'path', USE_SSL false)"
    )


class SparkCatalog:
    """A warehouse as a catalog of a Spark session."""

    def __init__(
        self, session: SparkSession, warehouse: Warehouse, name: str = "", **properties: str
    ) -> None:
        """Adds it under the kind of the warehouse, unless it gets a name; `_` in properties is `-`."""
        settings = {"uri": warehouse.uri, "warehouse": warehouse.name, **warehouse.access_keys}
        if warehouse.s3 is not None:
            settings["io-impl"] = "org.apache.iceberg.aws.s3.S3FileIO"
        if warehouse.vends:
            settings["header.X-Iceberg-Access-Delegation"] = "vended-credentials"
        settings |= {key.replace("_", "-"): value for key, value in properties.items()}
        self.session = session
        self.name = name or warehouse.kind
        add_rest_catalog(session, self.name, settings)

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Runs a statement, with this catalog as the current one, and returns its rows."""
        with warnings.catch_warnings():
            # PySpark leaves the socket of each answer to the garbage collector.
            warnings.simplefilter("ignore", ResourceWarning)
            self.session.catalog.setCurrentCatalog(self.name)
            return [tuple(row) for row in self.session.sql(statement).collect()]


class ClickHouse:
    """ClickHouse in this process, which allows one of it, with a warehouse on S3 as the database `lake`."""

    def __init__(self, warehouse: Warehouse, folder: Path) -> None:
        from chdb.session import Session

        if warehouse.s3 is None:
            raise ValueError("ClickHouse reads tables on object storage only")
        self._session = Session(str(folder))
        arguments = [f"{warehouse.uri}/v1"]
        if not warehouse.vends:
            arguments += [warehouse.s3.access_key_id, warehouse.s3.secret_access_key]
        self.sql(
            f"CREATE DATABASE lake ENGINE = DataLakeCatalog({', '.join(map(repr, arguments))})"
            f" SETTINGS catalog_type = 'rest', warehouse = '{warehouse.name}',"
            f" vended_credentials = {int(warehouse.vends)},"
            f" storage_endpoint = '{warehouse.s3.endpoint}/{warehouse.bucket}'"
        )

    def sql(self, statement: str) -> None:
        """Runs a statement that answers nothing."""
        self._query(statement, "Null")

    def select(self, statement: str) -> pa.Table:
        """Runs a query."""
        return pa.ipc.open_file(self._query(statement, "Arrow")).read_all()

    def close(self) -> None:
        """Ends it, with all that it keeps."""
        self._session.close()

    def _query(self, statement: str, output: str) -> bytes:
        switches = "SET allow_database_iceberg = 1, allow_insert_into_iceberg = 1; "
        answer: bytes = self._session.query(switches + statement, output).bytes()
        return answer


class Connections:
    """One connection of each client to each warehouse, made when it is first asked for."""

    def __init__(self, start_spark: Callable[[], SparkSession], folder: Path) -> None:
        self._start_spark = start_spark
        self._folder = folder
        self._made: dict[tuple[str, str], Any] = {}

    def pyiceberg(self, warehouse: Warehouse) -> RestCatalog:
        """PyIceberg."""
        made: RestCatalog = self._once("pyiceberg", warehouse, lambda: connect_pyiceberg(warehouse))
        return made

    def planned(self, warehouse: Warehouse) -> RestCatalog:
        """PyIceberg that has its scans planned by the service."""
        made: RestCatalog = self._once(
            "planned", warehouse, lambda: connect_pyiceberg(warehouse, **{"scan-planning-mode": "server"})
        )
        return made

    def duckdb(self, warehouse: Warehouse) -> duckdb.DuckDBPyConnection:
        """DuckDB."""
        made: duckdb.DuckDBPyConnection = self._once("duckdb", warehouse, lambda: connect_duckdb(warehouse))
        return made

    def spark(self, warehouse: Warehouse) -> SparkCatalog:
        """Spark; the session is one for all warehouses."""
        made: SparkCatalog = self._once(
            "spark", warehouse, lambda: SparkCatalog(self._start_spark(), warehouse)
        )
        return made

    def clickhouse(self, warehouse: Warehouse) -> ClickHouse:
        """ClickHouse."""
        made: ClickHouse = self._once(
            "clickhouse", warehouse, lambda: ClickHouse(warehouse, self._folder / "clickhouse")
        )
        return made

    def close(self, warehouse: Warehouse) -> None:
        """Closes those to a warehouse, while it still runs: some clients ask it a last time."""
        for client, kind in list(self._made):
            if kind == warehouse.kind:
                made = self._made.pop((client, kind))
                if client != "spark":
                    made.close()

    def _once(self, client: str, warehouse: Warehouse, connect: Callable[[], Any]) -> Any:
        key = (client, warehouse.kind)
        if key not in self._made:
            self._made[key] = connect()
        return self._made[key]
