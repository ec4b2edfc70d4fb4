"""Tables of other Iceberg REST catalogs, followed by a service: SeaweedFS's, and a second one of our own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from joserfc.jwk import RSAKey
from pyiceberg.catalog import Catalog, load_catalog

from tests.clients.connections import connect_pyiceberg
from tests.clients.warehouses import Warehouse
from tests.services.catalog import CatalogServer, running_catalog, s3_environment
from tests.services.identity_provider import IdentityProvider, identity_provider, oidc_environment
from tests.services.s3 import S3Server

ROWS = pa.table({"id": [1, 2, 3]})
HOSTS = {"FLOECAT_CONNECTORS_ALLOWED_HOSTS": "127.0.0.1"}


def managed(server: CatalogServer, method: str, path: str, body: Any = None) -> Any:
    url = f"{server.base_url}/management/v1/catalogs/floecat/connectors{path}"
    answer = httpx.request(method, url, json=body, timeout=120)
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None


def changes(server: CatalogServer) -> list[tuple[str, str]]:
    scanned = managed(server, "POST", "/theirs/scan")
    assert scanned["failed"] == []
    assert scanned["problem"] is None
    found = [("new", each) for each in scanned["registered"]]
    found += [(each["change"], each) for each in scanned["changed"]]
    return [(change, ".".join(each["identifier"]["namespace"])) for change, each in found]


def rows(catalog: Catalog, name: str) -> int:
    return catalog.load_table(name).scan().to_arrow().num_rows


@pytest.mark.s3
def test_the_catalog_of_seaweedfs(s3_server: S3Server, s3_bucket: str, tmp_path: Path) -> None:
    warehouse = s3_server.create_table_bucket()
    keys = (s3_server.access_key_id, s3_server.secret_access_key)
    storage = {
        "s3.endpoint": s3_server.endpoint,
        "s3.access-key-id": keys[0],
        "s3.secret-access-key": keys[1],
    }
    theirs = load_catalog(
        "theirs",
        type="rest",
        uri=s3_server.catalog_url,
        warehouse=warehouse,
        credential=":".join(keys),
        **{"oauth2-server-uri": f"{s3_server.catalog_url}/v1/oauth/tokens"},
        **storage,
    )
    theirs.create_namespace("data")
    table = theirs.create_table("data.t", schema=ROWS.schema)
    table.append(ROWS)
    own = s3_environment(s3_server.endpoint, s3_bucket, *keys)
    allowed = {"FLOECAT_STORAGE_ALLOWED_LOCATIONS": f"s3://{warehouse}"}
    with running_catalog(tmp_path / "here", own | allowed | HOSTS) as server:
        credentials = {
            "scheme": "oauth2",
            "token-endpoint": f"{s3_server.catalog_url}/v1/oauth/tokens",
            "client-id": keys[0],
            "client-secret": keys[1],
        }
        body = {
            "name": "theirs",
            "kind": "iceberg-rest",
            "location": s3_server.catalog_url,
            "options": {"warehouse": warehouse},
            "credentials": credentials,
        }
        made = managed(server, "POST", "", body)
        assert made["credentials"] == dict.fromkeys(credentials, "***") | {"scheme": "oauth2"}
        steps = managed(server, "POST", "/theirs/validate")["steps"]
        assert [step["what"] for step in steps] == [
            "answers, and takes the credentials",
            "lists tables, as data.t",
            "loads data.t",
            "its metadata lies where this catalog may read",
        ]
        assert all(step["problem"] is None for step in steps)
        assert changes(server) == [("new", "theirs.data")]
        here = load_catalog("here", type="rest", uri=server.base_url, warehouse="floecat", **storage)
        assert rows(here, "theirs.data.t") == 3
        assert changes(server) == []
        table.append(ROWS)
        assert changes(server) == [("changed", "theirs.data")]
        assert rows(here, "theirs.data.t") == 6
        managed(server, "POST", "/theirs", {"credentials": credentials | {"client-secret": "wrong"}})
        (step,) = managed(server, "POST", "/theirs/validate")["steps"]
        assert "refuses the credentials" in step["problem"]
        assert "wrong" not in step["problem"]
        assert keys[1] not in server.log.read_text()
        theirs.close()
        here.close()


@pytest.fixture(scope="module")
def key() -> RSAKey:
    """What the provider signs with."""
    return RSAKey.generate_key(2048)


@pytest.fixture(scope="module")
def provider(key: RSAKey) -> Iterator[IdentityProvider]:
    """The identity provider, whose tokens end at once: each scan needs a new one."""
    with identity_provider(key, lifetime_s=10) as made:
        yield made


def test_a_second_service_with_logins(key: RSAKey, provider: IdentityProvider, tmp_path: Path) -> None:
    allowed = {"FLOECAT_STORAGE_ALLOWED_LOCATIONS": (tmp_path / "there").as_uri()}
    with (
        running_catalog(tmp_path / "there", oidc_environment(key)) as there,
        running_catalog(tmp_path / "here", allowed | HOSTS) as here,
    ):
        login = {"credential": "me:hush", "oauth2-server-uri": provider.token_url}
        theirs = connect_pyiceberg(Warehouse(there), **login)
        theirs.create_namespace("a")
        theirs.create_namespace(("a", "b"))
        theirs.create_table(("a", "b", "t"), schema=ROWS.schema).append(ROWS)
        credentials = {
            "scheme": "oauth2",
            "token-endpoint": provider.token_url,
            "client-id": "me",
            "client-secret": "hush",
        }
        body = {
            "name": "theirs",
            "kind": "iceberg-rest",
            "location": there.base_url,
            "options": {"warehouse": "floecat"},
            "credentials": credentials,
        }
        managed(here, "POST", "", body)
        assert changes(here) == [("new", "theirs.a.b")]
        ours = connect_pyiceberg(Warehouse(here))
        assert rows(ours, "theirs.a.b.t") == 3
        provider.lifetime_s = 3600
        theirs.rename_table(("a", "b", "t"), ("a", "renamed"))
        assert changes(here) == [("renamed", "theirs.a")]
        assert rows(ours, "theirs.a.renamed") == 3
        assert changes(here) == []
        load = "GET /v1/floecat/namespaces/a/tables/renamed"
        answers = [line.partition(load)[2] for line in there.log.read_text().splitlines() if load in line]
        assert answers[-1].startswith(" 304")
        view = {
            "name": "v",
            "schema": {"type": "struct", "fields": []},
            "view-version": {
                "version-id": 1,
                "timestamp-ms": 1,
                "schema-id": 0,
                "summary": {},
                "default-namespace": ["a"],
                "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "of nobody"}],
            },
            "properties": {},
        }
        path = f"{there.base_url}/v1/floecat/namespaces/a/views"
        token = {"authorization": f"Bearer {provider.issued[-1]}"}
        httpx.post(path, json=view, headers=token, timeout=60).raise_for_status()
        assert changes(here) == [("new", "theirs.a")]
        assert [name for *_, name in ours.list_views("theirs.a")] == ["v"]
        # a connector to its own catalog
        managed(here, "POST", "", {"name": "own", "kind": "iceberg-rest", "location": here.base_url})
        (step,) = managed(here, "POST", "/own/validate")["steps"]
        assert "is this one: a connector cannot follow itself" in step["problem"]
        theirs.close()
        ours.close()
