"""Views that read with the rights of their owner, through engines that are trusted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import pytest
from msgspec import Raw

from floecat.auth.authorizer import Privilege, Securable
from floecat.auth.principals import Principal
from floecat.commits.view_commits import CreateView
from floecat.entries.calls import Call
from floecat.errors import BadRequestError, ForbiddenError, NoSuchTableError, NoSuchViewError
from floecat.identifiers.namespace import TableIdentifier
from floecat.runtime import Kernel
from floecat.settings.groups.process import AuthSettings
from tests.behaviour.catalog.changes import SCHEMA, create, set_property, table
from tests.updates import decode_view_updates
from tests.view_documents import view_version

P = Privilege
NS = Securable("namespace", "floecat", ("ns",))
CATALOG = Securable("catalog", "floecat")


def on(name: str, kind: str = "table") -> Securable:
    return Securable(kind, "floecat", ("ns",), name)  # type: ignore[arg-type]


class Lake(NamedTuple):
    """Table `t`, which only ada may read, and her view `v` of it, which eve may read."""

    kernel: Kernel
    operator: Call

    def call(self, name: str, *groups: str, client: str = "trino") -> Call:
        claims = {"azp": client}
        principal = Principal(name, self.operator.account_id, claims, groups)
        return self.kernel.catalog.calls.open(principal, "floecat")

    def grant(self, to: str, on: Securable, *privileges: Privilege) -> None:
        self.kernel.access.access.grant(self.operator, privileges, on, to)

    def view(self, call: Call, name: str, sql: str) -> None:
        version = view_version() | {"representations": [{"type": "sql", "sql": sql, "dialect": "spark"}]}
        request = CreateView(name, SCHEMA, Raw(json.dumps(version).encode()))
        self.kernel.commits.views.create(call, ("ns",), request)

    def read(self, call: Call, name: str, *views: str) -> None:
        chains = self.kernel.catalog.view_chains
        if views and chains.trusts(call.principal):
            call = chains.through(call, [table(each) for each in views], "table", table(name))
        self.kernel.catalog.tables.load(call, table(name))


@pytest.fixture
def lake(kernel: Kernel, call: Call) -> Iterator[Lake]:
    settings = msgspec.structs.replace(
        kernel.settings,
        auth=AuthSettings(authorizer="grants", operators="ops", trusted_engines=("trino", "engine")),
        gateway=msgspec.structs.replace(kernel.settings.gateway, auth_mode="oidc"),
    )
    secured = Kernel(settings, kernel.store, kernel.files, kernel.clock)
    made = Lake(
        secured, secured.catalog.calls.open(Principal("op", call.account_id, groups=("ops",)), "floecat")
    )
    for name in ("t", "u"):
        create(secured, made.operator, name)
    for name in ("ada", "bob", "eve", "engine"):
        made.grant(f"principal:{name}", CATALOG, P.USE_CATALOG)
    made.grant("principal:ada", on("t"), P.READ_TABLE)
    made.grant("principal:ada", NS, P.CREATE_VIEW)
    made.view(made.call("ada"), "v", 'SELECT * FROM ns."T"')
    for reader in ("eve", "engine"):
        made.grant(f"principal:{reader}", on("v", "view"), P.READ_VIEW)
    yield made
    secured.background.stop()


def define(lake: Lake, call: Call, name: str = "v", *, definer: bool = True) -> bool:
    return lake.kernel.catalog.marks.set_definer(call, table(name), definer=definer)


def test_a_table_is_read_with_the_rights_of_the_owner_of_the_view(lake: Lake) -> None:
    eve, ada = lake.call("eve"), lake.call("ada")
    with pytest.raises(ForbiddenError, match="eve does not have the privilege read_table"):
        lake.read(eve, "t", "v")  # by default with those of the caller
    assert define(lake, ada)
    assert not define(lake, ada)
    assert lake.kernel.catalog.marks.is_definer(eve, table("v"))
    lake.read(eve, "t", "v")
    lake.read(lake.call("engine", client="other"), "t", "v")
    for refused, name, *views in (
        (lake.call("eve", client="other"), "t", "v"),  # the word of others is not taken
        (eve, "t"),
        (eve, "u", "v"),
        (lake.call("bob"), "t", "v"),  # who may not read the view
    ):
        with pytest.raises(
            ForbiddenError, match=r"does not have the privilege read_table on table ns\.[tu] "
        ):
            lake.read(refused, name, *views)
    assert define(lake, ada, definer=False)
    with pytest.raises(ForbiddenError):
        lake.read(eve, "t", "v")


def test_it_is_the_right_to_read_this_table_alone(lake: Lake) -> None:
    define(lake, lake.call("ada"))
    lake.grant("principal:ada", on("t"), P.WRITE_TABLE)
    lake.grant("principal:ada", on("u"), P.READ_TABLE)
    call = lake.kernel.catalog.view_chains.through(lake.call("eve"), [table("v")], "table", table("t"))
    lake.kernel.catalog.tables.load(call, table("t"))
    for refused in (
        lambda: lake.kernel.catalog.tables.load(call, table("u")),
        lambda: lake.kernel.commits.tables.commit(call, set_property("t", "a", "b")),
        lambda: lake.kernel.catalog.tables.drop(call, table("t")),
    ):
        with pytest.raises(ForbiddenError, match="eve does not have"):
            refused()


def test_a_refusal_names_the_view(lake: Lake) -> None:
    define(lake, lake.call("ada"))
    lake.kernel.access.access.revoke(lake.operator, [P.READ_TABLE], on("t"), "principal:ada")
    lake.grant("principal:eve", on("t"), P.READ_TABLE)
    with pytest.raises(ForbiddenError, match=r"ada does not .* rights of the owner of view ns\.v$"):
        lake.read(lake.call("eve"), "t", "v")  # with the rights of ada, and not of eve
    lake.read(lake.call("eve"), "t")


def test_a_view_that_does_not_name_the_table_gives_nothing(lake: Lake) -> None:
    ada = lake.call("ada")
    lake.grant("principal:ada", on("u"), P.READ_TABLE)
    define(lake, ada)
    with pytest.raises(ForbiddenError, match=r"eve does not have .*: view ns\.v does not mention ns\.u$"):
        lake.read(lake.call("eve"), "u", "v")
    with pytest.raises(ForbiddenError, match=r": view ns\.x, by which .* is missing or may not be read$"):
        lake.read(lake.call("eve"), "t", "x")
    create(lake.kernel, lake.operator, 'a"b`c')
    lake.grant("principal:ada", on('a"b`c'), P.READ_TABLE)
    lake.view(ada, "quoted", 'SELECT * FROM "a""b`c"')
    lake.grant("principal:eve", on("quoted", "view"), P.READ_VIEW)
    define(lake, ada, "quoted")
    lake.read(lake.call("eve"), 'a"b`c', "quoted")


def test_chains_of_views(lake: Lake) -> None:
    """`outer` is bob's, and reads `v` of ada; eve may read `outer` alone."""
    lake.grant("principal:bob", NS, P.CREATE_VIEW)
    bob, eve = lake.call("bob"), lake.call("eve")
    lake.view(bob, "outer", "SELECT * FROM ns.v")
    lake.kernel.access.access.revoke(lake.operator, [P.READ_VIEW], on("v", "view"), "principal:eve")
    lake.grant("principal:eve", on("outer", "view"), P.READ_VIEW)
    define(lake, lake.call("ada"))
    with pytest.raises(ForbiddenError, match=r"view ns\.v, by which"):
        lake.read(eve, "t", "outer", "v")  # eve may not read v
    define(lake, bob, "outer")
    with pytest.raises(ForbiddenError, match=r"view ns\.v, by which"):
        lake.read(eve, "t", "outer", "v")  # nor may bob
    lake.grant("principal:bob", on("v", "view"), P.READ_VIEW)
    lake.read(eve, "t", "outer", "v")
    chains = lake.kernel.catalog.view_chains
    inner = chains.through(eve, [table("outer")], "view", table("v"))
    lake.kernel.catalog.views.load(inner, table("v"))
    with pytest.raises(ForbiddenError):
        lake.kernel.catalog.views.load(eve, table("v"))
    define(lake, lake.call("ada"), definer=False)
    with pytest.raises(ForbiddenError, match=r"bob does not .* rights of the owner of view ns\.outer$"):
        lake.read(eve, "t", "outer", "v")
    lake.grant("principal:bob", on("t"), P.READ_TABLE)
    lake.read(eve, "t", "outer", "v")


