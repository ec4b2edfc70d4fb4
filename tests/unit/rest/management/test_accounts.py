"""Accounts, as the operators of a service and others see them."""

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
from floecat.settings import GatewaySettings, OidcSettings, Settings, StorageSettings
from floecat.settings.groups.process import AuthSettings
from floecat_rest.app import create_app

KEY = RSAKey.generate_key(2048)
PATH = "/management/v1/accounts"
HOST = str(uuid4())


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    settings = Settings(
        data_dir=str(tmp_path),
        storage=StorageSettings(fsync=False, addable_locations=(tmp_path.as_uri(),)),
        gateway=GatewaySettings(auth_mode="oidc"),
        oidc=OidcSettings(public_key=KEY.as_pem(private=False).decode()),
        auth=AuthSettings(service_operators="hosts"),
    )
    prepare_store(settings)
    opened = open_kernel(settings)
    yield opened
    opened.close()


@pytest.fixture
def client(kernel: Kernel) -> Iterator[TestClient[Any]]:
    app = create_app(kernel.settings, kernel)
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as running:
        yield running


def token(name: str, account: str = HOST, roles: tuple[str, ...] = ()) -> dict[str, str]:
    claims = {"sub": name, "account_id": account, "roles": list(roles), "exp": int(time.time()) + 600}
    return {"authorization": f"Bearer {jwt.encode({'alg': 'RS256'}, claims, KEY)}"}


def test_the_life_of_an_account(client: Any, tmp_path: Path) -> None:
    host = token("host", roles=("hosts",))
    made = client.post(PATH, json={"name": "marketing"}, headers=host)
    assert made.status_code == 201, made.text
    account = made.json()["id"]
    for taken in ({"name": "marketing"}, {"name": "other", "id": account}):
        assert client.post(PATH, json=taken, headers=host).status_code == 409
    for name in ("", "a b", "é", str(uuid4())):
        assert client.post(PATH, json={"name": name}, headers=host).status_code == 400

    ada = token("ada", account)
    catalog = {"name": "lake", "storage-location": f"{tmp_path.as_uri()}/lake"}
    assert client.post("/management/v1/catalogs", json=catalog, headers=ada).is_success
    for name in ("marketing", account):
        shown = client.get(f"{PATH}/{name}", headers=host).json()
        assert shown["contents"] == {
            "catalogs": 1,
            "authorities": 0,
            "principals": 1,
            "roles": 0,
            "grants": 0,
        }
    # who manages accounts sees nothing that is in them
    assert client.get("/management/v1/catalogs/lake", headers=host).status_code == 404
    assert client.get("/management/v1/catalogs", headers=host).json()["catalogs"] == []

    refused = client.delete(f"{PATH}/marketing", headers=host)
    assert (refused.status_code, refused.json()["error"]["message"]) == (
        409,
        "Account marketing is not empty (catalogs: 1, principals: 1)",
    )
    changed = client.post(f"{PATH}/marketing", json={"disabled": True}, headers=host)
    assert changed.json() == made.json() | {"disabled": True}
    for path in ("catalogs", "catalogs/lake"):
        answer = client.get(f"/management/v1/{path}", headers=ada)
        assert (answer.status_code, answer.json()["error"]["message"]) == (403, "The account is disabled")
    assert client.get("/v1/config?warehouse=lake", headers=ada).status_code == 403
    assert client.get("/v1/lake/namespaces", headers=token("new", account)).status_code == 403
    client.post(f"{PATH}/marketing", json={"disabled": False}, headers=host)
    assert client.get("/v1/lake/namespaces", headers=ada).status_code == 200

    assert client.post(PATH, json={"name": "short"}, headers=host).is_success
    assert client.delete(f"{PATH}/short", headers=host).is_success
    assert client.get(f"{PATH}/short", headers=host).status_code == 404
    assert client.delete(f"{PATH}/short", headers=host).status_code == 404
    page = client.get(PATH, params={"pageSize": 1}, headers=host).json()
    rest = client.get(PATH, params={"pageToken": page["next-page-token"]}, headers=host).json()
    assert {each["name"] for each in page["accounts"] + rest["accounts"]} >= {"marketing"}
    assert rest["next-page-token"] is None


def test_others_manage_no_accounts(client: Any, kernel: Kernel) -> None:
    account = kernel.access.accounts.create("host", None)
    requests = (
        ("GET", PATH, None),
        ("POST", PATH, {"name": "x"}),
        ("GET", f"{PATH}/host", None),
        ("POST", f"{PATH}/host", {"disabled": True}),
        ("DELETE", f"{PATH}/host", None),
        ("GET", f"{PATH}/none", None),  # the same whether or not it exists
    )

    def statuses(headers: dict[str, str]) -> set[int]:
        return {
            client.request(verb, path, json=body, headers=headers).status_code
            for verb, path, body in requests
        }

    assert statuses(token("eve", roles=("host", "operators"))) == {403}
    assert statuses({}) == {401}
    assert client.get(PATH, headers=token("own", str(account.id), ("hosts",))).status_code == 200
    # an operator of the service who is disabled is none
    operator = Actor(Principal("operator", account.id), AllowAll())
    kernel.access.principals.set_disabled(operator, "own", disabled=True)
    assert client.get(PATH, headers=token("own", str(account.id), ("hosts",))).status_code == 403
    assert statuses(token("own", str(account.id), ("hosts",))) == {403}
