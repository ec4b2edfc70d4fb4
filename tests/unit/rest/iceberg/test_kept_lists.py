"""What a list that is kept answers equals what the application answers, whatever was done in between."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey
from litestar.testing import TestClient

from floecat.auth.actors import Actor
from floecat.auth.authorizer import AllowAll, Privilege, Securable
from floecat.auth.principals import Principal
from floecat.entries.calls import Call, Page
from floecat.errors import StoreUnavailableError
from floecat.identifiers.namespace import Namespace
from floecat.runtime import Kernel, prepare_store
from floecat.runtime import kernel as opened_kernel
from floecat.settings import GatewaySettings, OidcSettings, Settings, StorageSettings, StoreSettings
from floecat.settings.groups.process import AuthSettings
from floecat_rest.app import create_app

SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}
VIEW = {
    "version-id": 1,
    "timestamp-ms": 1,
    "schema-id": 0,
    "summary": {},
    "default-namespace": ["a"],
    "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
}
ROOT = "/v1/floecat/namespaces"
SCHEMAS = f"/api/metalakes/{GatewaySettings().default_account_id}/catalogs/floecat/schemas"
LISTS = (
    *(f"{SCHEMAS}{query}" for query in ("", "?parentSchema=a", "?parentSchema=a:b")),
    *(f"{ROOT}/{levels}/{kind}" for levels in ("a", "a%1Fb") for kind in ("tables", "views")),
    *(f"{ROOT}{query}" for query in ("", "?parent=a", "?pageSize=5&pageToken=&parent=a%1Fb")),
)


@pytest.fixture
def client(kernel: Kernel) -> Iterator[TestClient]:
    with TestClient(
        create_app(kernel.settings, kernel), base_url="http://127.0.0.1", raise_server_exceptions=False
    ) as made:
        made.headers["accept-encoding"] = "identity"
        for namespace in (["a"], ["a", "b"]):
            assert made.post(ROOT, json={"namespace": namespace}).status_code == 200
        made.get(f"{ROOT}/a").raise_for_status()
        yield made


def is_kept(kernel: Kernel, client: TestClient, path: str, **headers: str) -> bool:
    """Whether a list is answered in one statement, the one that tells its state."""
    with kernel.store.count_statements() as counter:
        client.get(path, headers=headers).raise_for_status()
    return counter.statements == 1


@pytest.mark.parametrize("path", LISTS)
def test_a_list_is_kept_and_sent_again(kernel: Kernel, client: TestClient, path: str) -> None:
    first = client.get(path)
    assert is_kept(kernel, client, path)
    again = client.get(path)
    assert again.content == first.content
    kept = {"x-request-id", "date"}
    assert {n: v for n, v in again.headers.items() if n not in kept} == {
        n: v for n, v in first.headers.items() if n not in kept
    }
    assert again.headers["x-request-id"] != first.headers["x-request-id"]


def test_a_list_tells_of_every_change_at_once(client: TestClient) -> None:
    metadata = {}

    def create(levels: str, name: str) -> None:
        made = client.post(f"{ROOT}/{levels}/tables", json={"name": name, "schema": SCHEMA})
        metadata[name] = made.raise_for_status().json()["metadata-location"]

    def view(levels: str, name: str) -> None:
        body = {"name": name, "schema": SCHEMA, "view-version": VIEW, "properties": {}}
        client.post(f"{ROOT}/{levels}/views", json=body).raise_for_status()

    def rename(kind: str, old: str, new: str) -> None:
        source, destination = (
            {"namespace": each.split("/")[0].split("%1F"), "name": each.split("/")[1]} for each in (old, new)
        )
        body = {"source": source, "destination": destination}
        client.post(f"/v1/floecat/{kind}/rename", json=body).raise_for_status()

    def drop(path: str) -> None:
        client.delete(f"{ROOT}/{path}").raise_for_status()

    def register(levels: str, name: str, of: str) -> None:
        body = {"name": name, "metadata-location": metadata[of]}
        client.post(f"{ROOT}/{levels}/register", json=body).raise_for_status()

    def commit() -> None:
        change = {
            "identifier": {"namespace": ["a"], "name": "staged"},
            "requirements": [{"type": "assert-create"}],
            "updates": client.post(
                f"{ROOT}/a/tables", json={"name": "staged", "schema": SCHEMA, "stage-create": True}
            ).raise_for_status()
            and [
                {"action": "assign-uuid", "uuid": "6a6f1a0c-8d0e-4f9c-9a80-0a8b1cfb8c11"},
                {"action": "upgrade-format-version", "format-version": 2},
                {"action": "add-schema", "schema": SCHEMA},
                {"action": "set-current-schema", "schema-id": -1},
                {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
                {"action": "set-default-spec", "spec-id": -1},
                {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
                {"action": "set-default-sort-order", "sort-order-id": -1},
            ],
        }
        client.post("/v1/floecat/transactions/commit", json={"table-changes": [change]}).raise_for_status()

    changes: list[tuple[Callable[[], None], set[str]]] = [
        (lambda: create("a", "t"), {f"{ROOT}/a/tables"}),
        (lambda: view("a", "v"), {f"{ROOT}/a/views"}),
        (lambda: rename("tables", "a/t", "a%1Fb/t2"), {f"{ROOT}/a/tables", f"{ROOT}/a%1Fb/tables"}),
        (lambda: rename("views", "a/v", "a/v2"), {f"{ROOT}/a/views"}),
        (lambda: register("a", "r", "t"), {f"{ROOT}/a/tables"}),
        (commit, {f"{ROOT}/a/tables"}),
        (lambda: drop("a/tables/r"), {f"{ROOT}/a/tables"}),
        (lambda: drop("a/views/v2"), {f"{ROOT}/a/views"}),
        (
            lambda: client.post(ROOT, json={"namespace": ["a", "b", "c", "d"]}).raise_for_status() and None,
            {LISTS[-1], LISTS[2]},
        ),
        (
            lambda: client.post(SCHEMAS, json={"name": "z:y"}).raise_for_status() and None,
            {ROOT, SCHEMAS},
        ),
        (lambda: drop("a%1Fb%1Fc%1Fd"), set()),
        (lambda: drop("a%1Fb%1Fc"), {LISTS[-1], LISTS[2]}),
        (lambda: client.delete(f"{SCHEMAS}/z%3Ay").raise_for_status() and None, set()),
        (lambda: drop("z"), {ROOT, SCHEMAS}),
    ]
    number = count()
    before = {path: client.get(path).json() for path in LISTS}
    for change, changed in changes:
        change()
        after = {path: client.get(path).json() for path in LISTS}
        assert {path for path in LISTS if after[path] != before[path]} == changed
        # the application itself: no list of such a query was kept
        fresh = {path: client.get(f"{path}{'&' if '?' in path else '?'}x={next(number)}") for path in LISTS}
        assert after == {path: answer.json() for path, answer in fresh.items()}
        before = after


def test_a_list_is_kept_for_each_encoding(kernel: Kernel, client: TestClient) -> None:
    for number in range(40):
        client.post(ROOT, json={"namespace": ["a", f"child{number:030}"]}).raise_for_status()
    path = f"{ROOT}?parent=a"
    plain = client.get(path).content
    assert not is_kept(kernel, client, path, **{"accept-encoding": "gzip"})
    assert is_kept(kernel, client, path, **{"accept-encoding": "gzip"})
    with client.stream("GET", path, headers={"accept-encoding": "gzip"}) as answer:
        assert answer.headers["content-encoding"] == "gzip"
        assert gzip.decompress(b"".join(answer.iter_raw())) == plain


@pytest.mark.parametrize(
    "path",
    [
        f"{ROOT}/a/tables?tableType=x",
        f"{ROOT}?parent=a+b",
        f"{ROOT}?parent=a&parent=b",
        f"{ROOT}?%70arent=a",
        f"{ROOT}/a/tables?%74ableType=x",
        f"{ROOT}/a/tables?x=1",
        f"{ROOT}/a/tables?{'x' * 512}",
        f"{SCHEMAS}?parentSchema=a&parentSchema=b",
        f"{SCHEMAS}?parentSchema=%C3%A9",
        f"{SCHEMAS}?%70arentSchema=a",
    ],
)
def test_what_may_be_read_in_two_ways_is_not_kept(
    kernel: Kernel, client: TestClient, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(kernel.catalog.list_states, "state", lambda *arguments: asked.append(arguments))
    client.get(path)
    assert not asked
    client.get(f"{ROOT}/a/tables")
    assert asked


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"{ROOT}?pageToken=wrong", 400),
        (f"{ROOT}/missing/tables", 404),
        (f"{SCHEMAS}?parentSchema=missing", 404),
        (f"{SCHEMAS}?parentSchema=a::b", 400),
        (SCHEMAS.replace("/5eaa", "/other"), 403),
    ],
)
def test_an_error_is_not_kept(client: TestClient, path: str, status: int) -> None:
    assert [client.get(path).status_code for _ in range(2)] == [status, status]


def test_a_list_that_changed_while_it_was_made_is_not_kept(
    kernel: Kernel, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, made = f"{ROOT}?parent=a", kernel.catalog.namespaces.list

    def list_while_one_comes(call: Call, *arguments: Any) -> Page[Namespace]:
        found = made(call, *arguments)
        kernel.catalog.namespaces.create(call, ("a", "late"), {})
        return found

    with monkeypatch.context() as patched:
        patched.setattr(kernel.catalog.namespaces, "list", list_while_one_comes)
        assert client.get(path).json()["namespaces"] == [["a", "b"]]
    assert client.get(path).json()["namespaces"] == [["a", "b"], ["a", "late"]]


def test_a_store_that_is_away_is_503(
    kernel: Kernel, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.get(f"{ROOT}/a/tables").raise_for_status()
    client.get(SCHEMAS).raise_for_status()

    def away(*_: object) -> None:
        raise StoreUnavailableError("away")

    monkeypatch.setattr(kernel.catalog.list_states, "state", away)
    assert client.get(f"{ROOT}/a/tables").status_code == 503
    answer = client.get(SCHEMAS)
    assert (answer.status_code, answer.json()["code"]) == (503, 1007)


def test_lists_of_schemas_follow_the_separator(kernel: Kernel, client: TestClient) -> None:
    path, management = f"{SCHEMAS}?parentSchema=a", "/management/v1/catalogs/floecat"
    assert client.get(path).json()["identifiers"][0]["name"] == "a:b"
    assert is_kept(kernel, client, path)
    client.post(management, json={"nested": False}).raise_for_status()
    assert [client.get(path).status_code for _ in range(2)] == [405, 405]
    client.post(management, json={"nested": True}).raise_for_status()
    assert client.get(path).json()["identifiers"][0]["name"] == "a:b"


def test_a_list_is_kept_for_a_principal_and_what_it_may_see(
    tmp_path: Path, upgraded_store: Callable[[str], str]
) -> None:
    key = RSAKey.generate_key(2048)
    settings = Settings(
        data_dir=str(tmp_path),
        storage=StorageSettings(fsync=False),
        store=StoreSettings(url=upgraded_store("sqlite")),
        gateway=GatewaySettings(auth_mode="oidc"),
        oidc=OidcSettings(public_key=key.as_pem(private=False).decode()),
        auth=AuthSettings(authorizer="grants"),
    )
    prepare_store(settings)
    account = settings.gateway.default_account_id

    def token(name: str) -> dict[str, str]:
        claims = {"sub": name, "account_id": str(account), "exp": int(time.time()) + 600}
        return {"authorization": f"Bearer {jwt.encode({'alg': 'RS256'}, claims, key)}"}

    def names(client: TestClient, who: str) -> list[str]:
        found = client.get(f"{ROOT}/a/tables", headers=token(who)).raise_for_status().json()
        return [each["name"] for each in found["identifiers"]]

    catalog = Securable("catalog", "floecat")
    operator = Actor(Principal("operator", account), AllowAll())
    # the other is another process, which changes access
    with opened_kernel(settings) as kernel, opened_kernel(settings) as other:
        access = other.access.access
        access.grant(operator, [*Privilege], catalog, "principal:ada")
        access.grant(operator, [Privilege.USE_CATALOG, Privilege.USE_SCHEMA], catalog, "principal:eve")
        with TestClient(create_app(settings, kernel), base_url="http://127.0.0.1") as client:
            client.post(ROOT, json={"namespace": ["a"]}, headers=token("ada")).raise_for_status()
            for name in ("t1", "t2"):
                body = {"name": name, "schema": SCHEMA}
                client.post(f"{ROOT}/a/tables", json=body, headers=token("ada")).raise_for_status()
            for _ in range(3):
                assert (names(client, "ada"), names(client, "eve")) == (["t1", "t2"], [])
            one = Securable("table", "floecat", ("a",), "t1")
            access.grant(operator, [Privilege.READ_TABLE], one, "principal:eve")
            for _ in range(3):
                assert (names(client, "ada"), names(client, "eve")) == (["t1", "t2"], ["t1"])
            access.revoke(operator, [Privilege.USE_SCHEMA], catalog, "principal:eve")
            assert client.get(f"{ROOT}/a/tables", headers=token("eve")).status_code == 403
            assert names(client, "ada") == ["t1", "t2"]
