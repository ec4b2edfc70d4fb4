"""Two realms as two issuers, with the roles that Keycloak puts into tokens by itself."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.engines.conftest import EngineReport
from tests.engines.keycloak.conftest import CREDENTIAL, RunService
from tests.engines.keycloak.keycloak_server import KeycloakServer
from tests.engines.keycloak.test_tokens import claims_of


@pytest.mark.parametrize("authorizer", ["allow-all", "grants"])
def test_two_realms(
    keycloak: KeycloakServer, other_realm: str, run_service: RunService, engine: EngineReport, authorizer: str
) -> None:
    other = {
        "issuer": keycloak.issuer(other_realm),
        "audience": "floecat",
        "roles-claim": "realm_access.roles",
    }
    tokens = [keycloak.tokens(*CREDENTIAL, realm=realm)["access_token"] for realm in ("floecat", other_realm)]
    settings = {
        "FLOECAT_OIDC_ROLES_CLAIM": "realm_access.roles",
        "FLOECAT_AUTH_ISSUERS": json.dumps({"other": other}),
        "FLOECAT_AUTH_AUTHORIZER": authorizer,
        "FLOECAT_AUTH_OPERATORS": f"@other/default-roles-{other_realm}",
    }
    with run_service(**settings) as server:

        def ask(token: str, path: str) -> httpx.Response:
            headers = {"Authorization": f"Bearer {token}"}
            return httpx.get(f"{server.base_url}/{path}", headers=headers, timeout=60)

        with engine.step(f"{authorizer}: principals and roles have the issuer in their names"):
            for token, prefix in zip(tokens, ("", "@other/"), strict=True):
                claims, found = claims_of(token), ask(token, "management/v1/access/me").json()
                assert found["principal"] == f"{prefix}{claims['sub']}"
                assert set(found["groups"]) == {f"{prefix}{each}" for each in claims["realm_access"]["roles"]}
                assert f"{prefix}offline_access" in found["groups"]
        with engine.step(f"{authorizer}: a role of the other realm is that of operators, and ours is not"):
            statuses = [ask(token, "v1/floecat/namespaces").status_code for token in tokens]
            assert statuses == [200 if authorizer == "allow-all" else 403, 200]
