"""Keycloak rotates its keys, also while nobody can fetch them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx
import pytest

from tests.clients.warehouses import unique
from tests.engines.conftest import EngineReport
from tests.engines.keycloak.conftest import CREDENTIAL, RunService, ask
from tests.engines.keycloak.keycloak_server import KeycloakServer
from tests.services.catalog import CatalogServer

_REFRESH_S = 2
_PATIENCE_S = 60.0
_PROVIDER = "org.keycloak.keys.KeyProvider"


@pytest.fixture(scope="module")
def server(keycloak: KeycloakServer, other_realm: str, run_service: RunService) -> Iterator[CatalogServer]:
    """A service for the other realm, which looks at its keys often."""
    refresh = str(_REFRESH_S)
    issuer = keycloak.issuer(other_realm)
    with run_service(FLOECAT_OIDC_KEYS_REFRESH_S=refresh, FLOECAT_OIDC_ISSUER=issuer) as made:
        yield made


class Realm:
    """The keys of a realm."""

    def __init__(self, keycloak: KeycloakServer, name: str) -> None:
        self._keycloak = keycloak
        self._name = name
        self._priority = 100

    def token(self) -> str:
        """A new one, of the newest key."""
        token: str = self._keycloak.tokens(*CREDENTIAL, realm=self._name)["access_token"]
        return token

    def rotate(self) -> None:
        """Signs with a new key from now on; those before stay valid."""
        self._priority += 1
        config = {"priority": [str(self._priority)], "algorithm": ["RS256"]}
        key = {"name": unique("key"), "providerId": "rsa-generated", "providerType": _PROVIDER}
        self._keycloak.administer("POST", f"{self._name}/components", key | {"config": config})

    def withdraw(self) -> None:
        """Withdraws all keys for signatures of RSA but the newest."""
        found = self._keycloak.administer("GET", f"{self._name}/components?type={_PROVIDER}")
        for key in found:
            if key["providerId"] == "rsa-generated" and key["config"]["priority"] != [str(self._priority)]:
                self._keycloak.administer("DELETE", f"{self._name}/components/{key['id']}")


@pytest.fixture(scope="module")
def realm(keycloak: KeycloakServer, other_realm: str) -> Realm:
    return Realm(keycloak, other_realm)


def _wait_for(server: CatalogServer, token: str, status: int) -> httpx.Response:
    """Asks until this is the answer; a client that was told to come again does so."""
    deadline = time.monotonic() + _PATIENCE_S
    while (answer := ask(server, token)).status_code != status and time.monotonic() < deadline:
        time.sleep(0.2)
    assert answer.status_code == status, answer.text
    return answer


def test_rotated_keys(realm: Realm, server: CatalogServer, engine: EngineReport) -> None:
    old, unused = realm.token(), realm.token()
    assert ask(server, old).status_code == 200
    realm.rotate()
    with engine.step("a token of a new key is taken, at the latest after the pause that 503 names"):
        new = realm.token()
        assert new.partition(".")[0] != old.partition(".")[0]
        answer = ask(server, new)
        if answer.status_code == 503:
            time.sleep(int(answer.headers["retry-after"]))
            answer = ask(server, new)
        assert answer.status_code == 200, answer.text
    with engine.step("tokens of the key before are taken"):
        assert ask(server, old).status_code == 200
    with engine.step("tokens of a withdrawn key are refused"):
        realm.withdraw()
        time.sleep(_REFRESH_S)
        message = _wait_for(server, unused, 401).json()["error"]["message"]
        assert "The issuer has no key" in message


def test_keys_rotated_before_keycloak_is_away(
    keycloak: KeycloakServer, realm: Realm, server: CatalogServer, engine: EngineReport
) -> None:
    known = realm.token()
    assert _wait_for(server, known, 200)
    realm.rotate()
    new = realm.token()
    keycloak.stop()
    try:
        with engine.step("away: a token of a key that nobody could fetch is 503 with Retry-After"):
            time.sleep(_REFRESH_S)
            for _ in range(3):
                answer = ask(server, new)
                assert answer.status_code == 503, answer.text
                assert int(answer.headers["retry-after"]) >= 1
        with engine.step("away: a token of a known key is taken"):
            assert ask(server, known).status_code == 200
        with engine.step("away: the service stays ready"):
            assert httpx.get(f"{server.base_url}/health/ready", timeout=60).status_code == 200
    finally:
        keycloak.start()
    with engine.step("back: the same token is taken"):
        _wait_for(server, new, 200)