def test_only_the_owner_sets_it_and_changes_such_a_view(lake: Lake) -> None:
    ada, bob = lake.call("ada"), lake.call("bob")
    lake.grant("principal:bob", on("v", "view"), P.WRITE_VIEW, P.DROP_VIEW, P.RENAME_VIEW)
    lake.grant("principal:bob", NS, P.CREATE_VIEW)
    update = decode_view_updates(b'[{"action": "set-properties", "updates": {"a": "b"}}]')
    views = lake.kernel.commits.views
    views.replace(bob, table("v"), [], update)
    with pytest.raises(ForbiddenError, match=r"bob does not own view ns\.v"):
        define(lake, bob)
    with pytest.raises(ForbiddenError, match="write_view"):
        define(lake, lake.call("eve"))
    with pytest.raises(NoSuchViewError):
        define(lake, lake.operator, "t")
    define(lake, ada)
    for refused in (
        lambda: views.replace(bob, table("v"), [], update),
        lambda: define(lake, bob, definer=False),
    ):
        with pytest.raises(ForbiddenError, match=r"bob does not own view ns\.v"):
            refused()
    views.replace(ada, table("v"), [], update)
    assert lake.kernel.catalog.marks.is_definer(ada, table("v"))
    lake.kernel.catalog.views.rename(bob, table("v"), table("w"))
    assert lake.kernel.catalog.marks.is_definer(ada, table("w"))
    lake.kernel.catalog.views.drop(bob, table("w"))
    lake.view(bob, "w", "SELECT * FROM t")
    assert not lake.kernel.catalog.marks.is_definer(bob, table("w"))
    told = [each.change for each in lake.kernel.access.questions.history(lake.operator, None, 100).items]
    assert "view ns.v of catalog floecat reads with the rights of its owner" in told


