"""Tokens of Keycloak that the service takes, and that it refuses: forged, of others, or of another kind."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

from tests.clients.warehouses import Warehouse
from tests.engines.conftest import EngineReport
from tests.engines.keycloak.conftest import CREDENTIAL, LEEWAY_S, MakeClient, ask
from tests.engines.keycloak.keycloak_server import KeycloakServer

__all__ = ["claims_of"]

_KEY = RSAKey.generate_key(2048)


def claims_of(token: str) -> dict[str, Any]:
    """What a token says."""
    return _parts(token)[1]


def _parts(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    header, claims = (json.loads(urlsafe_b64decode(part + "==")) for part in token.split(".")[:2])
    return header, claims


def _encoded(*parts: object) -> str:
    return ".".join(urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)


def _of_other_key(token: str, _pem: bytes) -> str:
    header, claims = _parts(token)
    return jwt.encode(header, claims, _KEY)


def _with_key_inside(token: str, _pem: bytes) -> str:
    header, claims = _parts(token)
    return jwt.encode(
        {"alg": "RS256", "jwk": _KEY.as_dict(private=False), "kid": header["kid"]}, claims, _KEY
    )


def _of_other_issuer(token: str, _pem: bytes) -> str:
    header, claims = _parts(token)
    return jwt.encode(header, claims | {"iss": "https://issuer.example"}, _KEY)


def _of_unknown_key(token: str, _pem: bytes) -> str:
    return jwt.encode({"alg": "RS256"}, claims_of(token), _KEY)


def _unsigned(token: str, _pem: bytes) -> str:
    header, claims = _parts(token)
    return _encoded(header | {"alg": "none"}, claims) + "."


def _signed_by_public_key(token: str, pem: bytes) -> str:
    header, claims = _parts(token)
    text = _encoded(header | {"alg": "HS256"}, claims)
    signature = hmac.digest(pem, text.encode(), hashlib.sha256)
    return f"{text}.{urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def _for_other_account(token: str, _pem: bytes) -> str:
    header, claims = _parts(token)
    other = claims | {"account_id": "00000000-0000-0000-0000-000000000001"}
    return f"{_encoded(header, other)}.{token.split('.')[2]}"


def _without_signature(token: str, _pem: bytes) -> str:
    return token.rpartition(".")[0] + "."


_FORGERIES: list[Callable[[str, bytes], str]] = [
    *(_of_other_key, _with_key_inside, _of_other_issuer, _of_unknown_key, _unsigned),
    *(_signed_by_public_key, _for_other_account, _without_signature),
]


def _refused(answer: httpx.Response) -> str:
    """What a refusal says; it must tell clients that the token is at fault."""
    assert answer.status_code == 401, answer.text
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]
    message: str = answer.json()["error"]["message"]
    return message


def test_access_token_is_taken(keycloak: KeycloakServer, secured: Warehouse, engine: EngineReport) -> None:
    with engine.step("a client's token is taken"):
        token = keycloak.tokens(*CREDENTIAL)["access_token"]
        claims = claims_of(token)
        assert claims["account_id"] == "5eaa9cd5-7d08-3750-9457-cfe800b0b9d2"
        assert "floecat" in claims["aud"]
        answer = ask(secured.server, token)
        assert answer.status_code == 200, answer.text
    with engine.step("the configuration names the token endpoint"):
        assert answer.json()["defaults"]["oauth2-server-uri"] == keycloak.token_url()


@pytest.mark.parametrize("forge", _FORGERIES)
def test_forged_token_is_refused(
    keycloak: KeycloakServer,
    secured: Warehouse,
    engine: EngineReport,
    forge: Callable[[str, bytes], str],
) -> None:
    token = keycloak.tokens(*CREDENTIAL)["access_token"]
    keys = KeySet.import_key_set(httpx.get(f"{keycloak.issuer()}/protocol/openid-connect/certs").json())
    [key] = [key for key in keys if key.kid == _parts(token)[0]["kid"]]
    assert isinstance(key, RSAKey)
    with engine.step(f"a token {forge.__name__.strip('_').replace('_', ' ')} is refused"):
        assert ask(secured.server, token).status_code == 200
        _refused(ask(secured.server, forge(token, key.as_pem(private=False))))


def test_other_tokens_of_keycloak_are_refused(
    keycloak: KeycloakServer,
    secured: Warehouse,
    make_client: MakeClient,
    other_realm: str,
    engine: EngineReport,
) -> None:
    with engine.step("an ID token is refused"):
        token = keycloak.tokens(*CREDENTIAL)["id_token"]
        assert claims_of(token)["typ"] == "ID"
        assert "ID token" in _refused(ask(secured.server, token))
    with engine.step("a token for another audience is refused"):
        login = make_client(without=("audience",))
        token = keycloak.tokens(login.client_id, login.client_secret)["access_token"]
        assert "'account'" in _refused(ask(secured.server, token))
    with engine.step("a token without an account is refused"):
        login = make_client(without=("account",))
        token = keycloak.tokens(login.client_id, login.client_secret)["access_token"]
        assert "lacks the claim 'account_id'" in _refused(ask(secured.server, token))
    with engine.step("an expired token is refused"):
        login = make_client(access_token_lifespan="1")
        token = keycloak.tokens(login.client_id, login.client_secret)["access_token"]
        time.sleep(LEEWAY_S + 2)
        assert "exp" in _refused(ask(secured.server, token))
    with engine.step("a token of another realm is refused"):
        token = keycloak.tokens(*CREDENTIAL, realm=other_realm)["access_token"]
        assert keycloak.issuer(other_realm) in _refused(ask(secured.server, token))


def test_scopes_that_clients_ask_for_by_themselves(keycloak: KeycloakServer, engine: EngineReport) -> None:
    for scope in ("catalog", "PRINCIPAL_ROLE:ALL"):
        with engine.step(f"Keycloak knows no scope {scope}"), pytest.raises(httpx.HTTPStatusError) as refused:
            keycloak.tokens(*CREDENTIAL, scope=scope)
        assert refused.value.response.json()["error"] == "invalid_scope"
