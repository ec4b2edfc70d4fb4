"""Engines with logins of Keycloak and the settings of docs/login.md: rows come back, past the expiry too."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from tests.clients.connections import SparkCatalog, open_duckdb
from tests.clients.warehouses import Warehouse, unique
from tests.engines.client_flows import MORE, ORDERS, SCHEMA, properties_for, sorted_rows
from tests.engines.conftest import EngineReport
from tests.engines.flink_process import FlinkProcess
from tests.engines.keycloak.conftest import LEEWAY_S, MakeClient
from tests.engines.keycloak.logins import Login
from tests.engines.line_client import LineClient
from tests.engines.pages import blocks, properties
from tests.engines.spark.conftest import settings_of
from tests.engines.spark_process import SparkProcess
from tests.engines.trino.conftest import page_settings
from tests.engines.trino_server import TrinoServer, running_trino

_LIFETIME_S = 20
_LIFETIME_FOR_TRINO_S = 120
"""Each statement has a token of its own, which is not renewed."""


class Engine(NamedTuple):
    """An engine that is logged in."""

    run: Callable[[str], list[Any]]
    catalog: str
    schema: str = "SCHEMA"
    text: str = "VARCHAR"
    lifetime_s: int = _LIFETIME_S

    def rows(self, table: str) -> list[tuple[str, ...]]:
        """The rows as texts, in order."""
        return sorted(tuple(map(str, row)) for row in self.run(f"SELECT id, region FROM {table}"))


@pytest.fixture(scope="module")
def short(make_client: MakeClient) -> Login:
    """A client whose tokens end soon."""
    return make_client(access_token_lifespan=str(_LIFETIME_S))


def _wait_for_expiry(lifetime_s: int = _LIFETIME_S) -> None:
    """Until the service refuses every token that anybody has now."""
    time.sleep(lifetime_s + LEEWAY_S + 1)


def _pyiceberg(secured: Warehouse, login: Login) -> Any:
    settings = properties(login.of_page("yaml"))
    return load_catalog("floecat", type="rest", uri=secured.uri, warehouse=secured.name, **settings)


@pytest.fixture
def duckdb(secured: Warehouse, short: Login) -> Iterator[Engine]:
    statements = short.of_page("sql").replace("http://127.0.0.1:9200", secured.uri)
    with open_duckdb() as connection:
        connection.execute(statements)
        yield Engine(lambda sql: connection.execute(sql).fetchall(), "lake")


def _spark(session: SparkSession, secured: Warehouse, settings: dict[str, str]) -> Engine:
    chosen = {name.removeprefix("spark.sql.catalog.floecat."): value for name, value in settings.items()}
    catalog = SparkCatalog(session, secured, unique("floecat"), **chosen)
    return Engine(catalog.sql, catalog.name, text="STRING")


@pytest.fixture
def spark_engine(spark: SparkSession, secured: Warehouse, short: Login) -> Engine:
    return _spark(spark, secured, properties(short.of_page("properties")))


@pytest.fixture
def spark_4(secured: Warehouse, short: Login, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Spark 4.1, planned by the service."""
    login = properties(short.of_page("properties"))
    settings = {name.replace(".floecat.", ".server."): value for name, value in login.items()}
    with SparkProcess(tmp_path_factory.mktemp("spark-4"), settings_of(secured) | settings) as process:
        yield Engine(process.sql, "server", text="STRING")


