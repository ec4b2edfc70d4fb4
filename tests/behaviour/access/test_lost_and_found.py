"""What nobody may lose or keep: odd names, grants in pages, owners, and answers to rights that are lost."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from litestar.testing import TestClient

from floecat.access.changes import ACCOUNT
from floecat.auth.actors import Actor
from floecat.auth.authorizer import AllowAll, Privilege
from floecat.auth.principals import Principal
from floecat.errors import NotFoundError
from floecat.runtime import Kernel
from floecat.settings import Settings
from floecat.store import page_tokens
from floecat.store.access import grants
from floecat.store.access.grants import GrantRow
from tests.behaviour.access.conftest import token
from tests.behaviour.access.requests import SCHEMA

_MANAGEMENT = "/management/v1"
_LAKE = "/v1/floecat/namespaces"


class _As:
    """Somebody who sends requests."""

    def __init__(self, client: TestClient, settings: Settings, name: str, *groups: str) -> None:
        self._client = client
        self._headers = token(settings, name, *groups)

    def __call__(self, method: str, path: str, body: object = None, status: int = 200, key: str = "") -> Any:
        keys = {"idempotency-key": key} if key else {}
        kwargs = {} if body is None else {"json": body}
        answer = self._client.request(method, path, headers={**self._headers, **keys}, **kwargs)  # type: ignore[arg-type]
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    def grant(self, on: str, grantee: str, *privileges: str, path: str = "") -> None:
        body = {"on": on, "grantee": grantee, "privileges": privileges}
        self("POST", f"{_MANAGEMENT}/access/grants{path}", body)


@pytest.fixture
def operator(client: TestClient, settings: Settings) -> _As:
    return _As(client, settings, "op", "platform")


@pytest.mark.parametrize("name", ["全\u3000角", "zero\u200bwidth", "a\u00a0b"])
def test_whoever_may_come_can_be_disabled(
    client: TestClient, settings: Settings, operator: _As, name: str
) -> None:
    odd = _As(client, settings, name)
    odd("GET", f"{_MANAGEMENT}/access/me")
    operator("POST", f"{_MANAGEMENT}/principals/{name}", {"disabled": True})
    odd("GET", f"{_MANAGEMENT}/access/me", status=403)


def test_no_grant_is_left_out_between_two_pages(operator: _As) -> None:
    # a blank sorts before letters: in "group:a b create_table" and "group:a read_table" it ends a name or not
    operator.grant("catalog:floecat", "group:a b", "create_table")
    operator.grant("catalog:floecat", "group:a", "read_table", "write_table")
    found, page = [], ""
    while page is not None:
        listed = f"{_MANAGEMENT}/access/grants?on=catalog:floecat&pageSize=1&pageToken={page}"
        answer = operator("GET", listed)
        found += [(each["grantee"], each["privilege"]) for each in answer["grants"]]
        page = answer["next-page-token"]
    assert found == [("group:a", "read_table"), ("group:a", "write_table"), ("group:a b", "create_table")]


@pytest.mark.parametrize("listing", ["access/history?", "access/grants?grantee=group:g&"])
def test_a_token_that_was_made_up_is_refused(operator: _As, settings: Settings, listing: str) -> None:
    operator.grant("catalog:floecat", "group:g", "use_catalog")
    of = (
        "grants to group:g"
        if "grants" in listing
        else f"access history {settings.gateway.default_account_id}"
    )
    operator("GET", f"{_MANAGEMENT}/{listing}pageToken={page_tokens.encode('none', of)}", status=400)


def test_who_gets_a_row_without_a_grant_owns_what_it_creates(
    client: TestClient, settings: Settings, operator: _As
) -> None:
    operator("POST", _LAKE, {"namespace": ["inner"]})
    operator.grant("catalog:floecat", "group:g", "use_catalog", "create_table")
    ada = _As(client, settings, "ada", "g")
    # it is decided about her before she has a row, which comes with a request that changes nothing else
    operator("GET", f"{_MANAGEMENT}/access/explain/use_catalog?on=catalog:floecat&principal=ada&group=g")
    operator("POST", f"{_MANAGEMENT}/principals/ada", {"disabled": False})
    ada("POST", f"{_LAKE}/inner/tables", {"name": "t", "schema": SCHEMA})
    ada("GET", f"{_LAKE}/inner/tables/t")


_CREATIONS = {
    "create_schema": ("", "namespace:floecat.inner.own", {"namespace": ["inner", "own"]}),
    "create_table": ("/inner/tables", "table:floecat.inner.t", {"name": "t", "schema": SCHEMA}),
}


@pytest.mark.parametrize("privilege", _CREATIONS)
def test_an_answer_is_not_told_again_to_who_lost_the_right(
    client: TestClient, settings: Settings, operator: _As, privilege: str
) -> None:
    path, made, body = _CREATIONS[privilege]
    operator("POST", _LAKE, {"namespace": ["inner"]})
    operator.grant("catalog:floecat", "principal:ada", "use_catalog", privilege)
    ada, key = _As(client, settings, "ada"), "018f3b1e-7b7a-7000-8000-000000000001"
    first = ada("POST", f"{_LAKE}{path}", body, key=key)
    assert ada("POST", f"{_LAKE}{path}", body, key=key) == first
    operator("POST", f"{_MANAGEMENT}/access/owner", {"on": made, "owner": "principal:bob"})
    operator.grant("catalog:floecat", "principal:ada", privilege, path="/revoke")
    ada("POST", f"{_LAKE}{path}", body, status=403, key=key)


def test_an_account_that_comes_back_has_no_rights_of_before(kernel: Kernel) -> None:
    account_id, access = uuid4(), kernel.access
    setup, granted = Actor(Principal("setup", account_id), AllowAll()), [Privilege.MANAGE_GRANTS]
    ada = Principal("ada", account_id, groups=("g",))
    asked = [(Privilege.MANAGE_GRANTS, ACCOUNT)]
    access.accounts.create("team", account_id)
    access.access.grant(setup, granted, ACCOUNT, "group:g")
    assert list(access.authorizer.allowed(ada, asked)) == [True]
    access.access.grant(setup, granted, ACCOUNT, "group:other")
    for group in ("g", "other"):
        access.access.revoke(setup, granted, ACCOUNT, f"group:{group}")
    access.accounts.delete("team")
    access.accounts.create("team", account_id)
    access.access.grant(setup, granted, ACCOUNT, "group:other")  # as many changes as there were
    assert list(access.authorizer.allowed(ada, asked)) == [False]


def test_a_grant_on_what_was_dropped_meanwhile_does_not_keep_an_account(kernel: Kernel) -> None:
    account_id = uuid4()
    kernel.access.accounts.create("team", account_id)
    # as a grant leaves it that has found a table just before a drop of it was committed
    row = GrantRow(account_id, "group:g", uuid4(), "read_table", "table", "op", 0)
    kernel.store.run(lambda conn: grants.insert(conn, row))
    kernel.access.accounts.delete("team")
    with pytest.raises(NotFoundError):
        kernel.access.accounts.describe("team")
