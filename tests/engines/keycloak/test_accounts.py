"""Whose account a person of Keycloak gets, and who decides it."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Callable, Iterator

import httpx
import pytest

from tests.clients.warehouses import Warehouse, unique
from tests.engines.conftest import EngineReport
from tests.engines.keycloak.conftest import MakeClient, ask
from tests.engines.keycloak.keycloak_server import KeycloakServer
from tests.engines.keycloak.test_tokens import claims_of

_OWN = "5eaa9cd5-7d08-3750-9457-cfe800b0b9d2"
_OTHER = "00000000-0000-4000-8000-000000000001"
_PASSWORD = "correct horse"
_PROFILE = "floecat/users/profile"

SetPolicy = Callable[[str], None]


@pytest.fixture
def set_policy(keycloak: KeycloakServer) -> Iterator[SetPolicy]:
    """Sets who may write attributes that the realm does not describe."""
    profile = keycloak.administer("GET", _PROFILE)
    assert profile["unmanagedAttributePolicy"] == "ADMIN_EDIT"
    yield lambda policy: keycloak.administer("PUT", _PROFILE, profile | {"unmanagedAttributePolicy": policy})
    keycloak.administer("PUT", _PROFILE, profile)


@pytest.fixture(scope="module")
def people(keycloak: KeycloakServer) -> str:
    """The realm's client for people, which here takes their passwords too."""
    [client] = keycloak.administer("GET", "floecat/clients?clientId=people")
    path = f"floecat/clients/{client['id']}"
    keycloak.administer("PUT", path, client | {"directAccessGrantsEnabled": True})
    return "people"


@pytest.fixture
def person(keycloak: KeycloakServer) -> dict[str, str]:
    """What a person logs in with, whom an administrator gave an account."""
    name = unique("person")
    keycloak.administer(
        "POST",
        "floecat/users",
        {
            "username": name,
            "email": f"{name}@example.com",
            "enabled": True,
            "attributes": {"account_id": [_OWN]},
            "credentials": [{"type": "password", "value": _PASSWORD}],
        },
    )
    return {"grant_type": "password", "username": name, "password": _PASSWORD}


class _Browser:
    """Forms of Keycloak's pages. Its cookies are for https alone, also on this machine."""

    def __init__(self) -> None:
        self._cookies: dict[str, str] = {}
        self._at = httpx.URL()

    def open(self, url: str, form: dict[str, str] | None = None) -> str:
        """The page behind a link, or after a form."""
        method = "GET" if form is None else "POST"
        while True:
            url = str(self._at.join(url))
            cookies = "; ".join(f"{name}={value}" for name, value in self._cookies.items())
            answer = httpx.request(method, url, data=form, headers={"Cookie": cookies}, timeout=60)
            self._cookies |= dict(answer.cookies)
            self._at = answer.url
            if not answer.is_redirect:
                return answer.raise_for_status().text
            method, url, form = "GET", answer.headers["location"], None

    def send(self, page: str, **form: str) -> str:
        """Sends the form of a page, with what it hides."""
        [action] = re.findall(r'<form[^>]* action="([^"]+)"', page)
        hidden = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page))
        return self.open(html.unescape(action), hidden | form)


def _change_own_account(keycloak: KeycloakServer, token: str) -> None:
    """What a person may try with Keycloak's page of his own account, which passes over what is not his."""
    page = f"{keycloak.issuer()}/account"
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
    profile = httpx.get(page, headers=headers, timeout=60).raise_for_status().json()
    profile["attributes"] = profile.get("attributes", {}) | {"account_id": [_OTHER]}
    httpx.post(page, headers=headers, json=profile, timeout=60).raise_for_status()


def test_account_is_an_administrators_to_give(
    keycloak: KeycloakServer, secured: Warehouse, people: str, person: dict[str, str], engine: EngineReport
) -> None:
    with engine.step("a person has the account of his attribute"):
        token = keycloak.tokens(people, **person)["access_token"]
        assert claims_of(token)["account_id"] == _OWN
        assert ask(secured.server, token).status_code == 200
    with engine.step("ADMIN_EDIT: he cannot change it"):
        _change_own_account(keycloak, token)
        token = keycloak.tokens(people, **person)["access_token"]
        assert claims_of(token)["account_id"] == _OWN


def test_people_change_their_account_where_attributes_are_theirs(
    keycloak: KeycloakServer,
    secured: Warehouse,
    people: str,
    person: dict[str, str],
    set_policy: SetPolicy,
    make_client: MakeClient,
    engine: EngineReport,
) -> None:
    set_policy("ENABLED")
    with engine.step("ENABLED: a person gives himself another account"):
        token = keycloak.tokens(people, **person)["access_token"]
        assert claims_of(token)["account_id"] == _OWN
        _change_own_account(keycloak, token)
        token = keycloak.tokens(people, **person)["access_token"]
        assert claims_of(token)["account_id"] == _OTHER
        # let in, as a member of an account that has no catalog here
        assert ask(secured.server, token).status_code == 404
    with engine.step("ENABLED: the hard-coded claim of a client stays"):
        login = make_client(direct=True)
        token = keycloak.tokens(login.client_id, login.client_secret, **person)["access_token"]
        assert claims_of(token)["account_id"] == _OWN


def test_a_person_logs_in_on_a_device(
    keycloak: KeycloakServer, secured: Warehouse, person: dict[str, str], engine: EngineReport
) -> None:
    asked = {"client_id": "people", "scope": "openid"}
    device = httpx.post(f"{keycloak.issuer()}/protocol/openid-connect/auth/device", data=asked, timeout=60)
    code = device.raise_for_status().json()
    poll = {
        "client_id": "people",
        "grant_type": "urn:ietf:params:oauth:grant-type:device_code",
        "device_code": code["device_code"],
    }
    with engine.step("device: no token before the person has logged in"):
        answer = httpx.post(keycloak.token_url(), data=poll, timeout=60)
        assert (answer.status_code, answer.json()["error"]) == (400, "authorization_pending")
    with engine.step("device: the person logs in, and the service takes the token"):
        browser = _Browser()
        login = browser.open(code["verification_uri_complete"])
        consent = browser.send(login, username=person["username"], password=person["password"])
        browser.send(consent, accept="Yes")
        time.sleep(code["interval"])
        tokens = httpx.post(keycloak.token_url(), data=poll, timeout=60).raise_for_status().json()
        assert claims_of(tokens["access_token"])["account_id"] == _OWN
        assert ask(secured.server, tokens["access_token"]).status_code == 200
    with engine.step("device: the next token, without the person"):
        again = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
        token = keycloak.tokens("people", **again)["access_token"]
        assert ask(secured.server, token).status_code == 200
