from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from litestar.testing import TestClient
from msgspec.structs import replace

from floecat.errors import SettingsError
from floecat.settings import OidcSettings, Settings
from floecat.settings.loading import check_rules, load_settings


@pytest.fixture
def client(settings: Settings, start: Callable[[Settings], TestClient[Any]]) -> TestClient[Any]:
    """A client that sends no header of its own, as a page."""
    client = start(settings)
    del client.headers["x-client-version"]
    return client


PAGE = "https://console.example.com"


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/v1/config", {"host": "rebound.example.com:9200"}),
        ("/v1/config", {"origin": "https://example.com"}),
        ("{table}", {"sec-fetch-site": "cross-site", "sec-fetch-dest": "empty"}),
        ("/metrics", {"host": "rebound.example.com:9200"}),
    ],
)
def test_reads_by_pages_are_403(
    client: TestClient[Any], table: str, path: str, headers: dict[str, str]
) -> None:
    answer = client.get(path.format(table=table), headers=headers)
    assert answer.status_code == 403
    assert answer.json()["error"]["type"] == "ForbiddenException"
    assert "access-control-allow-origin" not in answer.headers


def test_a_page_cannot_unregister_a_table(client: TestClient[Any], table: str) -> None:
    assert client.post(f"{table}/unregister", headers={"origin": "https://example.com"}).status_code == 403
    assert client.post(f"{table}/unregister", headers={"content-type": "text/plain"}).status_code == 415
    assert client.post(f"{table}/unregister", headers={"content-type": ""}).status_code == 415
    for headers in ({"origin": "null"}, {"sec-fetch-site": "cross-site"}, {"host": "rebound.example.com"}):
        assert client.post(f"{table}/unregister", headers=headers).status_code == 403
    assert client.get(table).status_code == 200
    preflight = client.options(
        f"{table}/unregister",
        headers={"origin": "https://example.com", "access-control-request-method": "POST"},
    )
    assert preflight.status_code == 403
    assert "access-control-allow-origin" not in preflight.headers


def test_a_refused_head_has_no_body(client: TestClient[Any], table: str) -> None:
    answer = client.head(table, headers={"host": "rebound.example.com"})
    assert (answer.status_code, answer.content) == (403, b"")


def test_token_requests_reach_the_answer_that_names_the_way(client: TestClient[Any]) -> None:
    answer = client.post("/v1/oauth/tokens", data={"grant_type": "client_credentials"})
    assert answer.status_code != 403
    page = client.post("/v1/oauth/tokens", data={"a": "b"}, headers={"origin": "https://example.com"})
    assert page.status_code == 403
    rebound = client.post("/v1/oauth/tokens", data={"a": "b"}, headers={"host": "rebound.example.com"})
    assert rebound.status_code == 403
    table = client.post("/v1/namespaces/db/tables/a%2Foauth%2Ftokens", content=b"{}")
    assert table.status_code == 415


def test_the_log_has_the_paths_of_refused_requests_on_one_line(
    client: TestClient[Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="floecat.access"):
        client.get("/v1/config%0Aforged", headers={"host": "rebound.example.com"})
    assert "/v1/config%0Aforged 403" in caplog.text


def test_pages_of_listed_sites_may_read_with_a_token(
    settings: Settings, start: Callable[[Settings], TestClient[Any]]
) -> None:
    gateway = replace(settings.gateway, auth_mode="oidc", cors_allowed_origins=(PAGE,))
    oidc = OidcSettings(jwks_url="http://127.0.0.1:9/keys")
    client = start(replace(settings, gateway=gateway, oidc=oidc))
    preflight = client.options(
        "/v1/namespaces",
        headers={
            "origin": PAGE,
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization, content-type",
        },
    )
    assert preflight.status_code == 204
    assert "content-length" not in preflight.headers
    assert preflight.headers["access-control-allow-origin"] == PAGE
    assert preflight.headers["access-control-allow-headers"] == "authorization, content-type"
    refused = client.get("/v1/namespaces", headers={"origin": PAGE})
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, PAGE)
    other = client.get("/v1/namespaces", headers={"origin": "https://example.com"})
    assert "access-control-allow-origin" not in other.headers
    assert all("Origin" in answer.headers["vary"] for answer in (preflight, refused, other))


def test_sites_are_listed_only_where_there_are_logins() -> None:
    with pytest.raises(SettingsError, match="needs auth-mode=oidc"):
        check_rules(load_settings(environ={"FLOECAT_GATEWAY_CORS_ALLOWED_ORIGINS": PAGE}))
    given = {
        "FLOECAT_GATEWAY_AUTH_MODE": "oidc",
        "FLOECAT_OIDC_ISSUER": "https://login.example.com",
        "FLOECAT_GATEWAY_CORS_ALLOWED_ORIGINS": f"{PAGE}/path",
    }
    with pytest.raises(SettingsError, match="is not an origin"):
        check_rules(load_settings(environ=given))