def test_a_new_owner_does_not_lend_rights_to_what_another_wrote(lake: Lake) -> None:
    define(lake, lake.call("ada"))
    lake.grant("principal:bob", on("t"), P.READ_TABLE)
    lake.kernel.access.access.set_owner(lake.operator, on("v", "view"), "principal:bob")
    with pytest.raises(ForbiddenError, match="eve does not have"):
        lake.read(lake.call("eve"), "t", "v")
    define(lake, lake.call("bob"))
    lake.read(lake.call("eve"), "t", "v")


def test_an_owner_has_its_roles_and_no_groups_and_nothing_once_it_is_gone(lake: Lake) -> None:
    eve, access, roles = lake.call("eve"), lake.kernel.access.access, lake.kernel.access.roles
    access.revoke(lake.operator, [P.READ_TABLE], on("t"), "principal:ada")
    lake.grant("group:readers", on("t"), P.READ_TABLE)
    define(lake, lake.call("ada", "readers"))
    with pytest.raises(ForbiddenError, match="ada does not have"):
        lake.read(eve, "t", "v")
    roles.create(lake.operator, "readers")
    lake.grant("role:readers", on("t"), P.READ_TABLE)
    roles.change_members(lake.operator, "readers", add=["principal:ada"])
    lake.read(eve, "t", "v")
    lake.kernel.access.principals.set_disabled(lake.operator, "ada", disabled=True)
    with pytest.raises(ForbiddenError, match="ada is disabled"):
        lake.read(eve, "t", "v")
    lake.kernel.access.principals.set_disabled(lake.operator, "ada", disabled=False)
    access.set_owner(lake.operator, on("v", "view"), "role:readers")
    access.set_owner(lake.operator, on("t"), "role:readers")
    define(lake, lake.call("ada"))
    with pytest.raises(ForbiddenError, match=r"role:readers does not have the privilege use_catalog on"):
        lake.read(eve, "t", "v")
    lake.grant("role:readers", CATALOG, P.USE_CATALOG)
    lake.read(eve, "t", "v")
    roles.delete(lake.operator, "readers")
    with pytest.raises(ForbiddenError, match=r"rights of the owner of view ns\.v$"):
        lake.read(eve, "t", "v")


def test_names_of_views_as_clients_send_them(lake: Lake) -> None:
    chain = lake.kernel.catalog.resolver.chain
    assert chain("prod%1Fanalytics%1Fquarterly,prod%1Fmonthly") == [
        TableIdentifier(("prod", "analytics"), "quarterly"),
        TableIdentifier(("prod",), "monthly"),
    ]
    assert chain("ns%1Fa%2Cb+c%252C") == [TableIdentifier(("ns",), "a,b c%2C")]
    assert chain("a%1fb") == [TableIdentifier(("a",), "b")]
    for wrong in ("", "v", "ns%1F", "%1Fv", "ns%1Fv,", "ns%1F%FF", ",".join(["ns%1Fv"] * 17)):
        with pytest.raises(BadRequestError):
            chain(wrong)
    with pytest.raises(NoSuchTableError):
        lake.read(lake.operator, "missing", "v")
