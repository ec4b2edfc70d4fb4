"""The smoke flow of `deploy/smoke` with its settings, and with programs of this machine for containers.

`deploy/smoke/run.sh programs` runs it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import httpx
import pytest
import yaml

from tests.engines.conftest import EngineReport
from tests.engines.keycloak.conftest import keycloak
from tests.engines.keycloak.keycloak_server import KeycloakServer
from tests.engines.pages import properties
from tests.engines.trino_server import RELEASE, TrinoServer
from tests.services.compose import COMPOSE, Deployment, deployment

__all__ = ["deployment", "keycloak"]

SMOKE = COMPOSE.parent / "smoke"


def trino_settings(file: str, deployment: Deployment, hosts: dict[str, str]) -> dict[str, str]:
    """The catalog of Trino that a file of `deploy/smoke` has, with the addresses and keys of this machine."""
    content = yaml.safe_load((SMOKE / file).read_text())["configs"]["trino-floecat"]["content"]
    s3 = deployment.s3
    known = {"http://floecat:9200": deployment.url, "http://s3:8333": s3.endpoint} | hosts
    known |= {"s3.aws-access-key=floecat": f"s3.aws-access-key={s3.access_key_id}"}
    for there, here in known.items():
        assert there in content
        content = content.replace(there, here)
    return properties(re.sub(r"\$\{S3_SECRET_KEY.*\}", s3.secret_access_key, content))


@contextmanager
def catalog_of(trino: TrinoServer, settings: Mapping[str, str]) -> Iterator[None]:
    """Trino has the catalog `floecat`."""
    trino.add_catalog("floecat", settings)
    try:
        yield
    finally:
        trino.remove_catalog("floecat")


def run_flow(trino: TrinoServer) -> None:
    """Runs flow.sh with the command line of the server."""
    done = subprocess.run(
        [str(SMOKE / "flow.sh"), *trino.command_line()],
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


def test_release() -> None:
    image = yaml.safe_load((SMOKE / "trino.yaml").read_text())["services"]["trino"]["image"]
    assert image == f"trinodb/trino:{RELEASE}"


@contextmanager
def served(deployment: Deployment, environ: Mapping[str, str] | None = None) -> Iterator[None]:
    """The service of the deployment runs, on a new store."""
    with deployment.running("upgrade") as upgrade:
        assert upgrade.wait(timeout=300) == 0
    with deployment.running("floecat", environ=environ) as service:
        deployment.until_ready("floecat", f"{deployment.url}/health/ready", service)
        yield


@pytest.mark.postgres
@pytest.mark.s3
def test_trino(trino: TrinoServer, deployment: Deployment, engine: EngineReport) -> None:
    with served(deployment), catalog_of(trino, trino_settings("trino.yaml", deployment, {})):
        with engine.step("the demo is read"):
            demo = [sys.executable, "-m", "floecat_rest", "demo", "--url", deployment.url]
            subprocess.run(demo, env=deployment.environ("floecat"), check=True, timeout=300)
            assert trino.run("SELECT count(*) > 0 FROM floecat.demo.trips") == [[True]]
        with engine.step("the smoke flow without login"):
            run_flow(trino)


@pytest.mark.postgres
@pytest.mark.s3
def test_keycloak(
    trino: TrinoServer, deployment: Deployment, engine: EngineReport, keycloak: KeycloakServer
) -> None:
    hosts = {"http://keycloak:8080": keycloak.url}
    logins = yaml.safe_load((SMOKE / "keycloak.yaml").read_text())["services"]["floecat"]["environment"]
    logins = {name: text.replace("http://keycloak:8080", keycloak.url) for name, text in logins.items()}
    with served(deployment, logins):
        with engine.step("whoever does not log in is refused"):
            assert httpx.get(f"{deployment.url}/v1/config", timeout=60).status_code == 401
        settings = trino_settings("keycloak.yaml", deployment, hosts)
        with catalog_of(trino, settings), engine.step("the smoke flow with a login by Keycloak"):
            run_flow(trino)