@pytest.fixture
def flink(secured: Warehouse, short: Login, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    catalog = blocks("flink", "sql")[0].replace("http://127.0.0.1:9200", secured.uri)
    catalog = catalog.replace("\n);", f",\n{short.of_page('sql', 1)})")
    with FlinkProcess(tmp_path_factory.mktemp("flink"), {}) as process:
        process.sql(catalog)
        yield Engine(process.sql, "floecat", "DATABASE")


@pytest.fixture(scope="module")
def trino_server() -> Iterator[TrinoServer]:
    with running_trino() as server:
        yield server


@pytest.fixture
def trino(trino_server: TrinoServer, secured: Warehouse, make_client: MakeClient) -> Iterator[Engine]:
    login = make_client(access_token_lifespan=str(_LIFETIME_FOR_TRINO_S))
    trino_server.add_catalog(secured.name, page_settings(secured, login.placeholders))
    yield Engine(trino_server.run, secured.name, lifetime_s=_LIFETIME_FOR_TRINO_S)
    trino_server.remove_catalog(secured.name)


def test_pyiceberg(secured: Warehouse, short: Login, engine: EngineReport) -> None:
    catalog = _pyiceberg(secured, short)
    namespace = unique("pyiceberg")
    rows = pa.table({"id": [1, 2], "region": ["east", "west"]})
    with engine.step("PyIceberg: create, append, read"):
        catalog.create_namespace(namespace)
        table = catalog.create_table(f"{namespace}.orders", rows.schema)
        table.append(rows)
        assert table.scan().to_arrow() == rows
    for kind in ("read", "append"):
        _wait_for_expiry()
        with engine.step(f"PyIceberg: {kind} after the token has ended"):
            if kind == "append":
                table.append(rows)
            found = catalog.load_table(f"{namespace}.orders").scan().to_arrow().num_rows
            assert found == (4 if kind == "append" else 2)
    catalog.close()


@pytest.mark.parametrize("name", ["duckdb", "spark_engine", "spark_4", "flink", "trino"])
def test_rows_come_back(
    request: pytest.FixtureRequest, secured: Warehouse, short: Login, engine: EngineReport, name: str
) -> None:
    client: Engine = request.getfixturevalue(name)
    namespace = unique(name)
    table = f"{client.catalog}.{namespace}.orders"
    with engine.step(f"{name}: create, insert, select"):
        client.run(f"CREATE {client.schema} {client.catalog}.{namespace}")
        client.run(f"CREATE TABLE {table} (id INT, region {client.text})")
        client.run(f"INSERT INTO {table} VALUES (1, 'east'), (2, 'west')")
        assert client.rows(table) == [("1", "east"), ("2", "west")]
    _wait_for_expiry(client.lifetime_s)
    with engine.step(f"{name}: insert and select after the token has ended"):
        client.run(f"INSERT INTO {table} VALUES (3, 'south')")
        assert client.rows(table) == [("1", "east"), ("2", "west"), ("3", "south")]
    with engine.step(f"{name}: PyIceberg reads what it wrote"):
        catalog = _pyiceberg(secured, short)
        found = catalog.load_table(f"{namespace}.orders").scan().to_arrow().to_pylist()
        catalog.close()
        assert sorted(row["id"] for row in found) == [1, 2, 3]


def test_go(secured: Warehouse, short: Login, go_client: Path, engine: EngineReport) -> None:
    of_login = {
        "credential": f"{short.client_id}:{short.client_secret}",
        "oauth2-server-uri": short.token_url,
        "scope": "openid",
    }
    table = [unique("go"), "orders"]
    with LineClient(go_client, properties_for(secured) | of_login) as client:
        with engine.step("Go: create, append, read"):
            client.do("create namespace", namespace=table[:1], properties={})
            client.do("create table", table=table, schema=SCHEMA, properties={})
            client.do("append", table=table, rows=ORDERS)
            assert sorted_rows(client.do("read", table=table)) == ORDERS
        _wait_for_expiry()
        with engine.step("Go: append and read after the token has ended"):
            client.do("append", table=table, rows=MORE)
            assert sorted_rows(client.do("read", table=table)) == ORDERS + MORE


def test_exchange_of_tokens(
    spark: SparkSession, secured: Warehouse, short: Login, engine: EngineReport
) -> None:
    settings = properties(short.of_page("properties"))
    del settings["spark.sql.catalog.floecat.token-exchange-enabled"]
    client = _spark(spark, secured, settings)
    client.run("SHOW SCHEMAS")
    _wait_for_expiry()
    with engine.step("Spark that exchanges tokens gets none"), pytest.raises(Py4JJavaError) as refused:
        client.run("SHOW SCHEMAS")
    assert "The bearer token has expired" in str(refused.value)
