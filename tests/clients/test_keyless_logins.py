"""Clients that hold nothing but a login: rights decide what the keys open that the catalog gives them."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pyarrow as pa
import pytest
from joserfc.jwk import RSAKey
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import ForbiddenError

from tests.clients.connections import connect_pyiceberg, open_duckdb
from tests.clients.warehouses import Warehouse
from tests.services.authorities import prepare_authority
from tests.services.catalog import CatalogServer, s3_environment
from tests.services.identity_provider import identity_provider, oidc_environment, signed_token
from tests.services.misuse import KeyThief
from tests.services.s3 import S3Server

pytestmark = pytest.mark.s3

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
READS = ["use_catalog", "use_schema", "read_table"]
WRITES = [*READS, "create_schema", "create_table", "write_table"]


@pytest.fixture(scope="module")
def key() -> RSAKey:
    return RSAKey.generate_key(2048)


@pytest.fixture(scope="module")
def secured(
    tmp_path_factory: pytest.TempPathFactory, s3_server: S3Server, key: RSAKey
) -> Iterator[Warehouse]:
    """A service with logins, whose authority makes the keys of its clients."""
    bucket = s3_server.create_bucket()
    rights = {"FLOECAT_AUTH_AUTHORIZER": "grants", "FLOECAT_AUTH_OPERATORS": "platform"}
    environment = oidc_environment(key) | rights
    environment |= s3_environment(
        s3_server.endpoint, bucket, s3_server.access_key_id, s3_server.secret_access_key
    )
    folder = tmp_path_factory.mktemp("keyless-logins")
    prepare_authority(folder, environment, s3_server, f"s3://{bucket}/warehouse")
    server = CatalogServer(folder, environment).start()
    admin = {"Authorization": f"Bearer {signed_token(key, 'admin', 'platform')}"}
    for grantee, privileges in (("principal:me", READS), ("group:writers", WRITES)):
        body = {"on": "catalog:floecat", "grantee": grantee, "privileges": privileges}
        url = f"{server.base_url}/management/v1/access/grants"
        httpx.post(url, json=body, headers=admin, timeout=60).raise_for_status()
    yield Warehouse(server, s3_server, bucket, vends=True)
    server.stop()


def keys_of(catalog: RestCatalog) -> tuple[dict[str, str], str]:
    """The keys to the table that a client has, and the location that they are for."""
    table = catalog.load_table("n.t")
    return {name: str(value) for name, value in table.io.properties.items()}, table.location()


def test_who_may_write_gets_keys_that_write_and_who_may_read_gets_keys_that_read(
    secured: Warehouse, key: RSAKey
) -> None:
    assert secured.s3 is not None
    writer = connect_pyiceberg(secured, token=signed_token(key, "wanda", "writers"))
    writer.create_namespace("n")
    writer.create_table("n.t", ROWS.schema).append(ROWS)
    with identity_provider(key, 3600) as provider:
        login = {"credential": "me:hush", "oauth2-server-uri": provider.token_url}
        reader = connect_pyiceberg(secured, **login)
        assert reader.load_table("n.t").scan().to_arrow()["id"].to_pylist() == [1, 2, 3]
        with pytest.raises(OSError, match=r"(?i)denied"):
            reader.load_table("n.t").append(ROWS)
        with pytest.raises(ForbiddenError, match="create_table"):
            reader.create_table("n.made", ROWS.schema)
        duckdb = open_duckdb()
        duckdb.execute(f"CREATE SECRET (TYPE iceberg, TOKEN '{provider.token(3600)}')")
        duckdb.execute(f"ATTACH 'floecat' AS lake (TYPE iceberg, ENDPOINT '{secured.uri}')")
        assert duckdb.execute("SELECT id FROM lake.n.t ORDER BY id").fetchall() == [(1,), (2,), (3,)]
        duckdb.close()
        config, location = keys_of(reader)
        assert KeyThief(secured.s3, config, location).refused(may_write=False) == {}
    config, location = keys_of(writer)
    assert KeyThief(secured.s3, config, location).refused(may_write=True) == {}
    writer.load_table("n.t").append(ROWS)
    with pytest.raises(ForbiddenError, match="use_catalog"):
        connect_pyiceberg(secured, token=signed_token(key, "nina"))
