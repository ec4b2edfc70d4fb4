"""Keycloak with the realm of the smoke deployment, and a service that believes it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.clients.warehouses import Warehouse, unique
from tests.engines.conftest import EngineReport
from tests.engines.go.test_go import go_client
from tests.engines.keycloak.keycloak_server import REALM_FILE, RELEASE, KeycloakServer, running_keycloak
from tests.engines.keycloak.logins import Login
from tests.services.catalog import CatalogServer, running_catalog
from tests.services.spark import spark

__all__ = ["CREDENTIAL", "LEEWAY_S", "MakeClient", "RunService", "ask", "go_client", "spark"]

LEEWAY_S = 5
_CLIENT = json.loads(REALM_FILE.read_text())["clients"][0]
CREDENTIAL = _CLIENT["clientId"], _CLIENT["secret"]
"""Of the client of the realm's file."""

MakeClient = Callable[..., Login]
RunService = Callable[..., AbstractContextManager[CatalogServer]]


def ask(server: CatalogServer, token: str) -> httpx.Response:
    """What the service answers to whoever sends this token."""
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.get(f"{server.base_url}/v1/config", headers=headers, timeout=60)


@pytest.fixture(autouse=True)
def _version(engine: EngineReport) -> None:
    engine.version = RELEASE


@pytest.fixture(scope="session")
def keycloak() -> Iterator[KeycloakServer]:
    """The server; tests add clients, users and keys."""
    with running_keycloak() as server:
        yield server


@pytest.fixture(scope="module")
def other_realm(keycloak: KeycloakServer) -> str:
    """The name of another realm like that of the file, with keys of its own."""
    name = unique("realm")
    keycloak.administer("POST", "", json.loads(REALM_FILE.read_text()) | {"realm": name})
    return name


@pytest.fixture(scope="session")
def run_service(keycloak: KeycloakServer, tmp_path_factory: pytest.TempPathFactory) -> RunService:
    """Starts a service that believes the realm; takes more settings of it."""

    @contextmanager
    def start(**environment: str) -> Iterator[CatalogServer]:
        of_login = {
            "FLOECAT_GATEWAY_AUTH_MODE": "oidc",
            "FLOECAT_OIDC_ISSUER": keycloak.issuer(),
            "FLOECAT_OIDC_AUDIENCE": "floecat",
            "FLOECAT_OIDC_LEEWAY_S": str(LEEWAY_S),
        }
        folder: Path = tmp_path_factory.mktemp("secured")
        with running_catalog(folder, of_login | environment) as server:
            yield server

    return start


@pytest.fixture(scope="session")
def secured(run_service: RunService) -> Iterator[Warehouse]:
    """The service that tests share."""
    with run_service() as server:
        yield Warehouse(server)


@pytest.fixture(scope="session")
def make_client(keycloak: KeycloakServer) -> MakeClient:
    """Makes a client like that of the realm's file.

    It takes the names of mappers to leave out (`without`), whether people may give it their passwords
    (`direct`), and attributes of the client, `_` for `.`.
    """

    def make(without: tuple[str, ...] = (), *, direct: bool = False, **attributes: str) -> Login:
        client = _CLIENT | {
            "clientId": unique("client"),
            "directAccessGrantsEnabled": direct,
            "protocolMappers": [each for each in _CLIENT["protocolMappers"] if each["name"] not in without],
            "attributes": {name.replace("_", "."): value for name, value in attributes.items()},
        }
        keycloak.administer("POST", "floecat/clients", client)
        return Login(client["clientId"], client["secret"], keycloak.token_url())

    return make
