"""Users and roles by Gravitino's requests, of people who may do some of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from litestar.testing import TestClient

from floecat.runtime import Kernel
from floecat.settings import Settings
from tests.behaviour.access.conftest import token

_Send = Callable[..., tuple[int, Any]]


@pytest.fixture
def send(client: TestClient[Any], settings: Settings) -> _Send:
    """Sends a request below the metalake as somebody, and returns the status and the body."""

    def sent(name: str, method: str, path: str, body: object = None) -> tuple[int, Any]:
        groups = ("platform",) if name == "admin" else ()
        metalake = f"/api/metalakes/{settings.gateway.default_account_id}"
        answer = client.request(
            method, f"{metalake}/{path}", json=body, headers=token(settings, name, *groups)
        )
        return answer.status_code, answer.json()

    return sent


@pytest.fixture
def grants(client: TestClient[Any], settings: Settings) -> Callable[[str, str, str], None]:
    """Gives a principal a privilege on the account, or takes it."""

    def change(path: str, name: str, privilege: str) -> None:
        body = {"on": "account", "grantee": f"principal:{name}", "privileges": [privilege]}
        headers = token(settings, "admin", "platform")
        assert client.post(f"/management/v1/access/{path}", json=body, headers=headers).status_code == 200

    return change


def test_a_change_of_no_role_tells_no_roles(send: _Send):
    assert send("admin", "POST", "roles", {"name": "secret"})[0] == 200
    assert send("admin", "POST", "users", {"name": "bob"})[0] == 200
    assert send("admin", "PUT", "permissions/users/bob/grant", {"roleNames": ["secret"]})[0] == 200
    for change in ("grant", "revoke"):
        for whose in ("users/bob", "users/nobody", "groups/g"):
            status, body = send("eve", "PUT", f"permissions/{whose}/{change}", {"roleNames": []})
            assert (status, body["type"]) == (403, "ForbiddenException")
            assert "secret" not in body["message"]
    shown = send("admin", "PUT", "permissions/users/bob/grant", {"roleNames": []})[1]
    assert shown["user"]["roles"] == ["secret"]


def test_an_owner_who_may_not_read_access_is_told_of_the_roles_that_it_gives(
    send: _Send, grants: Callable[[str, str, str], None]
):
    grants("grants", "ada", "manage_roles")
    send("admin", "POST", "roles", {"name": "secret"})
    send("admin", "POST", "users", {"name": "bob"})
    send("admin", "PUT", "permissions/users/bob/grant", {"roleNames": ["secret"]})
    assert send("ada", "POST", "roles", {"name": "mine"})[0] == 200
    grants("grants/revoke", "ada", "manage_roles")
    assert send("ada", "GET", "users/bob")[0] == 403
    status, changed = send("ada", "PUT", "permissions/users/bob/grant", {"roleNames": ["mine"]})
    assert (status, changed["user"]["roles"]) == (200, ["mine"])
    status, changed = send("ada", "PUT", "permissions/users/bob/revoke", {"roleNames": ["mine"]})
    assert (status, changed["user"]["roles"]) == (200, [])
    assert send("admin", "GET", "users/bob")[1]["user"]["roles"] == ["secret"]


def test_changes_of_roles_are_bounded(send: _Send):
    send("admin", "POST", "users", {"name": "bob"})
    body = {"roleNames": [f"r{number}" for number in range(1_001)]}
    status, refused = send("admin", "PUT", "permissions/users/bob/grant", body)
    assert (status, refused["code"]) == (400, 1001)
    assert "at most 1000" in refused["message"]


def test_users_are_listed_with_their_roles_all_at_once(send: _Send, kernel: Kernel):
    send("admin", "POST", "roles", {"name": "reader"})
    send("admin", "POST", "roles", {"name": "also"})
    send("admin", "POST", "users", {"name": "user0"})

    def listed() -> tuple[dict[str, list[str]], int]:
        with kernel.store.count_statements() as counter:
            status, found = send("admin", "GET", "users?details=true")
        assert status == 200
        return {each["name"]: each["roles"] for each in found["users"]}, counter.statements

    few = listed()[1]
    for number in range(1, 9):
        send("admin", "POST", "users", {"name": f"user{number}"})
        send("admin", "PUT", f"permissions/users/user{number}/grant", {"roleNames": ["reader", "also"]})
    roles, many = listed()
    assert roles["user8"] == ["also", "reader"]
    assert roles["user0"] == []
    assert many <= few + 1  # names of roles
