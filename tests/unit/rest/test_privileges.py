"""Refusals over HTTP: of every kind of load, and in the shape of the protocol."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey
from litestar.testing import TestClient

from floecat.auth.actors import Actor
from floecat.auth.authorizer import Privilege, Securable
from floecat.auth.principals import Principal
from floecat.runtime import Kernel, open_kernel, prepare_store
from floecat.settings import GatewaySettings, OidcSettings, Settings, StorageSettings, StoreSettings
from floecat.settings.groups.process import AuthSettings
from floecat_rest.app import create_app
from tests.grants import Grants
from tests.unit.rest.conftest import SCHEMA
from tests.view_documents import view_version

KEY = RSAKey.generate_key(2048)
TABLES = "/v1/floecat/namespaces/ns/tables"
READ = (Privilege.READ_TABLE, Securable("table", "floecat", ("ns",), "t"))


_BOTH_STORES = pytest.mark.parametrize(
    "settings", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)], indirect=True
)


@pytest.fixture
def settings(
    tmp_path: Path, request: pytest.FixtureRequest, upgraded_store: Callable[[str], str]
) -> Settings:
    url = upgraded_store(getattr(request, "param", "sqlite"))
    made = Settings(
        data_dir=str(tmp_path),
        storage=StorageSettings(fsync=False),
        store=StoreSettings(url=url),
        gateway=GatewaySettings(auth_mode="oidc"),
        oidc=OidcSettings(public_key=KEY.as_pem(private=False).decode()),
    )
    prepare_store(made)
    return made


@pytest.fixture
def grants() -> Grants:
    made = Grants()
    made.grant_all("ada", "floecat")
    return made


@pytest.fixture
def kernel(settings: Settings, grants: Grants) -> Iterator[Kernel]:
    opened = open_kernel(settings, authorizer=grants)
    yield opened
    opened.close()


@pytest.fixture
def client(settings: Settings, kernel: Kernel) -> Iterator[TestClient[Any]]:
    with TestClient(
        create_app(settings, kernel),
        base_url="http://127.0.0.1",
        raise_server_exceptions=False,
    ) as running:
        ada = token(settings, "ada")
        assert running.post("/v1/namespaces", json={"namespace": ["ns"]}, headers=ada).is_success
        assert running.post(TABLES, json={"name": "t", "schema": SCHEMA}, headers=ada).is_success
        yield running


def token(settings: Settings, name: str, **claims: Any) -> dict[str, str]:
    """Headers of a request by a principal."""
    account = str(settings.gateway.default_account_id)
    claims = {"sub": name, "account_id": account, "exp": int(time.time()) + 600} | claims
    return {"authorization": f"Bearer {jwt.encode({'alg': 'RS256'}, claims, KEY)}"}


def assert_refused(answer: Any, text: str) -> None:
    assert answer.status_code == 403, answer.text
    error = answer.json()["error"]
    assert (error["type"], error["code"]) == ("ForbiddenException", 403)
    assert error["message"] == text


@_BOTH_STORES
def test_loads_that_are_warm_are_refused_too(client: Any, settings: Settings, grants: Grants) -> None:
    ada = token(settings, "ada")
    tag = client.get(f"{TABLES}/t", headers=ada).headers["etag"]
    cached = ada | {"if-none-match": tag}
    refused = "ada does not have the privilege read_table on table ns.t of catalog floecat"
    for _ in range(2):
        assert client.get(f"{TABLES}/t", headers=ada).status_code == 200
        assert client.get(f"{TABLES}/t", headers=cached).status_code == 304
        grants.deny_only(READ)
        for headers in (ada, cached):
            assert_refused(client.get(f"{TABLES}/t", headers=headers), refused)
            assert_refused(client.get(f"{TABLES}/t?snapshots=refs", headers=headers), refused)
        assert client.head(f"{TABLES}/t", headers=ada).status_code == 403
        grants.deny_only((Privilege.USE_CATALOG, Securable("catalog", "floecat")))
        for headers in (ada, cached):
            answer = client.get(f"{TABLES}/t", headers=headers)
            assert_refused(answer, "ada does not have the privilege use_catalog on catalog floecat")
        grants.deny_only()


@_BOTH_STORES
def test_what_one_principal_loads_is_not_there_for_another(client: Any, settings: Settings) -> None:
    ada, eve = token(settings, "ada"), token(settings, "eve")
    tag = client.get(f"{TABLES}/t", headers=ada).headers["etag"]
    for _ in range(2):
        assert client.get(f"{TABLES}/t", headers=ada).status_code == 200
        assert client.get(f"{TABLES}/t", headers=eve).status_code == 403
        assert client.get(f"{TABLES}/t", headers=eve | {"if-none-match": tag}).status_code == 403


def test_a_refusal_does_not_tell_what_exists(client: Any, settings: Settings, grants: Grants) -> None:
    eve = token(settings, "eve")
    for path in ("/v1/floecat", "/v1/nothing"):
        assert client.get(f"{path}/namespaces", headers=eve).status_code == 403
        assert client.get(f"{path}/namespaces/ns/tables/t", headers=eve).status_code == 403
    assert client.get("/v1/config?warehouse=nothing", headers=eve).status_code == 403
    grants.grant("eve", Privilege.USE_CATALOG, "floecat")
    assert client.get("/v1/config", headers=eve).status_code == 200
    for name in ("t", "nothing"):
        text = f"eve does not have the privilege read_table on table ns.{name} of catalog floecat"
        assert_refused(client.get(f"{TABLES}/{name}", headers=eve), text)
    for path in ("namespaces/ns", "namespaces/nothing", "namespaces/ns/tables", "namespaces/nothing/tables"):
        assert client.get(f"/v1/floecat/{path}", headers=eve).status_code == 403


def test_roles_of_a_token_are_granted_to(client: Any, settings: Settings, grants: Grants) -> None:
    grants.grant_all("engineers", "floecat")
    assert client.get(f"{TABLES}/t", headers=token(settings, "bob")).status_code == 403
    for roles in (["engineers"], ["other", "engineers", 7], "engineers"):
        assert client.get(f"{TABLES}/t", headers=token(settings, "bob", roles=roles)).status_code == 200
    for wrong in ("other engineers", {"engineers": True}, None, ["Engineers"]):
        assert client.get(f"{TABLES}/t", headers=token(settings, "bob", roles=wrong)).status_code == 403


def test_management_asks_too(client: Any, settings: Settings, grants: Grants) -> None:
    grants.grant("eve", Privilege.USE_CATALOG, "floecat")
    eve, path = token(settings, "eve"), "/management/v1/catalogs/floecat"
    body = {"name": "c", "kind": "delta", "location": settings.warehouse_location}
    text = "eve does not have the privilege {} on catalog floecat"
    assert_refused(client.get(f"{path}/connectors", headers=eve), text.format("read_connectors"))
    refused = client.post(f"{path}/connectors", json=body, headers=eve)
    assert_refused(refused, text.format("manage_connectors"))
    assert client.post(f"{path}/connectors/c/scan", headers=eve).status_code == 403
    assert client.delete(f"{path}/connectors/c", headers=eve).status_code == 403
    assert_refused(client.post(path, json={}, headers=eve), text.format("manage_catalog"))
    assert_refused(client.delete(path, headers=eve), text.format("manage_catalog"))
    delta = {"name": "d", "format": "delta", "location": f"{settings.warehouse_location}/d"}
    answer = client.post(f"{path}/namespaces/ns/tables", json=delta, headers=eve)
    assert answer.status_code == 403


def test_in_dev_mode_everybody_may_do_everything(settings: Settings) -> None:
    gateway = msgspec.structs.replace(settings.gateway, auth_mode="dev")
    with TestClient(
        create_app(msgspec.structs.replace(settings, gateway=gateway)),
        base_url="http://127.0.0.1",
    ) as client:
        assert client.post("/v1/namespaces", json={"namespace": ["dev"]}).is_success
        assert client.get("/v1/namespaces/dev").is_success


@pytest.fixture
def engine(settings: Settings, kernel: Kernel) -> Iterator[TestClient[Any]]:
    """A service with grants of the store, which trusts the client `trino`; `v` of ada reads `t`."""
    chosen = msgspec.structs.replace(
        settings, auth=AuthSettings(authorizer="grants", operators="ops", trusted_engines=("trino",))
    )
    opened = Kernel(chosen, kernel.store, kernel.files, kernel.clock)
    operator = Actor(
        Principal("op", settings.gateway.default_account_id, groups=("ops",)), opened.access.authorizer
    )

    def grant(to: str, securable: Securable, *privileges: Privilege) -> None:
        opened.access.access.grant(operator, privileges, securable, f"principal:{to}")

    with TestClient(create_app(chosen, opened), base_url="http://127.0.0.1") as running:
        ops = token(settings, "op", roles=["ops"])
        assert running.post("/v1/namespaces", json={"namespace": ["ns"]}, headers=ops).is_success
        assert running.post(TABLES, json={"name": "t", "schema": SCHEMA}, headers=ops).is_success
        for name in ("ada", "eve"):
            grant(name, Securable("catalog", "floecat"), Privilege.USE_CATALOG)
        grant("ada", Securable("namespace", "floecat", ("ns",)), Privilege.CREATE_VIEW)
        grant("ada", READ[1], Privilege.READ_TABLE)
        version = view_version() | {
            "representations": [{"type": "sql", "sql": "SELECT * FROM t", "dialect": "trino"}]
        }
        view = {"name": "v", "schema": SCHEMA, "view-version": version, "properties": {}}
        made = running.post("/v1/floecat/namespaces/ns/views", json=view, headers=token(settings, "ada"))
        assert made.is_success, made.text
        grant("eve", Securable("view", "floecat", ("ns",), "v"), Privilege.READ_VIEW)
        yield running
    opened.close()


def test_an_engine_that_is_trusted_reads_through_a_view(engine: TestClient[Any], settings: Settings) -> None:
    ada, eve = token(settings, "ada"), token(settings, "eve", azp="trino")
    other = token(settings, "eve", azp="other")
    definer = "/management/v1/catalogs/floecat/namespaces/ns/views/v/definer"
    through = "?referenced-by=ns%1Fv"
    plan = f"{TABLES}/t/plan{through}"
    assert engine.get(f"{TABLES}/t{through}", headers=eve).status_code == 403
    assert engine.get(definer, headers=eve).json() == {"definer": False}
    assert engine.put(definer, headers=eve).status_code == 403
    assert engine.put(definer, headers=ada).json() == {"definer": True}
    for _ in range(2):  # also once it is in memory
        for query in (through, f"{through}&snapshots=refs", f"?snapshots=all&{through[1:]}"):
            assert engine.get(f"{TABLES}/t{query}", headers=eve).status_code == 200
        refused = engine.get(f"{TABLES}/t", headers=eve)
        assert refused.status_code == 403
        assert engine.get(f"{TABLES}/t{through}", headers=other).status_code == 403
    assert engine.post(plan, json={}, headers=eve).status_code == 200
    assert engine.post(plan, json={}, headers=other).status_code == 403
    wrong = engine.get(f"{TABLES}/t?referenced-by=v", headers=eve)
    assert (wrong.status_code, wrong.json()["error"]["type"]) == (400, "BadRequestException")
    assert engine.get(f"{TABLES}/t?referenced-by=v", headers=other).status_code == 403  # it is not read
    assert engine.delete(definer, headers=ada).status_code == 204
    assert engine.get(f"{TABLES}/t{through}", headers=eve).status_code == 403
