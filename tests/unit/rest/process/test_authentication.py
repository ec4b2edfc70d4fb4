from __future__ import annotations

import time

import msgspec
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from floecat.settings import OidcSettings

KEY = RSAKey.generate_key(2048)


def token(settings, **changes):
    claims = {
        "sub": "alice",
        "account_id": str(settings.gateway.default_account_id),
        "exp": int(time.time()) + 60,
    }
    return jwt.encode({"alg": "RS256"}, claims | changes, KEY)


@pytest.fixture
def secured(start, settings):
    gateway = msgspec.structs.replace(settings.gateway, auth_mode="oidc")
    oidc = OidcSettings(public_key=KEY.as_pem(private=False).decode(), audience="floecat")
    return start(msgspec.structs.replace(settings, gateway=gateway, oidc=oidc))


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer None",
        "Basic dXNlcjpwYXNz",
        "Bearer a.b.c",
        "Bearer eyJhbGciOiJub25lIn0.e30.",
    ],
)
@pytest.mark.parametrize("path", ["/v1/config", "/v1/namespaces", "/v1/floecat/namespaces/a/tables/t"])
def test_no_valid_identity_is_401(secured, path, authorization):
    headers = {} if authorization is None else {"authorization": authorization}
    answer = secured.get(path, headers=headers)
    assert answer.status_code == 401
    challenge, _, reason = answer.headers["www-authenticate"].partition(" ")
    assert challenge == "Bearer"
    assert reason.startswith('error="invalid_token"') == (authorization or "").endswith((".c", "."))
    assert answer.json()["error"]["type"] == "NotAuthorizedException"
    assert secured.head(path, headers=headers).content == b""


@pytest.mark.parametrize("changes", [{"exp": 1}, {"nbf": 1 << 40}, {"aud": "other"}, {"iat": 1 << 40}])
def test_a_token_that_is_not_good_now_and_here_is_401(secured, settings, changes):
    answer = secured.get("/v1/config", headers={"authorization": f"Bearer {token(settings, **changes)}"})
    assert answer.status_code == 401


def test_a_good_token_is_let_in_again_and_again(secured, settings):
    headers = {"authorization": f"bearer {token(settings, aud='floecat')}"}
    assert [secured.get("/v1/config", headers=headers).status_code for _ in range(3)] == [200] * 3


def test_another_account_does_not_see_the_catalog(secured, settings):
    other = token(settings, aud="floecat", account_id="0198c7a0-0000-7000-8000-000000000001")
    answer = secured.get("/v1/config", headers={"authorization": f"Bearer {other}"})
    assert answer.status_code == 404


def test_a_body_is_not_read_for_strangers(secured):
    assert secured.post("/v1/namespaces", content=b"{").status_code == 401


@pytest.mark.parametrize(
    "path", ["/", "/health/live", "/health/ready", "/metrics", "/schema", "/schema/iceberg.json"]
)
def test_operators_need_no_token(secured, path):
    assert secured.get(path).status_code == 200


def test_everybody_is_let_in_in_dev_mode(client):
    for headers in ({}, {"authorization": "Bearer None"}, {"authorization": "nonsense"}):
        assert client.get("/v1/config", headers=headers).status_code == 200


def test_the_header_has_the_name_that_is_set(start, settings):
    gateway = msgspec.structs.replace(settings.gateway, auth_mode="oidc", auth_header="X-Token")
    oidc = OidcSettings(public_key=KEY.as_pem(private=False).decode())
    client = start(msgspec.structs.replace(settings, gateway=gateway, oidc=oidc))
    assert client.get("/v1/config", headers={"x-token": f"Bearer {token(settings)}"}).status_code == 200
    assert client.get("/v1/config", headers={"authorization": f"Bearer {token(settings)}"}).status_code == 401
