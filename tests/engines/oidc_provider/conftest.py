"""The certified OpenID provider of npm, and a service that believes it and a cluster of Kubernetes."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from joserfc.jwk import RSAKey

from tests.clients.warehouses import Warehouse
from tests.engines.conftest import EngineReport
from tests.engines.keycloak.logins import Login
from tests.engines.programs import node_modules, program
from tests.services.catalog import running_catalog
from tests.services.spark import spark
from tests.services.token_issuer import Issuer, token_issuer

__all__ = ["ACCOUNT", "LEEWAY_S", "LIFETIME_S", "Provider", "spark"]

RELEASE = "9.13.3"
ACCOUNT = "5eaa9cd5-7d08-3750-9457-cfe800b0b9d2"
LIFETIME_S = 15
LEEWAY_S = 2
_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"


class Provider:
    """A provider of tokens; it keeps its port when it is started again with another key.

    Attributes:
        clients: that it knows, with the roles of their tokens.
    """

    def __init__(self, port: int) -> None:
        """Takes the port that it listens on."""
        self.issuer = f"http://127.0.0.1:{port}"
        self._port = port
        self.clients = {"engine": ["writers"], "reader": ["readers"], "admin": ["platform"]}
        self._process: subprocess.Popen[str] | None = None

    def start(self, key_id: str) -> None:
        """Starts it with a new key, and waits until it answers."""
        modules = node_modules(f"oidc-provider-{RELEASE}", f"oidc-provider@{RELEASE}")
        script = modules.parent / "provider.mjs"  # modules are looked for beside it
        shutil.copy(f"{os.path.dirname(__file__)}/provider.mjs", script)
        key = RSAKey.generate_key(2048, {"kid": key_id, "use": "sig", "alg": "RS256"})
        settings = {
            "port": self._port,
            "keys": [key.as_dict(private=True)],
            "account": ACCOUNT,
            "lifetime_s": LIFETIME_S,
            "clients": [
                {"id": name, "secret": "hush", "roles": roles} for name, roles in self.clients.items()
            ],
        }
        node = program("node", "Debian's package nodejs has it")
        self._process = subprocess.Popen(
            [str(node), str(script)],
            env=os.environ | {"PROVIDER": json.dumps(settings)},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "listening\n"

    def stop(self) -> None:
        """Ends it."""
        assert self._process is not None
        self._process.terminate()
        self._process.communicate(timeout=60)

    def login(self, client: str) -> Login:
        """What an engine needs to be a client."""
        return Login(client, "hush", f"{self.issuer}/token")

    def token(self, client: str, **form: str) -> str:
        """A token of the token endpoint."""
        filled = {"grant_type": "client_credentials", "scope": "catalog"} | form
        answer = httpx.post(f"{self.issuer}/token", data=filled, auth=(client, "hush"), timeout=60)
        assert answer.is_success, answer.text
        token: str = answer.json()["access_token"]
        return token

    def exchange(self, client: str, token: str) -> str:
        """A token for the service, for one of the provider for another."""
        kind = "urn:ietf:params:oauth:token-type:access_token"
        return self.token(client, grant_type=_EXCHANGE, subject_token=token, subject_token_type=kind)


@pytest.fixture(autouse=True)
def _version(engine: EngineReport) -> None:
    engine.version = RELEASE


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    """The provider, with its first key."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    made = Provider(port)
    made.start("first")
    yield made
    made.stop()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Issuer]:
    """A cluster whose tokens the tests sign."""
    with token_issuer() as made:
        yield made


@pytest.fixture(scope="module")
def secured(
    provider: Provider, cluster: Issuer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Warehouse]:
    """A service in which grants decide, and operators come from a role of the provider."""
    issuers: dict[str, dict[str, Any]] = {
        "corp": {
            "issuer": provider.issuer,
            "audience": "floecat",
            "account-claim": "tenant.id",
            "roles-claim": "realm_access.roles",
            "leeway-s": LEEWAY_S,
        },
        "k8s": {
            "issuer": cluster.url,
            "audience": ["floecat", "lake"],
            "account": ACCOUNT,
            "roles-claim": "kubernetes.io.namespace",
        },
    }
    environment = {
        "FLOECAT_GATEWAY_AUTH_MODE": "oidc",
        "FLOECAT_GATEWAY_DEFAULT_ACCOUNT_ID": ACCOUNT,
        "FLOECAT_AUTH_ISSUERS": json.dumps(issuers),
        "FLOECAT_AUTH_AUTHORIZER": "grants",
        "FLOECAT_AUTH_OPERATORS": "@corp/platform",
    }
    with running_catalog(tmp_path_factory.mktemp("secured"), environment) as server:
        yield Warehouse(server)
