"""Several issuers over HTTP: names belong to their issuer, and who is disabled is refused everywhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey
from litestar.testing import TestClient

from floecat.auth.actors import Actor
from floecat.auth.authorizer import AllowAll
from floecat.auth.principals import Principal
from floecat.runtime import Kernel, open_kernel, prepare_store
from floecat.settings import (
    GatewaySettings,
    IssuerSettings,
    OidcSettings,
    Settings,
    StorageSettings,
)
from floecat.settings.groups.process import AuthSettings
from floecat.store.access import principals
from floecat_rest.app import create_app
from tests.unit.rest.conftest import SCHEMA

KEYS = {name: RSAKey.generate_key(2048) for name in ("main", "corp", "cluster")}
NAMESPACES = "/v1/floecat/namespaces"
TABLE = f"{NAMESPACES}/ns/tables/t"
UNKNOWN = "5eb0c1a7-0000-4000-8000-000000000000"
"""Id of nothing."""
MANAGED = "/management/v1/catalogs/floecat"


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    gateway = GatewaySettings(auth_mode="oidc")

    def keys(name: str) -> dict[str, str]:
        return {"issuer": f"https://{name}", "public_key": KEYS[name].as_pem(private=False).decode()}

    settings = Settings(
        data_dir=str(tmp_path),
        storage=StorageSettings(fsync=False),
        gateway=gateway,
        oidc=OidcSettings(**keys("main")),
        auth=AuthSettings(
            issuers={
                "corp": IssuerSettings(**keys("corp"), account_claim="tenant.id", roles_claim="groups"),
                "k8s": IssuerSettings(**keys("cluster"), account=gateway.default_account_id),
            }
        ),
    )
    prepare_store(settings)
    opened = open_kernel(settings)
    yield opened
    opened.close()


@pytest.fixture
def client(kernel: Kernel) -> Iterator[TestClient[Any]]:
    app = create_app(kernel.settings, kernel)
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as running:
        assert running.post(NAMESPACES, json={"namespace": ["ns"]}, headers=token("main")).is_success
        table = {"name": "t", "schema": SCHEMA}
        assert running.post(f"{NAMESPACES}/ns/tables", json=table, headers=token("main")).is_success
        yield running


def token(issuer: str, name: str = "ada", **claims: Any) -> dict[str, str]:
    account = str(GatewaySettings().default_account_id)
    of_issuer = {"main": {"account_id": account}, "corp": {"tenant": {"id": account}}}.get(issuer, {})
    filled = {"iss": f"https://{issuer}", "sub": name, "exp": int(time.time()) + 600} | of_issuer | claims
    key = KEYS.get(issuer, KEYS["main"])
    return {"authorization": f"Bearer {jwt.encode({'alg': 'RS256'}, filled, key)}"}


def test_an_issuer_that_is_not_known_is_401_and_learns_nothing(client: Any) -> None:
    for claims in ({"iss": "https://other"}, {"iss": None}, {"iss": "k8s"}, {"iss": {"a": 1}}):
        answer = client.get("/v1/config", headers=token("main", **claims))
        assert answer.status_code == 401
        error = answer.json()["error"]
        assert (error["type"], error["code"]) == ("NotAuthorizedException", 401)
        assert not [name for name in ("main", "corp", "cluster", "floecat.") if name in answer.text]
        assert 'error="invalid_token"' in answer.headers["www-authenticate"]


def test_the_same_name_of_another_issuer_is_somebody_else(client: Any, kernel: Kernel) -> None:
    key = {"idempotency-key": str(uuid4())}
    body = {"namespace": ["made"]}
    for _ in range(2):  # a retry is answered as the first
        assert client.post(NAMESPACES, json=body, headers=token("main") | key).status_code == 200
    for issuer in ("corp", "cluster"):
        assert client.post(NAMESPACES, json=body, headers=token(issuer) | key).status_code == 409
    account = kernel.settings.gateway.default_account_id
    with kernel.store.read() as conn:
        found = {
            name: principals.find(conn, account, name) is not None
            for name in ("ada", "@corp/ada", "@k8s/ada", "@/ada")
        }
    assert found == {"ada": True, "@corp/ada": True, "@k8s/ada": True, "@/ada": False}


def test_groups_that_are_left_out_are_told(client: Any) -> None:
    left_out = {"_claim_names": {"groups": "src1"}, "_claim_sources": {"src1": {"endpoint": "https://graph"}}}
    answer = client.get("/v1/config", headers=token("corp", **left_out))
    assert answer.status_code == 401
    assert "leaves the claim 'groups' out" in answer.json()["error"]["message"]
    # another issuer reads another claim
    assert client.get("/v1/config", headers=token("cluster", **left_out)).status_code == 200


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("GET", "/v1/config"),
        ("GET", NAMESPACES),
        ("GET", TABLE),
        ("POST", f"{TABLE}/plan"),
        ("GET", f"{TABLE}/plan/{UNKNOWN}"),
        ("DELETE", f"{TABLE}/plan/{UNKNOWN}"),
        ("POST", f"{TABLE}/tasks"),
        ("POST", f"{TABLE}/metrics"),
        ("GET", f"{MANAGED}/namespaces/ns/tables/t/captures"),
        ("GET", f"{MANAGED}/captures/{UNKNOWN}"),
        ("POST", f"{MANAGED}/captures/{UNKNOWN}/cancel"),
        ("GET", f"{MANAGED}/jobs/{UNKNOWN}"),
        ("GET", f"{MANAGED}/purges/{UNKNOWN}"),
        ("GET", "/management/v1/catalogs"),
        ("GET", "/management/v1/access/me"),
    ],
)
def test_who_is_disabled_is_refused_whatever_was_started(
    client: Any, kernel: Kernel, verb: str, path: str
) -> None:
    body = {"plan-task": "x"} if path.endswith("tasks") else {} if verb == "POST" else None

    def ask(headers: dict[str, str]) -> tuple[int, str]:
        answer = client.request(verb, path, json=body, headers=headers)
        return answer.status_code, answer.text

    account = kernel.settings.gateway.default_account_id
    status, _ = ask(token("corp"))
    assert status not in (401, 403)
    set_disabled(kernel, "@corp/ada", disabled=True)
    status, text = ask(token("corp"))
    assert (status, "Principal @corp/ada is disabled" in text) == (403, True)
    assert ask(token("main"))[0] not in (401, 403)
    set_disabled(kernel, "@corp/ada", disabled=False)
    kernel.access.accounts.set_disabled(str(account), disabled=True)
    status, text = ask(token("main"))
    assert (status, "The account is disabled" in text) == (403, True)


def set_disabled(kernel: Kernel, name: str, *, disabled: bool) -> None:
    operator = Actor(Principal("operator", kernel.settings.gateway.default_account_id), AllowAll())
    kernel.access.principals.set_disabled(operator, name, disabled=disabled)
