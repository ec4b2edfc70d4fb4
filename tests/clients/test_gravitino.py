"""Gravitino's own Python client, beside PyIceberg on the same tree, with logins and grants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from gravitino import GravitinoClient
from gravitino.api.authorization.owner import Owner
from gravitino.api.authorization.privileges import CreateSchema, UseCatalog, UseSchema
from gravitino.api.authorization.securable_objects import SecurableObjects
from gravitino.api.metadata_objects import MetadataObject, MetadataObjects
from gravitino.api.schema_change import SchemaChange
from gravitino.auth.auth_data_provider import AuthDataProvider
from gravitino.exceptions import base as refusals
from joserfc.jwk import RSAKey
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import ForbiddenError, NamespaceNotEmptyError, NoSuchNamespaceError

from tests.services.catalog import CatalogServer, running_catalog
from tests.services.identity_provider import oidc_environment, signed_token

ACCOUNT = "5eaa9cd5-7d08-3750-9457-cfe800b0b9d2"
CATALOG = "floecat"

pytestmark = pytest.mark.filterwarnings("ignore:Missing value of non-optional type:RuntimeWarning")


class _Token(AuthDataProvider):
    def __init__(self, token: str) -> None:
        self._token = token

    def has_token_data(self) -> bool:
        return True

    def get_token_data(self) -> bytes:
        return f"Bearer {self._token}".encode()

    def close(self) -> None:
        """Holds nothing."""


class Login(msgspec.Struct, frozen=True):
    """Somebody, through both clients."""

    gravitino: GravitinoClient
    iceberg: RestCatalog

    @property
    def schemas(self) -> Any:
        return self.gravitino.load_catalog(CATALOG).as_schemas()


@pytest.fixture(scope="module")
def key() -> RSAKey:
    return RSAKey.generate_key(2048)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, key: RSAKey) -> Iterator[CatalogServer]:
    rights = {"FLOECAT_AUTH_AUTHORIZER": "grants", "FLOECAT_AUTH_OPERATORS": "platform"}
    with running_catalog(tmp_path_factory.mktemp("secured"), oidc_environment(key) | rights) as made:
        yield made


@pytest.fixture(scope="module")
def log_in(server: CatalogServer, key: RSAKey) -> Callable[..., Login]:
    def logged_in(name: str, *groups: str) -> Login:
        token = signed_token(key, name, *groups)
        client = GravitinoClient(server.base_url, metalake_name=ACCOUNT, auth_data_provider=_Token(token))
        return Login(client, RestCatalog("c", uri=server.base_url, warehouse=CATALOG, token=token))

    return logged_in


@pytest.fixture(scope="module")
def admin(log_in: Callable[..., Login]) -> Login:
    return log_in("admin", "platform")


def test_schemas_are_namespaces(admin: Login):
    schemas = admin.schemas
    assert schemas.create_schema("A:B:C", "nested", {"k": "v"}).comment() == "nested"
    with pytest.raises(refusals.SchemaAlreadyExistsException):
        schemas.create_schema("A:B", None, {})
    schemas.create_schema("A:B:50% of it.all", None, None)
    assert schemas.list_schemas("A:B") == ["A:B:50% of it.all", "A:B:C"]
    assert schemas.list_schemas("A:B:C") == []
    assert admin.iceberg.list_namespaces(("A", "B")) == [("A", "B", "50% of it.all"), ("A", "B", "C")]
    admin.iceberg.create_namespace(("A", "B", "made by.PyIceberg"), {"comment": "there"})
    assert schemas.load_schema("A:B:made by.PyIceberg").comment() == "there"
    altered = schemas.alter_schema(
        "A:B:C", SchemaChange.set_property("p", "1"), SchemaChange.remove_property("k")
    )
    assert {key: value for key, value in altered.properties().items() if key != "location"} == {"p": "1"}
    assert admin.iceberg.load_namespace_properties(("A", "B", "C"))["p"] == "1"
    made = admin.schemas.load_schema("A:B:C").audit_info()
    assert (made.creator(), made.last_modifier()) == ("admin", "admin")
    assert (schemas.load_schema("A:B").audit_info().last_modifier(), schemas.schema_exists("A:B")) == (
        None,
        True,
    )
    with pytest.raises(refusals.NonEmptySchemaException, match="it holds 3 namespaces"):
        schemas.drop_schema("A:B", cascade=False)
    with pytest.raises(refusals.IllegalArgumentException, match="cascade"):
        schemas.drop_schema("A:B:C", cascade=True)
    assert schemas.drop_schema("A:B:C", cascade=False)
    assert not schemas.drop_schema("A:B:C", cascade=False)
    with pytest.raises(NoSuchNamespaceError):
        admin.iceberg.load_namespace_properties(("A", "B", "C"))
    with pytest.raises(refusals.NoSuchSchemaException):
        schemas.load_schema("A:B:C")
    for malformed in ("A:", ":A", "A::B"):
        with pytest.raises(refusals.IllegalArgumentException, match="a level is empty"):
            schemas.create_schema(malformed, None, None)


def test_metalakes_and_catalogs(admin: Login, server: CatalogServer, key: RSAKey):
    assert admin.gravitino.list_catalogs() == [CATALOG]
    assert [each.name() for each in admin.gravitino.list_catalogs_info()] == [CATALOG]
    with pytest.raises(refusals.NoSuchCatalogException):
        admin.gravitino.load_catalog("nope")
    token = _Token(signed_token(key, "admin", "platform"))
    with pytest.raises(refusals.ForbiddenException):
        GravitinoClient(server.base_url, metalake_name="other", auth_data_provider=token)
    closing = GravitinoClient(server.base_url, metalake_name=ACCOUNT, auth_data_provider=token)
    closing._rest_client.close()


def test_owners_users_roles_and_permissions(admin: Login, log_in: Callable[..., Login]):
    lake = admin.gravitino
    admin.schemas.create_schema("own:er", None, None)
    owned = MetadataObjects.of([CATALOG, "own:er"], MetadataObject.Type.SCHEMA)
    assert lake.get_owner(owned).name() == "admin"
    with pytest.raises(refusals.NotFoundException):
        lake.set_owner(owned, "bob", Owner.Type.USER)
    assert lake.add_user("bob").name() == "bob"
    with pytest.raises(refusals.UserAlreadyExistsException):
        lake.add_user("bob")
    lake.set_owner(owned, "bob", Owner.Type.USER)
    assert lake.get_owner(owned).name() == "bob"
    missing = MetadataObjects.of([CATALOG, "own:none"], MetadataObject.Type.SCHEMA)
    with pytest.raises(refusals.NoSuchMetadataObjectException):
        lake.get_owner(missing)
    on_catalog = SecurableObjects.of_catalog(CATALOG, [UseCatalog.allow()])
    on_schema = SecurableObjects.of_schema(on_catalog, "own", [UseSchema.allow()])
    role = lake.create_role("reader", {}, [on_catalog, on_schema])
    held = {each.full_name(): [p.name().name for p in each.privileges()] for each in role.securable_objects()}
    assert held == {CATALOG: ["USE_CATALOG"], f"{CATALOG}.own": ["USE_SCHEMA"]}
    with pytest.raises(refusals.RoleAlreadyExistsException):
        lake.create_role("reader", {}, [])
    none = SecurableObjects.of_schema(on_catalog, "own:none", [UseSchema.allow()])
    with pytest.raises(refusals.IllegalMetadataObjectException):
        lake.create_role("other", {}, [none])
    assert lake.list_role_names() == ["reader"]
    with pytest.raises(refusals.NoSuchRoleException):
        lake.get_role("other")
    lake.add_user("alice")
    assert list(lake.grant_roles_to_user(["reader"], "alice").roles()) == ["reader"]
    with pytest.raises(refusals.IllegalRoleException):
        lake.grant_roles_to_user(["none"], "alice")
    with pytest.raises(refusals.NoSuchUserException):
        lake.grant_roles_to_user(["reader"], "nobody")
    alice = log_in("alice")
    assert alice.schemas.load_schema("own:er").name() == "own:er"
    lake.grant_privileges_to_role("reader", owned, [CreateSchema.allow()])
    alice.schemas.create_schema("own:er:by:alice", None, None)
    assert (
        lake.get_owner(MetadataObjects.of([CATALOG, "own:er:by"], MetadataObject.Type.SCHEMA)).name()
        == "alice"
    )
    lake.revoke_privileges_from_role("reader", owned, [CreateSchema.allow()])
    with pytest.raises(refusals.ForbiddenException):
        alice.schemas.create_schema("own:er:more", None, None)
    assert list(lake.revoke_roles_from_user(["reader"], "alice").roles()) == []
    with pytest.raises(refusals.ForbiddenException):
        alice.schemas.load_schema("own:er")
    assert lake.remove_user("bob")
    assert not lake.remove_user("bob")
    assert lake.delete_role("reader")
    assert not lake.delete_role("reader")


ALLOWED = {
    # what is granted on what: list, load, create below, create where the top is missing, alter, drop
    (): "......",
    (("create_schema", "t:here"),): "..+...",
    (("use_schema", "t"),): "++....",
    (("use_schema", "t:here"),): ".+....",
    (("use_schema", "t:here2"),): "......",
    (("create_schema", "t"),): "..+...",
    (("create_schema", None),): "..++..",
    (("alter_schema", "t:here"),): "....+.",
    (("drop_schema", "t:here"),): ".....+",
    (("own", "t:here"),): ".++.++",
    (("own", "t"),): "+++.++",
}


def _steps(login: Login, side: str, number: int) -> Iterator[Callable[[], object]]:
    if side == "gravitino":
        schemas = login.schemas
        yield lambda: schemas.list_schemas("t")
        yield lambda: schemas.load_schema("t:here")
        yield lambda: schemas.create_schema(f"t:here:a{number}:b", None, None)
        yield lambda: schemas.create_schema(f"z{number}:a:b", None, None)
        yield lambda: schemas.alter_schema("t:here", SchemaChange.set_property("p", "1"))
        yield lambda: schemas.drop_schema("t:here", cascade=False)
    else:
        yield lambda: login.iceberg.list_namespaces("t")
        yield lambda: login.iceberg.load_namespace_properties("t.here")
        yield lambda: login.iceberg.create_namespace(("t", "here", f"a{number}", "b"))
        yield lambda: login.iceberg.create_namespace((f"z{number}", "a", "b"))
        yield lambda: login.iceberg.update_namespace_properties("t.here", updates={"p": "1"})
        yield lambda: login.iceberg.drop_namespace("t.here")


def _may(step: Callable[[], object]) -> str:
    try:
        step()
    except (ForbiddenError, refusals.ForbiddenException):
        return "."
    except (NamespaceNotEmptyError, refusals.NonEmptySchemaException):
        return "+"  # past the question
    return "+"


def test_both_sides_decide_the_same(admin: Login, log_in: Callable[..., Login], server: CatalogServer):
    for name in ("t:here:kept", "t:here2"):
        admin.schemas.create_schema(name, None, None)
    found: dict[Any, dict[str, str]] = {}
    http = admin.iceberg._session
    api = f"{server.base_url}/management/v1/access"
    for number, granted in enumerate(ALLOWED):
        name = f"user{number}"
        grants = [("use_catalog", None), *granted]
        for privilege, on in grants:
            place = CATALOG if on is None else f"{CATALOG}.{on.replace(':', '.')}"
            place = f"{'catalog' if on is None else 'namespace'}:{place}"
            if privilege == "own":
                http.post(f"{api}/owner", json={"on": place, "owner": f"principal:{name}"}).raise_for_status()
            else:
                body = {"on": place, "grantee": f"principal:{name}", "privileges": [privilege]}
                http.post(f"{api}/grants", json=body).raise_for_status()
        login = log_in(name)
        found[granted] = {
            side: "".join(map(_may, _steps(login, side, 2 * number + index)))
            for index, side in enumerate(("gravitino", "iceberg"))
        }
        for place in ("t", "t.here"):
            body = {"on": f"namespace:{CATALOG}.{place}", "owner": "principal:admin"}
            http.post(f"{api}/owner", json=body).raise_for_status()
    assert found == {
        granted: dict.fromkeys(("gravitino", "iceberg"), may) for granted, may in ALLOWED.items()
    }
