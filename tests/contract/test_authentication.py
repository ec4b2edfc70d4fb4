"""A service that takes only tokens of an issuer: no valid identity is 401, never anything else (case O25)."""

from __future__ import annotations

import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from tests.contract.answers import assert_error
from tests.services.catalog import CatalogServer, running_catalog
from tests.services.token_issuer import Issuer, token_issuer

ISSUER = "https://issuer.example/realms/lake"
ACCOUNT = "5eaa9cd5-7d08-3750-9457-cfe800b0b9d2"
KEY, FOREIGN_KEY = RSAKey.generate_key(2048), RSAKey.generate_key(2048)
LEEWAY_S = 30


class Secured(NamedTuple):
    """The service, and whom it believes."""

    server: CatalogServer

    def request(self, token: str | None, method: str = "GET", path: str = "/v1/config") -> httpx.Response:
        headers = {"authorization": f"Bearer {token}"} if token is not None else {}
        return httpx.request(method, self.server.base_url + path, headers=headers, timeout=60)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    environment = {
        "FLOECAT_GATEWAY_AUTH_MODE": "oidc",
        "FLOECAT_GATEWAY_DEFAULT_ACCOUNT_ID": ACCOUNT,
        "FLOECAT_OIDC_PUBLIC_KEY": KEY.as_pem(private=False).decode(),
        "FLOECAT_OIDC_ISSUER": ISSUER,
        "FLOECAT_OIDC_AUDIENCE": "lake",
    }
    with running_catalog(tmp_path_factory.mktemp("secured"), environment) as server:
        yield Secured(server)


def claims(**changes: Any) -> dict[str, Any]:
    now_s = int(time.time())
    good = {"iss": ISSUER, "aud": "lake", "sub": "alice", "account_id": ACCOUNT, "exp": now_s + 300}
    return good | changes


def signed(payload: Mapping[str, Any], key: RSAKey = KEY, **header: str) -> str:
    return jwt.encode({"alg": "RS256"} | header, dict(payload), key)


def unsigned(payload: Mapping[str, Any]) -> str:
    parts = ({"alg": "none", "typ": "JWT"}, payload)
    return (
        ".".join(urlsafe_b64encode(msgspec.json.encode(part)).rstrip(b"=").decode() for part in parts) + "."
    )


BAD_TOKENS = {
    "expired": lambda: signed(claims(exp=int(time.time()) - LEEWAY_S - 5)),
    "not yet valid": lambda: signed(claims(nbf=int(time.time()) + LEEWAY_S + 60)),
    "for another audience": lambda: signed(claims(aud="another")),
    "of another issuer": lambda: signed(claims(iss="https://another.example")),
    "unsigned": lambda: unsigned(claims()),
    "signed by somebody else": lambda: signed(claims(), FOREIGN_KEY),
    "malformed": lambda: "not.a.token",
    "the word None": lambda: "None",
    "of an ID token": lambda: signed(claims(typ="ID")),
    "missing": lambda: None,
}

