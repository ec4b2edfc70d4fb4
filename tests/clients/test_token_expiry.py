"""Clients outlive their tokens (case O25): the identity provider gives them new ones, not the catalog.

Iceberg's Java client asks anew some time before a token ends. PyIceberg asks when the catalog answers 401.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import httpx
import pytest
from joserfc.jwk import RSAKey
from py4j.java_gateway import JavaGateway

from tests.clients.connections import connect_pyiceberg
from tests.clients.kit.java import Iceberg
from tests.clients.warehouses import Warehouse
from tests.services.catalog import running_catalog
from tests.services.identity_provider import IdentityProvider, identity_provider, oidc_environment

_PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def key() -> RSAKey:
    """What the provider signs with."""
    return RSAKey.generate_key(2048)


@pytest.fixture
def provider(key: RSAKey) -> Iterator[IdentityProvider]:
    """The identity provider."""

    with identity_provider(key, lifetime_s=5) as made:
        yield made


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, key: RSAKey) -> Iterator[Warehouse]:
    """A service that believes the provider, and for two seconds more: a machine with much to do is late."""
    with running_catalog(tmp_path_factory.mktemp("secured"), oidc_environment(key)) as server:
        yield Warehouse(server)


def _use_past_expiry(secured: Warehouse, provider: IdentityProvider, use: Callable[[], object]) -> int:
    """Calls until the token that the client has is refused, and once more; returns how many it got then.

    The next ones last: on a busy machine, they could end before they are used.
    """
    use()
    provider.lifetime_s = 3600
    before = len(provider.issued)
    first = {"authorization": f"Bearer {provider.issued[-1]}"}
    deadline = time.monotonic() + _PATIENCE_S
    while httpx.get(f"{secured.uri}/v1/config", headers=first, timeout=60).status_code == 200:
        assert time.monotonic() < deadline
        use()
        time.sleep(0.1)
    use()
    return len(provider.issued) - before


def test_java(iceberg_java: JavaGateway, secured: Warehouse, provider: IdentityProvider) -> None:
    iceberg = Iceberg(iceberg_java)
    catalog = iceberg.catalog(
        secured,
        credential="me:hush",
        oauth2_server_uri=provider.token_url,
        token_exchange_enabled="false",
    )
    catalog.createNamespace(iceberg.namespace("java"))
    identifier = iceberg.identifier("java", "t")
    catalog.createTable(identifier, iceberg.schema())
    assert _use_past_expiry(secured, provider, lambda: catalog.loadTable(identifier)) >= 1
    catalog.close()


def test_pyiceberg(secured: Warehouse, provider: IdentityProvider) -> None:
    settings = {"credential": "me:hush", "oauth2-server-uri": provider.token_url}
    catalog = connect_pyiceberg(secured, **settings)
    catalog.create_namespace("py")
    # Only a 401 makes it ask.
    assert _use_past_expiry(secured, provider, lambda: catalog.load_namespace_properties("py")) == 1
    catalog.close()
