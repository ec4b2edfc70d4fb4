"""Clients outlive their tokens (case O25): the identity provider gives them new ones, not the catalog.

Iceberg's Java client asks anew some time before a token ends. PyIceberg asks when the catalog answers 401.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from urllib.parse import parse_qs

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey
from py4j.java_gateway import JavaGateway

from tests.clients.connections import connect_pyiceberg
from tests.clients.kit.java import Iceberg
from tests.clients.warehouses import Warehouse
from tests.services.catalog import running_catalog
from tests.services.http_server import QuietHandler, serving

_ACCOUNT = "5eaa9cd5-7d08-3750-9457-cfe800b0b9d2"
_ISSUER = "https://issuer.example"
_PATIENCE_S = 60.0


class Provider:
    """An identity provider that gives tokens of a few seconds to a client with the right secret."""

    def __init__(self, key: RSAKey, url: str) -> None:
        self._key = key
        self.token_url = f"{url}/token"
        self.issued: list[str] = []

    def answer(self, form: dict[str, list[str]]) -> tuple[int, dict[str, object]]:
        """What the token endpoint says."""
        wanted = {"grant_type": ["client_credentials"], "client_id": ["me"], "client_secret": ["hush"]}
        if not wanted.items() <= form.items():
            return 400, {"error": "invalid_request"}
        claims = {"iss": _ISSUER, "sub": "me", "account_id": _ACCOUNT, "exp": int(time.time()) + 2}
        self.issued.append(jwt.encode({"alg": "RS256"}, claims, self._key))
        return 200, {"access_token": self.issued[-1], "token_type": "bearer", "expires_in": 2}


@pytest.fixture(scope="module")
def key() -> RSAKey:
    """What the provider signs with."""
    return RSAKey.generate_key(2048)


@pytest.fixture
def provider(key: RSAKey) -> Iterator[Provider]:
    """The identity provider."""

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            status, body = made.answer(parse_qs(self.rfile.read(length).decode()))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

    with serving(Handler) as url:
        made = Provider(key, url)
        yield made


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, key: RSAKey) -> Iterator[Warehouse]:
    """A service that believes the provider, and for two seconds more: a machine with much to do is late."""
    environment = {
        "FLOECAT_GATEWAY_AUTH_MODE": "oidc",
        "FLOECAT_GATEWAY_DEFAULT_ACCOUNT_ID": _ACCOUNT,
        "FLOECAT_OIDC_PUBLIC_KEY": key.as_pem(private=False).decode(),
        "FLOECAT_OIDC_ISSUER": _ISSUER,
        "FLOECAT_OIDC_LEEWAY_S": "2",
    }
    with running_catalog(tmp_path_factory.mktemp("secured"), environment) as server:
        yield Warehouse(server)


def _use_past_expiry(secured: Warehouse, provider: Provider, use: Callable[[], object]) -> int:
    """Calls until the token that the client has is refused, and once more; returns how many it got then."""
    use()
    before = len(provider.issued)
    first = {"authorization": f"Bearer {provider.issued[-1]}"}
    deadline = time.monotonic() + _PATIENCE_S
    while httpx.get(f"{secured.uri}/v1/config", headers=first).status_code == 200:
        assert time.monotonic() < deadline
        use()
        time.sleep(0.1)
    use()
    return len(provider.issued) - before


def test_java(iceberg_java: JavaGateway, secured: Warehouse, provider: Provider) -> None:
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


def test_pyiceberg(secured: Warehouse, provider: Provider) -> None:
    settings = {"credential": "me:hush", "oauth2-server-uri": provider.token_url}
    catalog = connect_pyiceberg(secured, **settings)
    catalog.create_namespace("py")
    # Only a 401 makes it ask.
    assert _use_past_expiry(secured, provider, lambda: catalog.load_namespace_properties("py")) == 1
    catalog.close()