ROUTES = [
    ("GET", "/v1/config"),
    ("GET", "/v1/floecat/namespaces"),
    ("GET", "/v1/floecat/namespaces//tables/db"),
    ("POST", "/v1/floecat/namespaces"),
    ("GET", "/v1/floecat/namespaces/ns/tables/t"),
    ("POST", "/v1/floecat/namespaces/ns/tables/t"),
    ("DELETE", "/v1/floecat/namespaces/ns/tables/t"),
    ("POST", "/v1/floecat/transactions/commit"),
    ("GET", "/v1/another/namespaces"),
    ("POST", "/management/v1/catalogs/floecat/namespaces/ns/tables"),
    ("POST", "/management/v1/catalogs/floecat"),
    ("DELETE", "/management/v1/catalogs/floecat"),
    ("GET", "/management/v1/catalogs/floecat/connectors"),
    ("POST", "/management/v1/catalogs/floecat/connectors"),
    ("DELETE", "/management/v1/catalogs/floecat/connectors/c"),
    ("POST", "/management/v1/catalogs/floecat/connectors/c/scan"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize("make", BAD_TOKENS.values(), ids=BAD_TOKENS.keys())
def test_no_valid_identity_is_401(secured: Secured, make: Any, method: str, path: str):
    token = make()
    answer = secured.request(token, method, path)
    message = assert_error(answer, 401, "NotAuthorizedException")
    sent_one = token not in {None, "None"}
    challenge = answer.headers["www-authenticate"]
    assert (
        challenge.startswith('Bearer error="invalid_token", error_d') if sent_one else challenge == "Bearer"
    )
    assert token is None or token not in message.replace("of the form", "")


def test_head_is_401_without_a_body(secured: Secured):
    answer = secured.request(BAD_TOKENS["expired"](), "HEAD", "/v1/floecat/namespaces/ns/tables/t")
    assert (answer.status_code, answer.content) == (401, b"")
    assert answer.headers["www-authenticate"].startswith('Bearer error="invalid_token"')


def test_valid_token_is_let_in_after_an_expired_one(secured: Secured):
    assert secured.request(BAD_TOKENS["expired"]()).status_code == 401
    assert secured.request(signed(claims())).status_code == 200


def test_token_of_another_account_sees_no_catalog(secured: Secured):
    token = signed(claims(account_id="0190a1b2-0000-7000-8000-000000000001"))
    answer = secured.request(token, path="/v1/floecat/namespaces")
    assert_error(answer, 404, "NoSuchWarehouseException")


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with token_issuer() as made:
        made.publish(KEY)
        yield made


@pytest.fixture
def of_issuer(issuer: Issuer, tmp_path: Path) -> Iterator[Secured]:
    """A service that knows its issuer by name alone."""
    with running_catalog(tmp_path, settings_of(issuer)) as server:
        yield Secured(server)


def settings_of(issuer: Issuer) -> dict[str, str]:
    return {
        "FLOECAT_GATEWAY_AUTH_MODE": "oidc",
        "FLOECAT_GATEWAY_DEFAULT_ACCOUNT_ID": ACCOUNT,
        "FLOECAT_OIDC_ISSUER": issuer.url,
    }


def test_a_missing_audience_is_warned_of(secured: Secured, of_issuer: Secured):
    warned = [
        "floecat.oidc.audience is not set" in each.server.log.read_text() for each in (secured, of_issuer)
    ]
    assert warned == [False, True]


def test_clients_are_told_where_they_renew_their_tokens(of_issuer: Secured, issuer: Issuer):
    config = of_issuer.request(signed(claims(iss=issuer.url))).json()
    assert config["defaults"]["oauth2-server-uri"] == f"{issuer.url}/token"
    assert "oauth2-server-uri" not in config["overrides"]  # the client's own goes first


def test_an_unknown_key_is_503_until_the_issuer_was_asked(of_issuer: Secured, issuer: Issuer):
    assert of_issuer.request(signed(claims(iss=issuer.url))).status_code == 200
    new = RSAKey.generate_key(2048)
    asked = len(issuer.fetches)
    issuer.publish(KEY, new)
    for key in (new, FOREIGN_KEY):
        answer = of_issuer.request(signed(claims(iss=issuer.url), key, kid=key.thumbprint()))
        assert_error(answer, 503, "ServiceUnavailableException")
        assert 1 <= int(answer.headers["retry-after"]) <= 30
    assert len(issuer.fetches) == asked


def test_without_keys_the_service_is_alive_and_not_ready(issuer: Issuer, tmp_path: Path):
    issuer.broken = True
    server = CatalogServer(tmp_path, settings_of(issuer))
    with ThreadPoolExecutor(1) as thread:
        started = thread.submit(server.start)
        try:
            wait_for(f"{server.base_url}/health/live")
            not_ready = httpx.get(f"{server.base_url}/health/ready", timeout=60)
            message = assert_error(not_ready, 503, "ServiceUnavailableException")
            assert "keys of the token issuer are missing" in message
            assert issuer.url not in message
            answer = Secured(server).request(signed(claims(iss=issuer.url)))
            assert_error(answer, 503, "ServiceUnavailableException")
            assert 1 <= int(answer.headers["retry-after"]) <= 5
            assert f"{issuer.url}/.well-known/openid-configuration of the token" in server.log.read_text()
        finally:
            issuer.broken = False
            started.result()
            server.stop()


def wait_for(url: str) -> None:
    ends_s = time.monotonic() + 60
    while time.monotonic() < ends_s:
        with suppress(httpx.TransportError):
            httpx.get(url, timeout=60).raise_for_status()
            return
        time.sleep(0.05)
    raise AssertionError(f"No answer from {url}")


def test_the_service_does_not_start_for_an_issuer_of_another_name(issuer: Issuer, tmp_path: Path):
    settings = settings_of(issuer) | {"FLOECAT_OIDC_ISSUER": f"{issuer.url}/"}
    with pytest.raises(RuntimeError, match=f"floecat.oidc.issuer is '{issuer.url}/', and .* '{issuer.url}'"):
        CatalogServer(tmp_path, settings).start()
