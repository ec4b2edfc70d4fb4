"""Principals, roles, grants and owners over HTTP, as an operator, a team and strangers meet them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey
from litestar.testing import TestClient

from floecat.auth.authorizer import Privilege, Securable
from floecat.errors import BadRequestError
from floecat.runtime import Kernel, open_kernel, prepare_store
from floecat.settings import GatewaySettings, OidcSettings, Settings, StorageSettings
from floecat.settings.groups.process import AuthSettings
from floecat_rest.app import create_app
from floecat_rest.management.access_wire import parse_securable, written_securable

KEY = RSAKey.generate_key(2048)
API = "/management/v1"


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    settings = Settings(
        data_dir=str(tmp_path),
        storage=StorageSettings(fsync=False),
        gateway=GatewaySettings(auth_mode="oidc"),
        oidc=OidcSettings(public_key=KEY.as_pem(private=False).decode()),
        auth=AuthSettings(authorizer="grants", operators="ops"),
    )
    prepare_store(settings)
    opened = open_kernel(settings)
    yield opened
    opened.close()


class Api:
    """Requests of principals, of whom `op` is an operator."""

    def __init__(self, client: Any, account: str) -> None:
        self._client = client
        self._account = account

    def send(
        self,
        who: str,
        method: str,
        path: str,
        body: Any = None,
        *,
        account: str | None = None,
        groups: str = "",
    ) -> Any:
        roles = ["ops"] if who == "op" else groups.split()
        claims = {"sub": who, "account_id": account or self._account, "roles": roles}
        token = jwt.encode({"alg": "RS256"}, claims | {"exp": int(time.time()) + 600}, KEY)
        where = path if path.startswith("/") else f"{API}/{path}"
        return self._client.request(method, where, json=body, headers={"authorization": f"Bearer {token}"})

    def ok(self, *args: Any, **options: Any) -> Any:
        answer = self.send(*args, **options)
        assert answer.is_success, (args, answer.text)
        return answer.json() if answer.content else None

    def refused(self, status: int, *args: Any, **options: Any) -> str:
        answer = self.send(*args, **options)
        assert answer.status_code == status, (args, answer.text)
        error = answer.json()["error"]
        assert error["code"] == status
        return str(error["message"])


@pytest.fixture
def api(kernel: Kernel) -> Iterator[Api]:
    app = create_app(kernel.settings, kernel)
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as running:
        yield Api(running, str(kernel.settings.gateway.default_account_id))


def granted(on: str, grantee: str, *privileges: str) -> dict[str, Any]:
    return {"on": on, "grantee": grantee, "privileges": privileges}


def test_a_team_gets_a_tree_of_its_own(api: Api) -> None:
    api.ok("op", "POST", "/v1/namespaces", {"namespace": ["marketing"]})
    assert api.ok("op", "POST", "roles", {"name": "marketing"}) == {"changes": ["create role marketing"]}
    api.ok("op", "POST", "roles/marketing/members", {"add": ["group:marketing"]})
    api.ok("op", "POST", "access/grants", granted("catalog:floecat", "role:marketing", "use_catalog"))
    owner = {"on": "namespace:floecat.marketing", "owner": "role:marketing"}
    assert api.ok("op", "POST", "access/owner", owner) == owner
    eve = {"groups": "marketing"}
    api.ok("eve", "POST", "/v1/namespaces", {"namespace": ["marketing", "leads"]}, **eve)
    assert "create_schema" in api.refused(403, "eve", "POST", "/v1/namespaces", {"namespace": ["x"]}, **eve)
    # she gives away what the team has, and no more
    inner = "namespace:floecat.marketing.leads"
    api.ok("eve", "POST", "access/grants", granted(inner, "group:sales", "read_table"), **eve)
    above = granted("catalog:floecat", "group:sales", "use_catalog")
    assert "manage_grants on catalog" in api.refused(403, "eve", "POST", "access/grants", above, **eve)
    assert "manage_roles" in api.refused(403, "eve", "POST", "roles", {"name": "x"}, **eve)
    (grant,) = api.ok("eve", "GET", f"access/grants?on={inner}", **eve)["grants"]
    assert (grant["grantee"], grant["privilege"], grant["on"]) == ("group:sales", "read_table", inner)
    holders = api.ok("eve", "GET", f"access/who?on={inner}&privilege=read_table", **eve)
    assert holders["complete"] is True
    assert {each["grantee"] for each in holders["holders"]} == {
        "principal:eve",
        "principal:op",
        "role:marketing",
        "group:marketing in role:marketing",
        "group:sales",
    } - {"principal:op"}
    told = api.ok("eve", "GET", f"access/explain/read_table?on={inner}&principal=bob&group=sales", **eve)
    reason = "group:sales has read_table on namespace marketing:leads of catalog floecat"
    assert told == {"allowed": True, "reasons": [reason]}
    api.ok("eve", "POST", "access/grants/revoke", granted(inner, "group:sales", "read_table"), **eve)
    assert api.ok("eve", "GET", f"access/grants?on={inner}", **eve) == {"grants": [], "next-page-token": None}
    own = api.ok("eve", "GET", f"access/me?on={inner}", **eve)
    assert (own["principal"], own["groups"], own["roles"]) == ("eve", ["marketing"], ["marketing"])
    assert set(own["privileges"]) == set(Privilege)
    changes = api.ok("op", "GET", "access/history?pageSize=2")
    assert changes["changes"][0]["principal"] == "eve"
    assert api.ok("op", "GET", f"access/history?pageToken={changes['next-page-token']}")["changes"]
    api.ok("op", "DELETE", "roles/marketing")
    assert api.refused(404, "op", "GET", "roles/marketing") == "There is no role marketing"


def _told(on: str) -> str:
    return str(parse_securable(on))


def test_principals(api: Api) -> None:
    api.ok("ada", "GET", "access/me")  # her first login
    found = api.ok("op", "GET", "principals")["principals"]
    assert [(each["name"], each["disabled"]) for each in found] == [("ada", False), ("op", False)]
    assert api.ok("op", "POST", "principals/ada", {"disabled": True})["changes"] == ["disable principal ada"]
    assert api.ok("op", "POST", "principals/ada", {"disabled": True})["changes"] == []
    assert "ada is disabled" in api.refused(403, "ada", "GET", "access/me")
    assert "itself" in api.refused(409, "op", "POST", "principals/op", {"disabled": True})
    assert "itself" in api.refused(409, "op", "DELETE", "principals/op")
    api.ok("op", "POST", "principals/ada", {"disabled": False})
    api.ok("op", "POST", "access/grants", granted("account", "principal:ada", "manage_principals"))
    assert "itself" in api.refused(409, "ada", "POST", "principals/ada", {"disabled": True})
    api.ok("op", "DELETE", "principals/ada")
    assert "no principal ada" in api.refused(404, "op", "GET", "principals/ada")
    strange = "a/b %2F é\"'"
    api.ok("op", "POST", f"principals/{quote(strange, safe='')}", {"disabled": True})
    assert api.ok("op", "GET", f"principals/{quote(strange, safe='')}")["name"] == strange


def test_a_stranger_sees_and_changes_nothing(api: Api) -> None:
    api.ok("op", "POST", "roles", {"name": "secret"})
    api.ok("op", "POST", "/v1/namespaces", {"namespace": ["secret"]})
    other = {"account": str(uuid4()), "groups": "ops"}  # an operator of another account
    for path in ("roles/secret", "principals/op", "access/who?on=catalog:floecat"):
        assert "secret" not in api.refused(404, "eve", "GET", path, **other).replace("role secret", "")
    assert api.ok("eve", "GET", "roles", **other)["roles"] == []
    assert api.ok("eve", "GET", "access/history", **other)["changes"] == []
    requests: list[tuple[Any, ...]] = [
        ("GET", "principals"),
        ("GET", "principals/op"),
        ("POST", "principals/op", {"disabled": True}),
        ("DELETE", "principals/op"),
        ("GET", "roles"),
        ("POST", "roles", {"name": "x"}),
        *(
            (method, f"roles/{role}{more}", *body)
            for role in ("secret", "none")
            for method, more, *body in (
                ("GET", ""),
                ("DELETE", ""),
                ("POST", "/members", {"add": ["principal:eve"]}),
            )
        ),
        *(
            request
            for on in ("namespace:floecat.secret", "namespace:floecat.none", "table:none.x.y", "account")
            for request in (
                ("GET", f"access/grants?on={on}"),
                ("POST", "access/grants", granted(on, "principal:eve", "read_table")),
                ("POST", "access/grants/revoke", granted(on, "principal:op", "read_table")),
                ("GET", f"access/owner?on={on}"),
                ("POST", "access/owner", {"on": on, "owner": "principal:eve"}),
                ("GET", f"access/explain/read_table?on={on}&principal=op"),
                ("GET", f"access/who?on={on}"),
            )
        ),
        ("GET", "access/grants?grantee=principal:op"),
        ("GET", "access/history"),
    ]
    before = api.ok("op", "GET", "access/history")
    answers = {}
    for request in requests:
        message = api.refused(403, "eve", *request)
        assert message.startswith("eve does not have the privilege "), message
        answers[repr(request)] = message
    assert api.ok("op", "GET", "access/history")["changes"][1:] == before["changes"]  # but her first login
    for on in ("namespace:floecat.secret", "namespace:floecat.none"):  # about herself, and the same for both
        told = api.ok("eve", "GET", f"access/explain/drop_schema?on={on}")
        assert told["allowed"] is False
        assert told["reasons"] == [f"drop_schema is needed on {_told(on)}, or on what it is in"]
        assert api.ok("eve", "GET", f"access/me?on={on}")["privileges"] == []


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "access/who?on=floecat", None, 400),
        ("GET", "access/who?on=catalog:a.b", None, 400),
        ("GET", "access/who?on=table:floecat.t", None, 400),
        ("GET", "access/who?on=namespace:floecat.", None, 400),
        ("GET", "access/who?on=namespace:floecat.%00", None, 400),
        ("GET", "access/who?on=table:floecat.a.%FF", None, 404),
        ("GET", "access/who?on=catalog:%00", None, 400),
        ("GET", "access/who?on=catalog:none", None, 404),
        ("GET", "access/who?on=namespace:floecat" + ".a" * 40, None, 400),
        ("GET", "access/who?privilege=all", None, 400),
        ("GET", "access/who?pageSize=0", None, 400),
        ("GET", "access/who?unknown=1", None, 400),
        ("GET", "access/explain/fly?principal=ada", None, 400),
        ("GET", "access/explain/read_table?group=x", None, 400),
        ("GET", "access/grants?on=account&grantee=role:x", None, 400),
        ("GET", "access/grants?grantee=x", None, 400),
        ("GET", "access/grants?grantee=role:none", None, 404),
        ("GET", "access/grants?pageToken=abc", None, 400),
        ("GET", "access/history?pageToken=abc", None, 400),
        ("GET", "roles/%00", None, 404),
        ("GET", "principals/%00", None, 404),
        ("DELETE", "roles/none", None, 404),
        ("DELETE", "principals/none", None, 404),
        ("POST", "principals/%0A", {"disabled": True}, 400),
        ("POST", "principals/" + "x" * 601, {"disabled": True}, 400),
        ("POST", "principals/ada", {}, 400),
        ("POST", "principals/ada", {"disabled": "yes"}, 400),
        ("POST", "roles", {"name": ""}, 400),
        ("POST", "roles", {"name": "a:b"}, 400),
        ("POST", "roles", {"name": "\x00"}, 400),
        ("POST", "roles", {"name": "x", "owner": "y"}, 400),
        ("POST", "roles/none/members", {"add": ["group:x"]}, 404),
        ("POST", "roles/r/members", {"add": ["group:x"] * 1_001}, 200),
        ("POST", "roles/r/members", {"add": [f"group:{number}" for number in range(1_001)]}, 400),
        ("POST", "roles/r/members", {"add": ["role:r"]}, 409),
        ("POST", "roles/r/members", {"add": ["role:none"]}, 404),
        ("POST", "roles/r/members", {"add": ["x"]}, 400),
        ("POST", "access/grants", {}, 400),
        ("POST", "access/grants", granted("account", "group:x", "fly"), 400),
        ("POST", "access/grants", granted("account", "role:none", "read_table"), 404),
        ("POST", "access/grants", granted("table:floecat.a.none", "group:x", "read_table"), 404),
        ("POST", "access/grants", granted("account", "group:x"), 200),
        ("POST", "access/owner", {"on": "account", "owner": "role:r"}, 400),
        ("POST", "access/owner", {"on": "catalog:floecat", "owner": "group:x"}, 400),
    ],
)
def test_what_is_malformed_is_told(api: Api, method: str, path: str, body: Any, status: int) -> None:
    api.ok("op", "POST", "roles", {"name": "r"})
    if status < 400:
        api.ok("op", method, path, body)
    else:
        assert api.refused(status, "op", method, path, body)


@pytest.mark.parametrize("name", ["a.b", 'a"b', "a b", "~", "%2F", "été", ":", "a:b"])
def test_names_of_things_are_read_as_they_are_written(name: str) -> None:
    for on in (
        Securable("account", ""),
        Securable("catalog", "floecat"),
        Securable("namespace", "floecat", (name, name)),
        Securable("table", "floecat", (name,), name),
        Securable("view", "floecat", (name,), name),
    ):
        assert parse_securable(written_securable(on)) == on
    with pytest.raises(BadRequestError):
        parse_securable(f"user:{name}")
