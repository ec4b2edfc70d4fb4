"""Users and roles by Gravitino's requests, of people who may do some of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from litestar.testing import TestClient

from floecat.auth.actors import Actor
from floecat.auth.authorizer import AllowAll, Privilege, Securable
from floecat.auth.principals import Principal
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
        counts = []
        for _ in range(3):  # the first reads the rights of who asks again, if they are not in memory
            with kernel.store.count_statements() as counter:
                status, found = send("admin", "GET", "users?details=true")
            assert status == 200
            counts.append(counter.statements)
        return {each["name"]: each["roles"] for each in found["users"]}, min(counts)

    few = listed()[1]
    for number in range(1, 9):
        send("admin", "POST", "users", {"name": f"user{number}"})
        send("admin", "PUT", f"permissions/users/user{number}/grant", {"roleNames": ["reader", "also"]})
    roles, many = listed()
    assert roles["user8"] == ["also", "reader"]
    assert roles["user0"] == []
    assert many <= few + 1  # names of roles


def test_what_is_there_is_told_by_its_kind(send: _Send):
    for path, body, kind in (
        ("users", {"name": "bob"}, "UserAlreadyExistsException"),
        ("roles", {"name": "reader"}, "RoleAlreadyExistsException"),
    ):
        assert send("admin", "POST", path, body)[0] == 200
        status, refused = send("admin", "POST", path, body)
        assert (status, refused["code"], refused["type"]) == (409, 1004, kind)
    status, refused = send("admin", "POST", "roles", {"name": "a:b"})
    assert (status, refused["type"]) == (400, "IllegalArgumentException")


def test_full_names_begin_with_the_longest_catalog_that_one_may_use(
    send: _Send, kernel: Kernel, settings: Settings, grants: Callable[[str, str, str], None]
):
    account = settings.gateway.default_account_id
    made = [
        kernel.catalog.catalogs.ensure(account, name, f"file://{settings.data_dir}/{name}")
        for name in ("a", "a.b")
    ]
    for catalog in made:
        call = kernel.catalog.calls.open_as_operator("admin", account, catalog.name)
        kernel.catalog.namespaces.create(call, ("c", "d"), {})
    status, found = send("admin", "GET", "owners/schema/a.b.c:d")
    assert (status, found["owner"]) == (200, None)
    assert send("admin", "GET", "owners/schema/a.c:d")[0] == 200
    assert send("admin", "GET", "owners/schema/a.x:d")[1]["type"] == "NoSuchMetadataObjectException"
    # who reads access may not use catalogs, and finds schemas all the same
    grants("grants", "ada", "read_access")
    assert send("ada", "GET", "owners/schema/a.c:d")[0] == 200
    # who may nothing is told the same of what is there and what is not
    told = [send("eve", "GET", f"owners/schema/{name}.c:d") for name in ("a", "none")]
    assert [(status, body["message"].replace("none", "a")) for status, body in told] == [
        (403, told[0][1]["message"])
    ] * 2
    of_two_levels = "privilege {} on namespace c:d of catalog a"
    assert of_two_levels.format("read_access") in told[0][1]["message"]
    grant = {"privileges": [{"name": "use_schema", "condition": "allow"}]}
    send("admin", "POST", "roles", {"name": "some"})
    for path, body, privilege in (
        ("owners/schema/a.c:d", {"name": "eve", "type": "user"}, "manage_owners"),
        ("permissions/roles/some/schema/a.c:d/grant", grant, "manage_grants"),
    ):
        status, refused = send("ada", "PUT", path, body)
        assert (status, of_two_levels.format(privilege) in refused["message"]) == (403, True)
        status, refused = send("admin", "PUT", path.replace("c:d", "c:x"), body)
        assert (status, refused["message"]) == (404, "There is no namespace c:x of catalog a")
    role = {"name": "r", "securableObjects": [{"fullName": "a.c:x", "type": "schema", **grant}]}
    refused = send("admin", "POST", "roles", role)[1]
    assert refused["message"] == "There is no namespace c:x of catalog a"
    objects = [{"fullName": "a.c", "type": "schema", "privileges": []}] * 1_001
    status, refused = send("admin", "POST", "roles", {"name": "r", "securableObjects": objects})
    assert (status, "at most 1000" in refused["message"]) == (400, True)


def test_groups_of_another_metalake_and_paths_that_are_not(client: TestClient[Any], settings: Settings):
    headers = token(settings, "admin", "platform")
    answer = client.post("/api/metalakes/other/groups", json={"name": "g"}, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (403, 1008)
    answer = client.get("/api/metalakes/a/nothing", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (404, 1003)


def test_who_may_give_a_schema_away_need_not_read_access(
    send: _Send, kernel: Kernel, settings: Settings, grants: Callable[[str, str, str], None]
):
    call = kernel.catalog.calls.open_as_operator("admin", settings.gateway.default_account_id, "floecat")
    kernel.catalog.namespaces.create(call, ("given",), {})
    send("admin", "POST", "users", {"name": "bob"})
    send("admin", "POST", "users", {"name": "ada"})
    owners = "owners/schema/floecat.given"
    assert send("admin", "PUT", owners, {"name": "ada", "type": "USER"}) == (200, {"set": True, "code": 0})
    assert send("ada", "GET", "users/bob")[0] == 403
    status, refused = send("ada", "PUT", owners, {"name": "nobody", "type": "USER"})
    assert (status, refused["code"], refused["type"]) == (404, 1003, "NotFoundException")
    assert send("ada", "PUT", owners, {"name": "bob", "type": "USER"})[0] == 200
    assert send("ada", "PUT", owners, {"name": "ada", "type": "USER"})[0] == 403
    assert send("admin", "GET", owners)[1]["owner"] == {"name": "bob", "type": "user"}


def test_a_plus_in_a_path_is_a_blank(send: _Send):
    assert send("admin", "POST", "users", {"name": "ada b+c"})[0] == 200
    assert send("admin", "GET", "users/ada+b%2Bc")[1]["user"]["name"] == "ada b+c"
    assert send("admin", "GET", "users/ada%20b%2Bc")[1]["user"]["name"] == "ada b+c"
    assert send("admin", "GET", "users/ada%2Bb%2Bc")[0] == 404


def test_the_grants_of_a_role_are_bounded(send: _Send, monkeypatch: pytest.MonkeyPatch):
    objects = [
        {
            "fullName": "floecat",
            "type": "catalog",
            "privileges": [{"name": "use_catalog"}, {"name": "use_schema"}],
        }
    ]
    assert send("admin", "POST", "roles", {"name": "r", "securableObjects": objects})[0] == 200
    assert len(send("admin", "GET", "roles/r")[1]["role"]["securableObjects"][0]["privileges"]) == 2
    monkeypatch.setattr("floecat_rest.gravitino.access._MOST_GRANTS", 1)
    assert len(send("admin", "GET", "roles/r")[1]["role"]["securableObjects"][0]["privileges"]) == 1


def test_a_chain_whose_top_may_not_be_made_leaves_nothing(send: _Send, kernel: Kernel, settings: Settings):
    call = kernel.catalog.calls.open_as_operator("admin", settings.gateway.default_account_id, "floecat")
    kernel.catalog.namespaces.create(call, ("here",), {})
    actor = Actor(Principal("admin", settings.gateway.default_account_id), AllowAll())
    catalog = Securable("catalog", "floecat")
    for privilege, on in (
        (Privilege.USE_CATALOG, catalog),
        (Privilege.CREATE_SCHEMA, Securable("namespace", "floecat", ("here",))),
    ):
        kernel.access.access.grant(actor, [privilege], on, "principal:eve")
    schemas = "catalogs/floecat/schemas"
    status, refused = send("eve", "POST", schemas, {"name": "top:B:C"})
    assert (status, refused["code"], refused["type"]) == (403, 1008, "ForbiddenException")
    assert refused["message"] == (
        "eve does not have the privilege create_schema on namespace top:B:C of catalog floecat"
    )
    assert send("eve", "POST", schemas, {"name": "here:B:C"})[0] == 200
    assert [each["name"] for each in send("admin", "GET", schemas)[1]["identifiers"]] == ["here"]
    owners = [
        send("admin", "GET", f"owners/schema/floecat.here{below}")[1]["owner"] for below in (":B", ":B:C")
    ]
    assert owners == [{"name": "eve", "type": "user"}] * 2


def test_audits_name_who_made_and_who_changed_whoever_owns_it(
    send: _Send, client: TestClient[Any], kernel: Kernel, settings: Settings
):
    account = settings.gateway.default_account_id
    place = f"file://{settings.data_dir}/new"
    made = {"name": "new", "storage-location": place}
    headers = token(settings, "admin", "platform")
    assert client.post("/management/v1/catalogs", json=made, headers=headers).status_code == 201

    def audit(path: str) -> dict[str, str]:
        (found,) = (body for key, body in send("admin", "GET", path)[1].items() if key != "code")
        return found["audit"]

    def people(path: str) -> tuple[str | None, str | None]:
        found = audit(path)
        assert ("lastModifier" in found) == ("lastModifiedTime" in found)
        return found.get("creator"), found.get("lastModifier")

    admin = Actor(Principal("admin", account), AllowAll())
    kernel.access.access.grant(admin, [Privilege.USE_CATALOG], Securable("catalog", "new"), "principal:ada")
    kernel.access.access.grant(admin, [Privilege.CREATE_SCHEMA], Securable("catalog", "new"), "principal:ada")
    schemas = "catalogs/new/schemas"
    status, created = send("ada", "POST", schemas, {"name": "A:B"})
    assert (status, created["schema"]["audit"]) == (200, audit(f"{schemas}/A:B"))
    assert people(f"{schemas}/A") == people(f"{schemas}/A:B") == ("ada", None)
    owner = {"name": "admin", "type": "user"}
    assert send("ada", "PUT", "owners/schema/new.A:B", owner)[0] == 200
    update = {"updates": [{"@type": "setProperty", "property": "k", "value": "v"}]}
    altered = send("admin", "PUT", f"{schemas}/A:B", update)[1]["schema"]["audit"]
    assert altered == audit(f"{schemas}/A:B")
    assert people(f"{schemas}/A:B") == ("ada", "admin")
    assert people(f"{schemas}/A") == ("ada", None)

    assert people("catalogs/new") == ("admin", None)
    more = {"add-locations": [f"{place}-more"]}
    assert client.post("/management/v1/catalogs/new", json=more, headers=headers).status_code == 200
    assert people("catalogs/new") == ("admin", "admin")
    listed = send("admin", "GET", "catalogs?details=true")[1]["catalogs"]
    assert {each["name"]: each["audit"] for each in listed}["new"] == audit("catalogs/new")
    # the service makes the default catalog, and the account with it: nobody is named
    for path in ("catalogs/floecat", ""):
        assert audit(path).keys() == {"createTime"}
