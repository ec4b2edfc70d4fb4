"""The Open Policy Agent decides, by the policy of `docs/opa.md`, for a service with logins."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from tests.engines.conftest import EngineReport
from tests.engines.programs import ProgramMissingError, cache_folder, program
from tests.services.catalog import CatalogServer, running_catalog
from tests.services.identity_provider import oidc_environment

RELEASE = "1.10.1"
DOCUMENT = Path(__file__).parents[3] / "docs" / "opa.md"
KEY = RSAKey.generate_key(2048)
ACCOUNT, ISSUER = (
    oidc_environment(KEY)[name] for name in ("FLOECAT_GATEWAY_DEFAULT_ACCOUNT_ID", "FLOECAT_OIDC_ISSUER")
)
NAMESPACES = "/v1/floecat/namespaces"
SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "a", "type": "long", "required": False}]}
_BUILD_S = 1500


@pytest.fixture(scope="session")
def opa_program() -> Path:
    """The agent, built; the modules come from the Go module proxy."""
    go = program("go", "Go 1.26 or newer comes from go.dev or a package of the system")
    folder = cache_folder() / f"opa-{RELEASE}"
    built = folder / "opa"
    if not built.exists():
        done = subprocess.run(
            [str(go), "install", f"github.com/open-policy-agent/opa@v{RELEASE}"],
            capture_output=True,
            text=True,
            timeout=_BUILD_S,
            env=os.environ | {"GOBIN": str(folder), "CGO_ENABLED": "0"},
            check=False,
        )
        if done.returncode:
            raise ProgramMissingError(f"Go could not bring opa {RELEASE}: {done.stderr.strip()[-300:]}")
    return built


@contextmanager
def _running(opa: Path, policy: Path, port: int) -> Iterator[None]:
    command = [
        str(opa),
        "run",
        "--server",
        "--addr",
        f"127.0.0.1:{port}",
        "--log-level",
        "error",
        str(policy),
    ]
    process = subprocess.Popen(command)
    try:
        for _ in range(300):
            try:
                httpx.get(f"http://127.0.0.1:{port}/health").raise_for_status()
                break
            except httpx.HTTPError:
                time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait()


def _token(name: str, *groups: str) -> dict[str, str]:
    claims = {"iss": ISSUER, "sub": name, "account_id": ACCOUNT, "exp": int(time.time()) + 600}
    return {"Authorization": f"Bearer {jwt.encode({'alg': 'RS256'}, claims | {'roles': list(groups)}, KEY)}"}


def test_the_policy_of_the_documentation_decides(
    opa_program: Path, engine: EngineReport, tmp_path: Path
) -> None:
    engine.version = RELEASE
    policy = tmp_path / "floecat.rego"
    (text,) = re.findall(r"```rego\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    policy.write_text(text)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    environment = oidc_environment(KEY) | {
        "FLOECAT_AUTH_AUTHORIZER": "opa",
        "FLOECAT_AUTH_OPA_URL": f"http://127.0.0.1:{port}/v1/data/floecat/allowed",
        "FLOECAT_AUTH_OPERATORS": "ops",
    }
    with running_catalog(tmp_path / "data", environment) as server:
        with engine.step("a policy decides"), _running(opa_program, policy, port):
            _check_decisions(server)
        with engine.step("no door is open while it is away"):
            url = f"{server.base_url}{NAMESPACES}/marketing/tables/leads"
            refused = httpx.get(url, headers=_token("mia", "marketing"))
            assert (refused.status_code, refused.json()["error"]["type"]) == (
                503,
                "ServiceUnavailableException",
            )
            assert httpx.get(url, headers=_token("op", "ops")).status_code == 200
        with engine.step("it comes back"), _running(opa_program, policy, port):
            assert httpx.get(url, headers=_token("mia", "marketing")).status_code == 200


def _check_decisions(server: CatalogServer) -> None:
    mia, eve = _token("mia", "marketing"), _token("eve")
    with httpx.Client(base_url=server.base_url, timeout=60) as client:
        for name, status in (("marketing", 200), ("sales", 403), ("public", 403)):
            answer = client.post(NAMESPACES, json={"namespace": [name]}, headers=mia)
            assert answer.status_code == status, answer.text
        client.post(
            NAMESPACES, json={"namespace": ["public"]}, headers=_token("op", "ops")
        ).raise_for_status()
        for name in ("leads", "orders"):
            table = {"name": name, "schema": SCHEMA}
            client.post(f"{NAMESPACES}/marketing/tables", json=table, headers=mia).raise_for_status()
            answer = client.post(f"{NAMESPACES}/public/tables", json=table, headers=_token("op", "ops"))
            answer.raise_for_status()
        for who, namespace, status in (
            (mia, "marketing", 200),
            (mia, "public", 200),
            (eve, "marketing", 403),
            (eve, "public", 200),
        ):
            for _ in range(2):  # also once it is in memory
                loaded = client.get(f"{NAMESPACES}/{namespace}/tables/leads", headers=who)
                assert loaded.status_code == status, loaded.text
        listed = client.get(f"{NAMESPACES}/public/tables", headers=eve).json()["identifiers"]
        assert [each["name"] for each in listed] == ["leads", "orders"]
        assert client.delete(f"{NAMESPACES}/public/tables/leads", headers=eve).status_code == 403
