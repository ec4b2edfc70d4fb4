"""Engines that log in at a provider with nested claims, beside a cluster: names belong to their issuer."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote

import httpx
import pyarrow as pa
import pytest
import yaml
from joserfc import jwt
from joserfc.jwk import RSAKey
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import ForbiddenError, OAuthError
from pyspark.sql import SparkSession

from tests.clients.connections import SparkCatalog, open_duckdb
from tests.clients.warehouses import Warehouse, unique
from tests.engines.conftest import EngineReport
from tests.engines.oidc_provider.conftest import LEEWAY_S, LIFETIME_S, Provider
from tests.engines.pages import properties
from tests.services.token_issuer import Issuer

ROWS = pa.table({"id": [1, 2], "region": ["east", "west"]})
_READ = ["use_catalog", "use_schema", "read_table"]


def ask(secured: Warehouse, token: str, path: str, **body: Any) -> httpx.Response:
    """What the service answers to whoever sends this token; a POST if there is a body."""
    return httpx.request(
        "POST" if body else "GET",
        f"{secured.uri}/{path}",
        json=body or None,
        headers={"Authorization": f"Bearer {token}"},
        timeout=60,
    )


def grant(secured: Warehouse, provider: Provider, to: str, *privileges: str) -> None:
    """Has an operator grant something on the catalog."""
    on = f"catalog:{secured.name}"
    body = {"on": on, "grantee": to, "privileges": privileges}
    answer = ask(secured, provider.token("admin"), "management/v1/access/grants", **body)
    assert answer.is_success, answer.text


@pytest.fixture(scope="module", autouse=True)
def _grants(secured: Warehouse, provider: Provider) -> None:
    grant(secured, provider, "group:@corp/writers", *_READ, "create_schema")
    grant(secured, provider, "group:@corp/readers", *_READ)


def pyiceberg(secured: Warehouse, provider: Provider, client: str) -> Catalog:
    """PyIceberg with the settings of the page."""
    settings = yaml.safe_load(provider.login(client).of_page("yaml", 1))
    return load_catalog("floecat", type="rest", uri=secured.uri, warehouse=secured.name, **settings)


def test_pyiceberg_with_a_credential(secured: Warehouse, provider: Provider, engine: EngineReport) -> None:
    settings = properties(provider.login("reader").of_page("yaml"))
    catalog = load_catalog("floecat", type="rest", uri=secured.uri, warehouse=secured.name, **settings)
    with engine.step("PyIceberg by `credential`: read"):
        assert isinstance(catalog.list_namespaces(), list)
    time.sleep(LIFETIME_S + LEEWAY_S + 1)
    with (
        engine.step("PyIceberg by `credential` gets no further token"),
        pytest.raises(OAuthError, match="must only be provided using one mechanism"),
    ):
        catalog.list_namespaces()


def test_pyiceberg_by_client_credentials(
    secured: Warehouse, provider: Provider, engine: EngineReport
) -> None:
    writer, namespace = pyiceberg(secured, provider, "engine"), unique("pyiceberg")
    with engine.step("PyIceberg: create, append, read"):
        writer.create_namespace(namespace)
        table = writer.create_table(f"{namespace}.orders", ROWS.schema)
        table.append(ROWS)
        assert table.scan().to_arrow() == ROWS
    with engine.step("PyIceberg: another role reads, and does not write"):
        reader = pyiceberg(secured, provider, "reader").load_table(f"{namespace}.orders")
        assert reader.scan().to_arrow() == ROWS
        with pytest.raises(ForbiddenError, match="@corp/reader does not have the privilege write_table"):
            reader.append(ROWS)
    time.sleep(LIFETIME_S + LEEWAY_S + 1)
    with engine.step("PyIceberg: append after the token has ended"):
        table.append(ROWS)
        assert table.scan().to_arrow().num_rows == 4


def test_duckdb(secured: Warehouse, provider: Provider, engine: EngineReport) -> None:
    login = provider.login("engine").of_page("sql").replace("http://127.0.0.1:9200", secured.uri)
    namespace = unique("duckdb")
    with engine.step("DuckDB: create, insert, select"), open_duckdb() as connection:
        connection.execute(login)
        connection.execute(f"CREATE SCHEMA lake.{namespace}")
        connection.execute(f"CREATE TABLE lake.{namespace}.orders (id INT, region VARCHAR)")
        connection.execute(f"INSERT INTO lake.{namespace}.orders VALUES (1, 'east'), (2, 'west')")
        found = connection.execute(f"SELECT count(*) FROM lake.{namespace}.orders").fetchone()
        assert found == (2,)


def test_spark(spark: SparkSession, secured: Warehouse, provider: Provider, engine: EngineReport) -> None:
    settings = properties(provider.login("engine").of_page("properties"))
    chosen = {name.removeprefix("spark.sql.catalog.floecat."): value for name, value in settings.items()}
    catalog = SparkCatalog(spark, secured, unique("floecat"), **chosen)
    table = f"{catalog.name}.{unique('spark')}.orders"
    with engine.step("Spark 3.5, the Java client: create, insert, select"):
        catalog.sql(f"CREATE SCHEMA {table.rpartition('.')[0]}")
        catalog.sql(f"CREATE TABLE {table} (id INT, region STRING)")
        catalog.sql(f"INSERT INTO {table} VALUES (1, 'east'), (2, 'west')")
        assert len(catalog.sql(f"SELECT * FROM {table}")) == 2
    time.sleep(LIFETIME_S + LEEWAY_S + 1)
    with engine.step("Spark: insert after the token has ended"):
        catalog.sql(f"INSERT INTO {table} VALUES (3, 'south')")
        assert len(catalog.sql(f"SELECT * FROM {table}")) == 3


def test_exchange_of_tokens(secured: Warehouse, provider: Provider, engine: EngineReport) -> None:
    foreign = provider.token("engine", resource="urn:other")
    with engine.step("A token for another service is refused, and exchanged for one that is not"):
        refused = ask(secured, foreign, "v1/config")
        assert refused.status_code == 401
        assert "'aud' of the bearer token is not accepted: it is 'other'" in refused.text
        exchanged = provider.exchange("engine", foreign)
        catalog = load_catalog(
            "floecat", type="rest", uri=secured.uri, warehouse=secured.name, token=exchanged
        )
        catalog.create_namespace(unique("exchanged"))


def test_a_cluster_beside_the_provider(
    secured: Warehouse, provider: Provider, cluster: Issuer, engine: EngineReport
) -> None:
    key, account = RSAKey.generate_key(2048, {"kid": "cluster"}), "system:serviceaccount:jobs:nightly"
    cluster.publish(key)
    claims = {
        "iss": cluster.url,
        "sub": account,
        "aud": ["lake", "https://kubernetes.default.svc"],
        "exp": int(time.time()) + 600,
        "kubernetes.io": {"namespace": "jobs", "serviceaccount": {"name": "nightly"}},
    }
    token = jwt.encode({"alg": "RS256", "kid": "cluster"}, claims, key)
    with engine.step("A service account is granted something by its namespace"):
        assert ask(secured, token, "v1/config").status_code == 403
        grant(secured, provider, "group:@k8s/jobs", *_READ)
        assert ask(secured, token, "v1/config").json()["defaults"].keys() == {"prefix", "oauth2-server-uri"}
        assert ask(secured, token, "management/v1/access/me").json()["principal"] == f"@k8s/{account}"
    with engine.step("Its first login made a row, by which it is disabled"):
        path = f"management/v1/principals/{quote(f'@k8s/{account}', safe='')}"
        operator = provider.token("admin")
        assert ask(secured, operator, path).json()["name"] == f"@k8s/{account}"
        assert ask(secured, operator, path, disabled=True).is_success
        refused = ask(secured, token, "v1/config")
        assert (refused.status_code, refused.json()["error"]["message"]) == (
            403,
            f"Principal @k8s/{account} is disabled",
        )
    with engine.step("A cluster that is away stops nobody else"):
        cluster.broken = True
        assert ask(secured, provider.token("reader"), "v1/config").status_code == 200
        assert httpx.get(f"{secured.uri}/health/ready").status_code == 200


def test_rotation(secured: Warehouse, provider: Provider, engine: EngineReport) -> None:
    before = provider.token("reader")
    assert ask(secured, before, "v1/config").status_code == 200
    provider.stop()
    with engine.step("Known keys serve on while the provider is away"):
        assert ask(secured, before, "v1/config").status_code == 200
    provider.start("second")
    with engine.step("A new key is found when a token names it"):
        token, deadline_s = provider.token("reader"), time.monotonic() + 60
        while (answer := ask(secured, token, "v1/config")).status_code == 503:
            assert time.monotonic() < deadline_s
            time.sleep(int(answer.headers["Retry-After"]))
            token = provider.token("reader")
        assert answer.status_code == 200
